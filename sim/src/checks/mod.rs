//! What must always hold: one invariant a file, named in its first sentence.
//!
//! A check sees what a member shows to others and nothing else: its frames, its disk after a crash, the answers to
//! clients, its watch events, and its state hash. [`history`] and [`model`] are what the other checks compare with.

pub(crate) mod durable_promises;
pub(crate) mod equal_state;
pub(crate) mod history;
pub(crate) mod lease_times;
pub(crate) mod limits;
pub(crate) mod log_matching;
pub(crate) mod model;
pub(crate) mod monotonic;
pub(crate) mod one_leader;
pub(crate) mod permissions;
pub(crate) mod streams;
pub(crate) mod strict_serializability;
pub(crate) mod watches;

use api::mvccpb::Event;
use member::proposal_queue::QueueLimits;

use crate::report::trace::Violation;

/// All checks of a run.
pub(crate) struct Checks {
    pub(crate) leaders: one_leader::OneLeader,
    pub(crate) log: log_matching::LogMatching,
    pub(crate) promises: durable_promises::DurablePromises,
    pub(crate) monotonic: monotonic::MonotonicState,
    pub(crate) states: equal_state::EqualState,
    pub(crate) history: history::RevisionHistory,
    pub(crate) serializability: strict_serializability::StrictSerializability,
    pub(crate) leases: lease_times::LeaseTimes,
    /// In runs that change permissions.
    pub(crate) auth: permissions::AuthHistory,
    pub(crate) tokens: permissions::tokens::TokenChecks,
    /// The limits of the queues of commands.
    pub(crate) queue_limits: QueueLimits,
    /// Answers that were checked.
    pub(crate) checked: u64,
}

impl Checks {
    /// The checks of a run with this many members, and these limits of queues.
    pub(crate) fn new(members: usize, queue_limits: QueueLimits) -> Checks {
        Checks {
            leaders: Default::default(),
            log: Default::default(),
            promises: durable_promises::DurablePromises::new(members),
            monotonic: monotonic::MonotonicState::new(members),
            states: Default::default(),
            history: Default::default(),
            serializability: Default::default(),
            leases: Default::default(),
            auth: Default::default(),
            tokens: Default::default(),
            queue_limits,
            checked: 0,
        }
    }

    /// A member has applied revisions: their events, in order, with whole revisions.
    pub(crate) fn applied(&mut self, member: usize, events: &[Event], now_ns: u64) -> Result<(), Violation> {
        let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        for group in events.chunk_by(|a, b| revision(a) == revision(b)) {
            let revision = revision(&group[0]);
            if self.history.observe(member, revision, group)?
                && self.serializability.applied(revision, &self.history)?
            {
                self.expired(revision, now_ns)?;
            }
        }
        self.serializability.check_early(&self.history)
    }

    /// A revision that no client can have requested: a lease must have expired.
    fn expired(&self, revision: i64, now_ns: u64) -> Result<(), Violation> {
        let changes = self.history.at(revision).map_or(&[][..], Vec::as_slice);
        match expired_lease(&self.history, revision, changes) {
            Some(lease) => self.leases.gone(lease, now_ns),
            None => {
                let text = format!("revision {revision} was requested by no client: {changes:?}");
                Violation::err("strict serializability", text)
            }
        }
    }

    /// The run is over.
    pub(crate) fn finish(&self) -> Result<(), Violation> {
        let expired = |revision: i64, changes: &[history::KeyChange]| {
            expired_lease(&self.history, revision, changes).is_some()
        };
        self.serializability.finish(&self.history, expired)
    }
}

/// The lease whose keys, all of them, these changes delete.
fn expired_lease(
    history: &history::RevisionHistory,
    revision: i64,
    changes: &[history::KeyChange],
) -> Option<i64> {
    let view = history.view(revision - 1);
    let lease = view.get(&changes.first()?.key)?.lease;
    let keys = view.all().filter(|kv| kv.lease == lease).map(|kv| &kv.key);
    (lease != 0 && keys.eq(changes.iter().map(|change| &change.key))).then_some(lease)
}
