//! One step of catching up: a bounded read of history for one watcher.

use super::encode;
use super::groups::WatchFilter;
use super::history::Compacted;
use super::shared::{HubShared, MAX_RESPONSE_BYTES};
use crate::types::Event;

/// Events that a watcher reads in one step of catching up; etcd's number.
pub const MAX_CATCH_UP_EVENTS: usize = 1_000;

/// Changes examined in one step of catching up: about a millisecond, after which other watchers continue.
pub const MAX_CATCH_UP_STEPS: usize = 10_000;

/// The result of a step.
pub(super) struct CatchUpChunk {
    /// Events that pass the filter: whole revisions, at most one response. May be empty.
    pub(super) events: Vec<Event>,
    /// The lowest revision that was not examined.
    pub(super) next_revision: i64,
    /// The published revision; no event is above it.
    pub(super) published: i64,
}

/// Reads from `from` on, not beyond the published revision.
///
/// # Errors
/// [`Compacted`] when `from` is below the compact revision.
pub(super) fn read(shared: &HubShared, filter: &WatchFilter, from: i64) -> Result<CatchUpChunk, Compacted> {
    let (mut events, next) =
        shared.history.events(&filter.range, from, MAX_CATCH_UP_EVENTS, MAX_CATCH_UP_STEPS)?;
    assert!(next > from, "history advances from {from}, not to {next}");
    let within = |event: &Event| (from..next).contains(&event.kv.mod_revision.main);
    assert!(
        events.first().is_none_or(within) && events.last().is_none_or(within),
        "events are those requested"
    );

    // History may be ahead of the published revision. Later events will be delivered live; to send them now would make
    // this stream see a revision above the one that its progress responses name.
    let published = shared.published();
    let mut next_revision = next.min(published + 1);
    events.retain(|event| event.kv.mod_revision.main <= published && filter.admits(&event.kind));

    let count = encode::fitting(events.iter(), filter.prev_kv, MAX_RESPONSE_BYTES);
    if let Some(later) = events.get(count) {
        next_revision = later.kv.mod_revision.main;
        events.truncate(count);
    }
    Ok(CatchUpChunk { events, next_revision, published })
}
