//! Invariant: a watcher receives every change of its range from its start revision on, once, in order, with
//! transactions whole, or is cancelled because what it needs was compacted.

use api::etcdserverpb::WatchResponse;
use bytes::Bytes;

use super::history::{KeyChange, RevisionHistory, change_of};
use super::model::is_within;
use crate::report::trace::Violation;

const CHECK: &str = "watches are complete";

/// What one watch must receive.
#[derive(Clone, Debug)]
pub(crate) struct OwedEvents {
    /// First key of its range.
    pub(crate) key: Bytes,
    /// End of the range, as in the API.
    pub(crate) range_end: Bytes,
    /// Puts are not wanted.
    pub(crate) no_put: bool,
    /// Deletions are not wanted.
    pub(crate) no_delete: bool,
    /// The first revision that it has not received.
    pub(crate) next: i64,
}

/// What a response means for the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchOutcome {
    /// It continues.
    Continues,
    /// Its revision was compacted: it must watch again, from this revision.
    Compacted(i64),
}

impl OwedEvents {
    /// Checks a response against the history.
    pub(crate) fn receive(
        &mut self,
        response: &WatchResponse,
        history: &RevisionHistory,
    ) -> Result<WatchOutcome, Violation> {
        if response.canceled {
            if response.compact_revision <= self.next {
                let text = format!(
                    "a watcher from {} was ended by a compaction at {}",
                    self.next, response.compact_revision
                );
                return Violation::err(CHECK, text);
            }
            return Ok(WatchOutcome::Compacted(response.compact_revision));
        }
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        if response.created {
            return Ok(WatchOutcome::Continues);
        }
        let newest = response.events.last().and_then(|event| event.kv.as_ref()).map(|kv| kv.mod_revision);
        // Without events it is a progress notification: everything up to its revision was sent.
        let through = newest.unwrap_or(revision);
        if response.events.is_empty() && through < self.next - 1 {
            return Ok(WatchOutcome::Continues);
        }
        let owed: Vec<(i64, &KeyChange)> =
            history.between(self.next, through).filter(|(_, change)| self.wants(change)).collect();
        let received: Vec<(i64, KeyChange)> = response
            .events
            .iter()
            .filter_map(|event| Some((event.kv.as_ref()?.mod_revision, change_of(event)?)))
            .collect();
        let same = owed.len() == received.len()
            && owed
                .iter()
                .zip(&received)
                .all(|(owed, received)| owed.0 == received.0 && *owed.1 == received.1);
        if !same {
            let text = format!(
                "a watcher of {:?}..{:?} from {} was sent\n  {received:?}\nbut must receive\n  {owed:?}",
                self.key, self.range_end, self.next
            );
            return Violation::err(CHECK, text);
        }
        self.next = through + 1;
        Ok(WatchOutcome::Continues)
    }

    /// Whether it has not received everything up to a revision.
    pub(crate) fn is_owed(&self, history: &RevisionHistory, through: i64) -> bool {
        let mut changes = history.between(self.next, through);
        changes.any(|(_, change)| self.wants(change))
    }

    /// Whether a change is in its range, and of a type that it wants.
    fn wants(&self, change: &KeyChange) -> bool {
        let is_unwanted = if change.kv.is_some() { self.no_put } else { self.no_delete };
        !is_unwanted && is_within(&change.key, &self.key, &self.range_end)
    }
}
