//! What the watch hub needs from the store: events of the past.

use crate::types::{Event, KeyRange};

/// The retained events, which a watcher reads when it starts in the past or has fallen behind.
/// [`Reader`](crate::Reader) implements it.
pub trait History: Send + Sync {
    /// The newest applied revision.
    fn current_revision(&self) -> i64;

    /// The compact revision; 0 if there was no compaction. Reading *at* it is allowed.
    fn compact_revision(&self) -> i64;

    /// Returns events in `range` with `from <= main`, in (main, sub) order, and the first main revision that was *not*
    /// examined. Stops between transactions, once about `max_events` are collected or `max_steps` changes are examined;
    /// always examines at least one transaction.
    ///
    /// # Errors
    /// [`Compacted`] when `from` is below the compact revision.
    fn events(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<(Vec<Event>, i64), Compacted>;
}

/// The requested revision has been compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("required revision has been compacted at {at}")]
pub struct Compacted {
    /// The store's compact revision.
    pub at: i64,
}
