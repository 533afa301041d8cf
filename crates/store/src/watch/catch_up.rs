//! One step of catching up: a bounded read of the history for one watcher.
use super::encode;
use super::groups::Shape;
use super::hub::Shared;
use super::{MAX_CATCH_UP_EVENTS, MAX_CATCH_UP_STEPS, MAX_RESPONSE_BYTES};
use crate::{Compacted, Event};

/// What a step found.
pub(super) struct Chunk {
    /// Events of the shape, whole revisions, one response's worth; possibly none.
    pub(super) events: Vec<Event>,
    /// The lowest revision that was not looked at.
    pub(super) next_revision: i64,
    /// The published revision, not below any of the events.
    pub(super) published: i64,
}

/// Reads on from `from`, never past the published revision.
///
/// # Errors
/// History no longer reaches back to `from`.
pub(super) fn read(shared: &Shared, shape: &Shape, from: i64) -> Result<Chunk, Compacted> {
    let (mut events, next) =
        shared.history.events(&shape.range, from, MAX_CATCH_UP_EVENTS, MAX_CATCH_UP_STEPS)?;
    assert!(next > from, "history moves on from {from}, not to {next}");

    // The history may be ahead of what is published. What lies beyond will be delivered; to send it now would
    // let this stream see a revision above the one its progress answers name.
    let published = shared.published();
    let mut next_revision = next.min(published + 1);
    events.retain(|event| event.kv.mod_revision.main <= published && shape.admits(&event.kind));

    let count = encode::fitting(events.iter(), shape.prev_kv, MAX_RESPONSE_BYTES);
    if let Some(later) = events.get(count) {
        next_revision = later.kv.mod_revision.main;
        events.truncate(count);
    }
    Ok(Chunk { events, next_revision, published })
}
