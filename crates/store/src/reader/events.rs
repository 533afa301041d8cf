//! Events of the past, for watchers that catch up. The events of one revision are returned together; if there are many,
//! the lock is released in between, with the revision pinned.
//!
//! The events of a single key come from its own versions, those of a range from the revision log. Either way an event's
//! previous value is the version before its *revision*: a transaction that changes a key twice gives two events with
//! the same previous value, as in etcd.

use bytes::Bytes;

use super::handle::Reader;
use super::pinned::{PinnedRevision, from_the_beginning};
use crate::index::{KeyBounds, KeyIndex, KeyRecord, Version};
use crate::range::kv_ref;
use crate::state::{StateReplaced, StoreState};
use crate::types::{Event, EventKind, KeyRange, Revision};
use crate::watch::{Compacted, History};

impl History for Reader {
    fn current_revision(&self) -> i64 {
        Reader::current_revision(self)
    }

    fn compact_revision(&self) -> i64 {
        self.compacted().max(0)
    }

    fn events(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<(Vec<Event>, i64), Compacted> {
        from_the_beginning(|| self.events_of_one_state(range, from, max_events, max_steps))
    }
}

impl Reader {
    /// As [`History::events`]. The changes of one state are not those of another, so an installed snapshot ends the
    /// scan.
    fn events_of_one_state(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<Result<(Vec<Event>, i64), Compacted>, StateReplaced> {
        let state = self.shared.state.read();
        let (compacted, until) = (state.compacted, state.revision);
        if from < compacted {
            return Ok(Err(Compacted { at: compacted }));
        }
        let mut past = HistoryScan { compacted, until, events: Vec::new(), steps: 0, at: None };
        let newest = (until + 1).max(from);
        if range.end.is_empty() {
            let next = past.of_key(&state.index, &range.start, from, max_events, max_steps);
            return Ok(Ok((past.events, next.unwrap_or(newest))));
        }
        let bounds = range.bounds();
        let max_chunk = self.shared.limits.count_steps;
        let mut scan = |state: &StoreState| match past.of_range(
            &state.index,
            &bounds,
            from,
            (max_events, max_steps),
            max_chunk,
        ) {
            ScanEnd::Newest => Some(newest),
            ScanEnd::Enough(next) => Some(next),
            ScanEnd::Paused => None,
        };
        let mut next = scan(&state);
        if next.is_none() {
            // Events of `from` name versions that a read at the revision before sees.
            let pinned = PinnedRevision::new(&self.shared, &state, (from - 1).max(compacted));
            drop(state);
            while next.is_none() {
                next = scan(&*pinned.same_state()?);
            }
        }
        Ok(Ok((past.events, next.unwrap_or(newest))))
    }
}

/// Where a scan of the revision log stopped.
enum ScanEnd {
    /// After the newest revision.
    Newest,
    /// Before this revision, with enough events or after enough steps.
    Enough(i64),
    /// Anywhere, so that others get the lock: it goes on.
    Paused,
}

/// The events found so far.
struct HistoryScan {
    compacted: i64,
    /// The newest revision. Later changes are those of a command in progress.
    until: i64,
    events: Vec<Event>,
    /// Changes examined so far.
    steps: usize,
    /// The change at which a scan that paused goes on.
    at: Option<Revision>,
}

impl HistoryScan {
    /// Walks the key's own versions. Returns the revision at which it stopped; `None` if it reached the newest.
    fn of_key(
        &mut self,
        index: &KeyIndex,
        key: &Bytes,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Option<i64> {
        let record = index.record(key)?;
        // A search, because a watcher comes here once for every thousand versions of a long history.
        let skipped = record.versions_until(Revision { main: from - 1, sub: u32::MAX });
        let mut last = from;
        for (steps, version) in record.versions().skip(skipped).enumerate() {
            let main = version.revision.main;
            if main > self.until {
                break;
            }
            if main != last && (steps >= max_steps || self.events.len() >= max_events) {
                return Some(main);
            }
            last = main;
            self.push(key.clone(), record, &version);
        }
        None
    }

    /// Walks up to `max_chunk` changes of the revision log.
    fn of_range(
        &mut self,
        index: &KeyIndex,
        bounds: &KeyBounds<'_>,
        from: i64,
        (max_events, max_steps): (usize, usize),
        max_chunk: usize,
    ) -> ScanEnd {
        let entries = match self.at {
            Some(at) => index.log().iter_at(at),
            None => index.log().iter_from(from),
        };
        for (examined, entry) in entries.enumerate() {
            let main = entry.revision.main;
            if main > self.until {
                break;
            }
            // Stops between revisions only, and not before the first: transactions stay whole, and progress is certain.
            let enough = self.steps >= max_steps || self.events.len() >= max_events;
            if enough && entry.revision.sub == 0 && main > from {
                return ScanEnd::Enough(main);
            }
            if examined >= max_chunk {
                self.at = Some(entry.revision);
                return ScanEnd::Paused;
            }
            self.steps += 1;
            let Some(slot) = entry.slot else { continue };
            let record = index.at_slot(slot);
            if !index.is_in(slot, bounds) {
                continue;
            }
            if let Some((version, _)) = record.version_exactly(entry.revision) {
                self.push(Bytes::copy_from_slice(&index.key(slot)), record, &version);
            }
        }
        ScanEnd::Newest
    }

    fn push(&mut self, key: Bytes, record: &KeyRecord, version: &Version) {
        let main = version.revision.main;
        let kind = if version.is_tombstone() { EventKind::Delete } else { EventKind::Put };
        let before = Revision { main: main - 1, sub: u32::MAX };
        // Versions below the compact revision are unreadable, whether purged or not. The first version of a generation
        // has no previous one, even if the same revision ended the generation before.
        let begins = version.create == main;
        let prev = record.live_until(before).filter(|_| !begins && before.main >= self.compacted);
        let prev = prev.map(|version| kv_ref(key.clone(), &version));
        self.events.push(Event { kind, kv: kv_ref(key, version), prev });
    }
}
