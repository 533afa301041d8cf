//! One watcher: what a create request asks for and how far it was served.
use bytes::Bytes;

use api::etcdserverpb::WatchCreateRequest;
use api::etcdserverpb::watch_create_request::FilterType;

use super::groups::{GroupId, Shape};
use crate::KeyRange;

/// A watcher of a stream. The stream's task owns it; nobody else sees it.
pub(super) struct Watcher {
    pub(super) group: GroupId,
    pub(super) shape: Shape,
    /// Split its responses by size.
    pub(super) fragment: bool,
    /// What the client asked for; progress below it says nothing about this watcher.
    pub(super) start_revision: i64,
    /// The lowest revision that it has not seen.
    pub(super) next_revision: i64,
    pub(super) state: State,
    /// For a watcher that wants progress notifications: nothing was sent since the timer last fired.
    pub(super) progress_due: Option<bool>,
}

/// Where a watcher gets its events from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// From the inbox.
    Synced,
    /// From the history, until it has seen `through`.
    CatchingUp { through: i64 },
    /// From nowhere: what it needs next was compacted. Its id stays taken until the client cancels it, as
    /// with etcd.
    Ended,
}

impl Watcher {
    /// Notes that events `from..=through` may not come through the inbox. Returns whether the watcher was
    /// synced and has to catch up now.
    pub(super) fn fall_behind(&mut self, from: i64, through: i64) -> bool {
        if self.next_revision > through {
            return false;
        }
        match &mut self.state {
            State::Synced => {
                // All before `from` that concerns it was delivered, so a long idle watcher does not reach
                // back into what was compacted meanwhile.
                self.next_revision = self.next_revision.max(from);
                self.state = State::CatchingUp { through };
                true
            }
            State::CatchingUp { through: reached } => {
                *reached = through.max(*reached);
                false
            }
            State::Ended => false,
        }
    }
}

/// Why a watcher is not created; the texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// A start revision below zero.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    NegativeStart,
    /// The range ends at or before its start.
    #[error("mvcc: watcher range is empty")]
    EmptyRange,
    /// The chosen id is in use on this stream.
    #[error("mvcc: duplicate watch ID provided on the WatchStream")]
    DuplicateId,
}

/// Reads what a request watches.
///
/// The key is copied: a watcher lives long and must not hold on to the buffer its request came in.
pub(super) fn shape(request: &WatchCreateRequest) -> Result<Shape, Refusal> {
    if request.start_revision < 0 {
        return Err(Refusal::NegativeStart);
    }
    let start: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
    let end = request.range_end.as_ref();
    if !end.is_empty() && end != [0] && start >= end {
        return Err(Refusal::EmptyRange);
    }
    let filters = |filter: FilterType| request.filters.contains(&(filter as i32));
    Ok(Shape {
        range: KeyRange { start: Bytes::copy_from_slice(start), end: Bytes::copy_from_slice(end) },
        no_put: filters(FilterType::Noput),
        no_delete: filters(FilterType::Nodelete),
        prev_kv: request.prev_kv,
    })
}
