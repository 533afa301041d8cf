//! What a leader knows about leases while it leads: their deadlines, and the questions it cannot answer yet.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::LeaseQuestion;
use super::clock::{KeepAlive, LeaseClock, MAX_RECORDED_PER_COMMAND};
use super::expiry::Expiry;
use crate::peer_message::LeaseAnswer;
use crate::proposals::batch::CommandKind;

/// Keys and leases that one command ends, unless a single lease has more keys: as many as one slice of applying.
const MAX_EXPIRED_PER_COMMAND: usize = 1_000;

/// Keys and leases whose end is proposed and not applied, after which no more are proposed: a few slices. When very
/// many leases end at once, the commands of clients go in between.
pub(super) const MAX_EXPIRING: usize = 4_000;

/// A command the leader proposes on its own.
pub(crate) type OwnCommand = (CommandKind, Bytes);

/// What follows from a question whose ReadIndex round was won.
pub(crate) enum Decision {
    /// Answer it.
    Answer(LeaseAnswer),
    /// It is held until a command about its lease is applied. The command is given if it must still be proposed.
    Held(Option<OwnCommand>),
}

/// Created when the leader has applied an entry of its term, dropped with the leadership.
#[derive(Debug)]
pub(crate) struct LeaderLeases {
    clock: LeaseClock,
    /// Renewals that wait for a command about their lease to be applied, by lease.
    held: BTreeMap<i64, Vec<LeaseQuestion>>,
    /// The leases whose end is proposed and not applied, each with its keys and itself; and their sum.
    expiring: BTreeMap<i64, usize>,
    expiring_sum: usize,
}

impl LeaderLeases {
    /// Starts the clock over the leases of the store.
    pub(crate) fn start(now_ns: u64, leases: Vec<store::LeaseInfo>) -> LeaderLeases {
        let mut clock = LeaseClock::default();
        clock.start(now_ns, leases.into_iter().map(|lease| (lease.id, lease.ttl, lease.remaining)));
        LeaderLeases { clock, held: BTreeMap::new(), expiring: BTreeMap::new(), expiring_sum: 0 }
    }

    /// Decides a question. A renewal counts from `began_ns`, when the round began that proved the leadership: a
    /// successor may have counted from any moment after it.
    pub(crate) fn decide(&mut self, now_ns: u64, began_ns: u64, question: LeaseQuestion) -> Decision {
        let lease = question.lease;
        let verdict =
            if question.renew { self.clock.keep_alive(began_ns, lease) } else { KeepAlive::Renewed(0) };
        match verdict {
            KeepAlive::NotFound => Decision::Answer(LeaseAnswer::NotFound),
            KeepAlive::Renewed(_) => {
                let remaining = self.clock.remaining_s(now_ns, lease);
                Decision::Answer(remaining.map_or(LeaseAnswer::NotFound, |(remaining_s, granted_s)| {
                    LeaseAnswer::Alive { remaining_s, granted_s }
                }))
            }
            KeepAlive::Expiring => {
                self.held.entry(lease).or_default().push(question);
                Decision::Held(None)
            }
            KeepAlive::RemoveRecordFirst => {
                let held = self.held.entry(lease).or_default();
                let is_first = held.is_empty();
                held.push(question);
                Decision::Held(is_first.then(|| record_remainders(&[(lease, 0)])))
            }
        }
    }

    /// Commands about leases were applied: the clock follows. Returns the questions that waited for them; they need
    /// another round, since theirs may have been long ago.
    pub(crate) fn follow(&mut self, now_ns: u64, changes: &[store::LeaseChange]) -> Vec<LeaseQuestion> {
        let mut released = Vec::new();
        for change in changes {
            let id = self.follow_one(now_ns, change);
            released.extend(self.held.remove(&id).unwrap_or_default());
        }
        released
    }

    /// A command that ends leases was applied, whatever came of it: an alarm may have refused it.
    /// Returns how many of them this leader has proposed to end.
    pub(crate) fn expiry_applied(&mut self, body: &Bytes) -> u64 {
        let before = self.expiring.len();
        for id in Expiry::decode(body).into_iter().flat_map(|expiry| expiry.leases) {
            self.expiring_sum -= self.expiring.remove(&id).unwrap_or(0);
        }
        (before - self.expiring.len()) as u64
    }

    fn follow_one(&mut self, now_ns: u64, change: &store::LeaseChange) -> i64 {
        match *change {
            store::LeaseChange::Granted { id, ttl } => {
                self.clock.granted(now_ns, id, ttl);
                id
            }
            store::LeaseChange::Revoked { id } => {
                self.clock.revoked(id);
                id
            }
            store::LeaseChange::Checkpointed { id, remaining } => {
                self.clock.recorded(id, remaining);
                id
            }
            store::LeaseChange::ExpiryIgnored { id } => {
                self.clock.not_proposed(&[id]);
                id
            }
        }
    }

    /// The commands to propose now: expiries of leases whose TTL has passed, and remainders of long leases. `keys`
    /// returns how many keys a lease has.
    pub(crate) fn take_commands(
        &mut self,
        now_ns: u64,
        term: u64,
        keys: impl Fn(i64) -> usize,
    ) -> Vec<OwnCommand> {
        let mut commands = Vec::new();
        loop {
            let leases = self.take_expired(now_ns, &keys);
            if leases.is_empty() {
                break;
            }
            commands.push((CommandKind::LeaseExpire, Expiry { term, leases }.encode()));
        }
        if self.clock.remainders_are_due(now_ns) {
            let remainders = self.clock.take_remainders(now_ns);
            commands.extend(remainders.chunks(MAX_RECORDED_PER_COMMAND).map(record_remainders));
        }
        commands
    }

    /// The leases that one command ends.
    fn take_expired(&mut self, now_ns: u64, keys: impl Fn(i64) -> usize) -> Vec<i64> {
        let mut leases = Vec::new();
        let mut sum = 0;
        while self.may_expire()
            && sum < MAX_EXPIRED_PER_COMMAND
            && let Some(id) = self.clock.take_expired(now_ns)
        {
            let cost = keys(id) + 1;
            sum += cost;
            self.expiring_sum += cost;
            self.expiring.insert(id, cost);
            leases.push(id);
        }
        leases
    }

    /// Whether more leases may be ended before those that are expiring have ended.
    fn may_expire(&self) -> bool {
        self.expiring_sum < MAX_EXPIRING
    }

    /// When [`LeaderLeases::take_commands`] has something to do.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.clock.next_due_ns(self.may_expire())
    }

    /// Drops held questions for which `waits` is false.
    pub(crate) fn retain_held(&mut self, waits: impl Fn(&LeaseQuestion) -> bool) {
        self.held.values_mut().for_each(|held| held.retain(&waits));
        self.held.retain(|_, held| !held.is_empty());
    }

    /// The leadership ends: the questions that were held.
    pub(crate) fn into_held(self) -> Vec<LeaseQuestion> {
        self.held.into_values().flatten().collect()
    }
}

/// The command that records remainders, (lease id, seconds), in the log.
pub(super) fn record_remainders(remainders: &[(i64, i64)]) -> OwnCommand {
    let checkpoints = remainders
        .iter()
        .map(|&(id, remaining_ttl)| api::etcdserverpb::LeaseCheckpoint { id, remaining_ttl })
        .collect();
    let body = api::etcdserverpb::LeaseCheckpointRequest { checkpoints };
    (CommandKind::LeaseCheckpoint, body.encode_to_vec().into())
}
