//! A watcher sees every change of its range from its start revision on, once, in order, transactions whole;
//! or it is told
//! that what it needs was compacted.

use api::etcdserverpb::WatchResponse;
use bytes::Bytes;

use super::history::{History, change};
use super::model::{Change, is_within};
use crate::report::Violation;

const CHECK: &str = "watches are complete";

/// What one watcher is owed.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    /// The range.
    pub(crate) key: Bytes,
    /// Its end.
    pub(crate) range_end: Bytes,
    /// The first revision it has not seen.
    pub(crate) next: i64,
}

/// What a response means for the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Go on.
    More,
    /// Its revision was compacted: it must start anew from this one.
    Compacted(i64),
}

impl Owed {
    /// Checks a response against the history.
    pub(crate) fn hear(&mut self, response: &WatchResponse, history: &History) -> Result<Heard, Violation> {
        if response.canceled {
            if response.compact_revision <= self.next {
                let text = format!(
                    "a watcher from {} was ended by a compaction at {}",
                    self.next, response.compact_revision
                );
                return Violation::err(CHECK, text);
            }
            return Ok(Heard::Compacted(response.compact_revision));
        }
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        if response.created {
            return Ok(Heard::More);
        }
        let newest = response.events.last().and_then(|event| event.kv.as_ref()).map(|kv| kv.mod_revision);
        // Without events it is a progress answer: everything up to its revision has been sent.
        let through = newest.unwrap_or(revision);
        if response.events.is_empty() && through < self.next - 1 {
            return Ok(Heard::More);
        }
        let owed: Vec<(i64, &Change)> = history
            .between(self.next, through)
            .filter(|(_, change)| is_within(&change.key, &self.key, &self.range_end))
            .collect();
        let heard: Vec<(i64, Change)> = response
            .events
            .iter()
            .filter_map(|event| Some((event.kv.as_ref()?.mod_revision, change(event)?)))
            .collect();
        let same = owed.len() == heard.len()
            && owed.iter().zip(&heard).all(|(owed, heard)| owed.0 == heard.0 && *owed.1 == heard.1);
        if !same {
            let text = format!(
                "a watcher of {:?}..{:?} from {} was sent\n  {heard:?}\nbut is owed\n  {owed:?}",
                self.key, self.range_end, self.next
            );
            return Violation::err(CHECK, text);
        }
        self.next = through + 1;
        Ok(Heard::More)
    }

    /// Whether something up to a revision is still owed.
    pub(crate) fn is_owed(&self, history: &History, through: i64) -> bool {
        let mut changes = history.between(self.next, through);
        changes.any(|(_, change)| is_within(&change.key, &self.key, &self.range_end))
    }
}
