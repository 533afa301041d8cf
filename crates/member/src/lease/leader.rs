//! What a leader knows about leases while it leads: their deadlines, and the questions it cannot answer yet.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::LeaseQuestion;
use super::clock::{KeepAlive, LeaseClock, MAX_RECORDED_PER_COMMAND};
use super::expiry::Expiry;
use crate::peer_message::LeaseAnswer;
use crate::proposals::batch::CommandKind;

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
}

impl LeaderLeases {
    /// Starts the clock over the leases of the store.
    pub(crate) fn start(now_ns: u64, leases: Vec<store::LeaseInfo>) -> LeaderLeases {
        let mut clock = LeaseClock::default();
        clock.start(now_ns, leases.into_iter().map(|lease| (lease.id, lease.ttl, lease.remaining)));
        LeaderLeases { clock, held: BTreeMap::new() }
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

    /// The commands to propose now: expiries of leases whose TTL has passed, and remainders of long leases.
    pub(crate) fn take_commands(&mut self, now_ns: u64, term: u64) -> Vec<OwnCommand> {
        let mut commands = Vec::new();
        loop {
            let leases = self.clock.take_expired(now_ns);
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

    /// When [`LeaderLeases::take_commands`] has something to do.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.clock.next_due_ns()
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
fn record_remainders(remainders: &[(i64, i64)]) -> OwnCommand {
    let checkpoints = remainders
        .iter()
        .map(|&(id, remaining_ttl)| api::etcdserverpb::LeaseCheckpoint { id, remaining_ttl })
        .collect();
    let body = api::etcdserverpb::LeaseCheckpointRequest { checkpoints };
    (CommandKind::LeaseCheckpoint, body.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    //! Which questions are answered at once, which are held and for what, and what the leader proposes.
    use super::super::clock::MAX_EXPIRED_PER_COMMAND;
    use super::*;

    const S: u64 = 1_000_000_000;
    const TERM: u64 = 3;

    fn leading(leases: impl IntoIterator<Item = (i64, i64, i64)>) -> LeaderLeases {
        let lease = |(id, ttl, remaining)| store::LeaseInfo { id, ttl, remaining };
        LeaderLeases::start(0, leases.into_iter().map(lease).collect())
    }

    fn renewal(sequence: u64) -> LeaseQuestion {
        LeaseQuestion { peer: None, sequence, lease: 1, renew: true }
    }

    fn answer(decision: Decision) -> Option<LeaseAnswer> {
        if let Decision::Answer(answer) = decision { Some(answer) } else { None }
    }

    fn expired(commands: &[OwnCommand]) -> Vec<Expiry> {
        let bodies = commands.iter().filter(|(kind, _)| *kind == CommandKind::LeaseExpire);
        bodies.map(|(_, body)| Expiry::decode(body).expect("an expiry")).collect()
    }

    #[test]
    fn a_renewal_counts_from_the_beginning_of_its_round_and_a_look_up_does_not_count() {
        let mut leases = leading([(1, 10, 0)]);
        let alive = |remaining_s| Some(LeaseAnswer::Alive { remaining_s, granted_s: 10 });
        assert_eq!(answer(leases.decide(6 * S, 4 * S, renewal(1))), alive(8));
        let look_up = LeaseQuestion { renew: false, ..renewal(2) };
        assert_eq!(answer(leases.decide(9 * S, 9 * S, look_up.clone())), alive(5));
        assert!(leases.take_commands(14 * S - 1, TERM).is_empty());
        let commands = leases.take_commands(14 * S, TERM);
        assert_eq!(expired(&commands), [Expiry { term: TERM, leases: vec![1] }]);
        assert_eq!(answer(leases.decide(15 * S, 15 * S, look_up)), alive(0), "until the expiry is applied");
        let other = LeaseQuestion { lease: 2, ..renewal(3) };
        assert_eq!(answer(leases.decide(15 * S, 15 * S, other)), Some(LeaseAnswer::NotFound));
    }

    #[test]
    fn a_renewal_waits_for_the_outcome_of_a_proposed_expiry() {
        for (change, after) in [
            (store::LeaseChange::Revoked { id: 1 }, LeaseAnswer::NotFound),
            (
                store::LeaseChange::ExpiryIgnored { id: 1 },
                LeaseAnswer::Alive { remaining_s: 5, granted_s: 5 },
            ),
        ] {
            let mut leases = leading([(1, 5, 0)]);
            leases.take_commands(5 * S, TERM);
            assert!(matches!(leases.decide(5 * S, 5 * S, renewal(1)), Decision::Held(None)));
            assert!(leases.follow(6 * S, &[store::LeaseChange::Granted { id: 2, ttl: 5 }]).is_empty());
            assert_eq!(leases.follow(6 * S, &[change]), [renewal(1)]);
            assert_eq!(answer(leases.decide(6 * S, 6 * S, renewal(1))), Some(after));
        }
    }

    #[test]
    fn the_removal_of_a_recorded_remainder_is_proposed_once_for_all_that_wait() {
        let mut leases = leading([(1, 600, 30)]);
        let Decision::Held(Some(command)) = leases.decide(S, S, renewal(1)) else { panic!("it is recorded") };
        assert_eq!(command, record_remainders(&[(1, 0)]));
        assert!(matches!(leases.decide(S, S, renewal(2)), Decision::Held(None)));
        leases.retain_held(|question| question.sequence == 2);
        let released = leases.follow(2 * S, &[store::LeaseChange::Checkpointed { id: 1, remaining: 0 }]);
        assert_eq!(released, [renewal(2)]);
        let alive = LeaseAnswer::Alive { remaining_s: 600, granted_s: 600 };
        assert_eq!(answer(leases.decide(2 * S, 2 * S, renewal(2))), Some(alive));
    }

    #[test]
    fn expiries_are_proposed_at_once_in_commands_of_a_limited_size() {
        let count = 2 * MAX_EXPIRED_PER_COMMAND + 1;
        let mut leases = leading((1..=count as i64).map(|id| (id, 5, 0)));
        let proposed = expired(&leases.take_commands(5 * S, TERM));
        let sizes: Vec<usize> = proposed.iter().map(|expiry| expiry.leases.len()).collect();
        assert_eq!(sizes, [MAX_EXPIRED_PER_COMMAND, MAX_EXPIRED_PER_COMMAND, 1]);
    }

    #[test]
    fn what_is_held_at_the_end_of_the_leadership_comes_back() {
        let mut leases = leading([(1, 5, 0)]);
        leases.take_commands(5 * S, TERM);
        leases.decide(5 * S, 5 * S, renewal(1));
        leases.decide(5 * S, 5 * S, renewal(2));
        assert_eq!(leases.into_held(), [renewal(1), renewal(2)]);
    }
}
