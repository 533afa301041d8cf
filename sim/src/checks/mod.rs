//! What must always hold, one invariant a file. A check sees what a member shows to others, its frames, its
//! disk after a
//! crash, and the answers of clients, and is told of nothing else.

pub(crate) mod history;
pub(crate) mod leases;
pub(crate) mod linear;
pub(crate) mod log_matching;
pub(crate) mod model;
pub(crate) mod monotonic;
pub(crate) mod one_leader;
pub(crate) mod promises;
pub(crate) mod queues;
pub(crate) mod state_hash;
pub(crate) mod watches;

use api::mvccpb::Event;

use crate::report::Violation;

/// All checks of a run.
pub(crate) struct Checks {
    pub(crate) leaders: one_leader::OneLeader,
    pub(crate) log: log_matching::LogMatching,
    pub(crate) promises: promises::Promises,
    pub(crate) monotonic: monotonic::Monotonic,
    pub(crate) hashes: state_hash::StateHash,
    pub(crate) history: history::History,
    pub(crate) linear: linear::Linear,
    pub(crate) leases: leases::Leases,
    /// Answers that were checked.
    pub(crate) checked: u64,
}

impl Checks {
    /// Checks of a run with so many members.
    pub(crate) fn new(members: usize) -> Checks {
        Checks {
            leaders: Default::default(),
            log: Default::default(),
            promises: promises::Promises::new(members),
            monotonic: monotonic::Monotonic::new(members),
            hashes: Default::default(),
            history: Default::default(),
            linear: Default::default(),
            leases: Default::default(),
            checked: 0,
        }
    }

    /// A member has applied revisions: events in order, whole revisions.
    pub(crate) fn applied(&mut self, member: usize, events: &[Event], now_ns: u64) -> Result<(), Violation> {
        let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
            let revision = revision(&group[0]);
            if self.history.observe(member, revision, group)?
                && self.linear.applied(revision, &self.history)?
            {
                self.expired(revision, now_ns)?;
            }
        }
        self.linear.catch_up(&self.history)
    }

    /// A revision that no client can have asked for: a lease must have run out.
    fn expired(&self, revision: i64, now_ns: u64) -> Result<(), Violation> {
        let changes = self.history.at(revision).map_or(&[][..], Vec::as_slice);
        match expired_lease(&self.history, revision, changes) {
            Some(lease) => self.leases.gone(lease, now_ns),
            None => {
                let text = format!("revision {revision} was asked for by nobody: {changes:?}");
                Violation::err("strict serializability", text)
            }
        }
    }

    /// The run is over.
    pub(crate) fn finish(&self) -> Result<(), Violation> {
        let expired = |revision: i64, changes: &[model::Change]| {
            expired_lease(&self.history, revision, changes).is_some()
        };
        self.linear.finish(&self.history, expired)
    }
}

/// The lease whose keys, all of them, these changes delete.
fn expired_lease(history: &history::History, revision: i64, changes: &[model::Change]) -> Option<i64> {
    let view = history.view(revision - 1);
    let lease = view.get(&changes.first()?.key)?.lease;
    let keys = view.all().filter(|kv| kv.lease == lease).map(|kv| &kv.key);
    (lease != 0 && keys.eq(changes.iter().map(|change| &change.key))).then_some(lease)
}
