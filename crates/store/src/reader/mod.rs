//! Reading, from any thread.
//!
//! Every read takes the index lock for a bounded number of keys. What needs more pins its revision, lets the
//! writer in and goes on: a pinned revision is not purged, so the pieces fit together. Reads of the latest
//! revision that fit one piece, nearly all, pay for no pin.

mod hash_kv;
mod history;
mod list;
mod references;
mod stream;
mod txn;
mod versions;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use parking_lot::RwLockReadGuard;

pub use hash_kv::{HashKv, HashKvReply};
pub use references::Reference;
pub use stream::{RangeStream, StreamChunk};
pub use txn::ReadTxn;
pub use versions::{Retained, VersionWalk};

use crate::lease::LeaseInfo;
use crate::members::Member;
use crate::range::count::Count;
use crate::range::{RangeReply, Selection, Shape, bounds, check_revision, lone};
use crate::state::{Counters, Position, Shared, State};
use crate::types::Revision;

/// A handle for reading; clones share one store.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shared: Arc<Shared>,
}

/// Numbers for metrics and `Status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live keys.
    pub keys: u64,
    /// Retained versions that are not tombstones.
    pub versions: u64,
    /// Keys, values and [`VERSION_OVERHEAD_BYTES`](crate::VERSION_OVERHEAD_BYTES) of all retained versions.
    pub referenced_bytes: u64,
    /// Leases.
    pub leases: u64,
    /// Changes that have not been purged from history.
    pub history: u64,
    /// Puts applied since the process started, those in transactions too.
    pub puts: u64,
    /// Deletions applied since the process started.
    pub deletes: u64,
    /// Transactions applied since the process started.
    pub txns: u64,
    /// Ranges served since the process started, those in transactions too.
    pub ranges: u64,
    /// Events made since the process started.
    pub events: u64,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Reader {
        Reader { shared }
    }

    /// Selects keys, with every option of the request.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn range(&self, request: &pb::RangeRequest) -> Result<RangeReply, Error> {
        let state = self.shared.state.read();
        let current = state.revision;
        let revision = check_revision(request.revision, current, state.compacted)?;
        Ok(self.select(request, state, revision, current))
    }

    /// How many keys a range has, its limit aside. It does not count as a range that was served.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn count(&self, request: &pb::RangeRequest) -> Result<i64, Error> {
        let state = self.shared.state.read();
        let revision = check_revision(request.revision, state.revision, state.compacted)?;
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = Count::new(&state.index, &bounds, revision, state.revision);
        let mut total = count.advance(&state.index, self.shared.limits.count_steps);
        let _pin = total.is_none().then(|| self.shared.pin(revision));
        drop(state);
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, self.shared.limits.count_steps);
        }
        Ok(total.unwrap_or(0) as i64)
    }

    /// Carries out a range at `revision`, which may be read now; `header` is the revision of the reply.
    fn select(
        &self,
        request: &pb::RangeRequest,
        state: RwLockReadGuard<'_, State>,
        revision: i64,
        header: i64,
    ) -> RangeReply {
        Counters::add(&self.shared.counters.ranges, 1);
        let shape = Shape::of(request);
        let limits = &self.shared.limits;
        let at = Revision { main: revision, sub: u32::MAX };
        if request.range_end.is_empty() {
            let mut kvs = Vec::new();
            let count = lone(&state.index, &request.key, at, &shape, &mut kvs);
            return shape.finish(kvs, header, count);
        }
        let bounds = bounds(&request.key, &request.range_end);
        let mut count = Count::new(&state.index, &bounds, revision, state.revision);
        let mut total = count.advance(&state.index, limits.count_steps);
        let mut selection = Selection::new(&bounds, at, shape, Vec::new());
        let mut complete = shape.count_only || selection.advance(&state.index, limits.chunk_keys);
        let _pin = (total.is_none() || !complete).then(|| self.shared.pin(revision));
        drop(state);
        while !complete {
            complete = selection.advance(&self.shared.state.read().index, limits.chunk_keys);
        }
        while total.is_none() {
            total = count.advance(&self.shared.state.read().index, limits.count_steps);
        }
        shape.finish(selection.found, header, total.unwrap_or(0))
    }

    /// Starts a range that is answered in pieces; see [`RangeStream`].
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`], [`Error::StreamSortUnsupported`],
    /// [`Error::StreamFilterUnsupported`]
    pub fn range_stream(&self, request: &pb::RangeRequest) -> Result<RangeStream, Error> {
        RangeStream::new(self, request)
    }

    /// The newest revision.
    pub fn current_revision(&self) -> i64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// The revision history was cut at; -1 when it never was.
    pub fn compacted(&self) -> i64 {
        self.shared.compacted.load(Ordering::Acquire)
    }

    /// The revision purging has reached; -1 when there was no purge. A `physical` compaction at C is done at
    /// C.
    pub fn purged(&self) -> i64 {
        self.shared.state.read().purged
    }

    /// Index and term of the last applied entry.
    pub fn applied(&self) -> Position {
        self.shared.state.read().applied
    }

    /// The last applied entry and the hash of the state after it, independent of compaction: equal on all
    /// members.
    pub fn state_hash(&self) -> (Position, u64) {
        let state = self.shared.state.read();
        (state.applied, state.hash())
    }

    /// Bytes of keys, values and named overhead of all retained versions.
    pub fn referenced_bytes(&self) -> u64 {
        self.shared.state.read().index.referenced_bytes()
    }

    /// Numbers for metrics.
    pub fn counts(&self) -> Counts {
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let state = self.shared.state.read();
        Counts {
            keys: state.index.live_keys(),
            versions: state.index.versions(),
            referenced_bytes: state.index.referenced_bytes(),
            leases: state.lessor.len() as u64,
            history: state.index.log().len() as u64,
            puts: load(&counters.puts),
            deletes: load(&counters.deletes),
            txns: load(&counters.txns),
            ranges: load(&counters.ranges),
            events: load(&counters.events),
        }
    }

    /// One lease.
    pub fn lease(&self, id: i64) -> Option<LeaseInfo> {
        self.shared.state.read().lessor.get(id)
    }

    /// Keys attached to a lease, in key order; `None` when there is no such lease.
    pub fn lease_keys(&self, id: i64) -> Option<Vec<Bytes>> {
        let state = self.shared.state.read();
        state.lessor.get(id)?;
        let key = |slot| Bytes::copy_from_slice(state.index.at_slot(slot).key());
        let mut keys: Vec<Bytes> = state.lessor.slots(id).map(key).collect();
        keys.sort_unstable();
        Some(keys)
    }

    /// Up to `max` leases with ids from `from` on, by id. The next call starts after the last one's id.
    pub fn leases(&self, from: i64, max: usize) -> Vec<LeaseInfo> {
        self.shared.state.read().lessor.iter_from(from).take(max).collect()
    }

    /// The raised alarms.
    pub fn alarms(&self) -> Vec<pb::AlarmMember> {
        self.shared.state.read().alarms.list(pb::AlarmType::None as i32)
    }

    /// The members, by id.
    pub fn members(&self) -> Vec<Member> {
        self.shared.state.read().members.members.values().cloned().collect()
    }

    /// Whether a member with this id was removed; such an id is never used again.
    pub fn was_removed(&self, id: u64) -> bool {
        self.shared.state.read().members.removed.contains(&id)
    }

    /// The version the cluster speaks, as in "3.7.0"; `None` until it was set.
    pub fn cluster_version(&self) -> Option<String> {
        self.shared.state.read().members.cluster_version.clone()
    }
}
