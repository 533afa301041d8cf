//! One watcher: what its create request asks for, and how far it was served.

use bytes::Bytes;

use api::etcdserverpb::WatchCreateRequest;
use api::etcdserverpb::watch_create_request::FilterType;

use super::event_buffer::GroupId;
use super::groups::WatchFilter;
use crate::types::KeyRange;

/// A watcher of a stream, owned by the stream's task.
pub(super) struct Watcher {
    pub(super) group: GroupId,
    pub(super) filter: WatchFilter,
    /// Whether its responses are split by size.
    pub(super) fragment: bool,
    /// The requested start revision, 0 for the present. Progress below it is not reported.
    pub(super) start_revision: i64,
    /// The lowest revision that it has not seen.
    pub(super) next_revision: i64,
    pub(super) state: WatcherState,
    /// For a watcher with progress notifications: whether nothing was sent since the timer last fired.
    pub(super) progress_due: Option<bool>,
}

/// The source of a watcher's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatcherState {
    /// The event buffer.
    Synced,
    /// The history, until it has seen `through`.
    CatchingUp { through: i64 },
    /// None: the revision that it needs next was compacted. As in etcd, its id stays in use until the client cancels
    /// it.
    Ended,
}

impl Watcher {
    /// Bytes of its range.
    pub(super) fn range_bytes(&self) -> usize {
        self.filter.range.start.len() + self.filter.range.end.len()
    }

    /// Notes that events of `from..=through` may not be delivered. Returns whether the watcher was synced, and catches
    /// up from now on.
    pub(super) fn fall_behind(&mut self, from: i64, through: i64) -> bool {
        if self.next_revision > through {
            return false;
        }
        match &mut self.state {
            WatcherState::Synced => {
                // Its events before `from` were delivered. So a watcher that was idle for long does not need revisions
                // that were compacted meanwhile.
                self.next_revision = self.next_revision.max(from);
                self.state = WatcherState::CatchingUp { through };
                true
            }
            WatcherState::CatchingUp { through: reached } => {
                *reached = through.max(*reached);
                false
            }
            WatcherState::Ended => false,
        }
    }
}

/// Why a watcher is not created. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CreateRefusal {
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

/// The filter of a create request. Copies the keys, because a watcher lives long and must not keep the buffer of its
/// request alive.
pub(super) fn filter_of(request: &WatchCreateRequest) -> Result<WatchFilter, CreateRefusal> {
    if request.start_revision < 0 {
        return Err(CreateRefusal::NegativeStart);
    }
    let start: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
    let end = request.range_end.as_ref();
    if !end.is_empty() && end != [0] && start >= end {
        return Err(CreateRefusal::EmptyRange);
    }
    let filters = |filter: FilterType| request.filters.contains(&(filter as i32));
    Ok(WatchFilter {
        range: KeyRange { start: Bytes::copy_from_slice(start), end: Bytes::copy_from_slice(end) },
        no_put: filters(FilterType::Noput),
        no_delete: filters(FilterType::Nodelete),
        prev_kv: request.prev_kv,
    })
}
