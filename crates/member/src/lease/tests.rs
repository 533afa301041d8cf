//! Which questions are answered at once, which are held and for what, and what the leader proposes.
use std::collections::BTreeMap;
use std::task::Poll;

use api::etcdserverpb as pb;
use prost::Message;

use super::leader::{MAX_EXPIRING, OwnCommand, record_remainders};
use super::*;
use crate::peer_message::LeaseAnswer;
use crate::proposals::batch::CommandKind;

const S: u64 = 1_000_000_000;
const TERM: u64 = 3;

fn no_keys(_: i64) -> usize {
    0
}

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
    assert!(leases.take_commands(14 * S - 1, TERM, no_keys).is_empty());
    let commands = leases.take_commands(14 * S, TERM, no_keys);
    assert_eq!(expired(&commands), [Expiry { term: TERM, leases: vec![1] }]);
    assert_eq!(answer(leases.decide(15 * S, 15 * S, look_up)), alive(0), "until the expiry is applied");
    let other = LeaseQuestion { lease: 2, ..renewal(3) };
    assert_eq!(answer(leases.decide(15 * S, 15 * S, other)), Some(LeaseAnswer::NotFound));
}

#[test]
fn a_renewal_waits_for_the_outcome_of_a_proposed_expiry() {
    for (change, after) in [
        (store::LeaseChange::Revoked { id: 1 }, LeaseAnswer::NotFound),
        (store::LeaseChange::ExpiryIgnored { id: 1 }, LeaseAnswer::Alive { remaining_s: 5, granted_s: 5 }),
    ] {
        let mut leases = leading([(1, 5, 0)]);
        leases.take_commands(5 * S, TERM, no_keys);
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
fn what_is_held_at_the_end_of_the_leadership_comes_back() {
    let mut leases = leading([(1, 5, 0)]);
    leases.take_commands(5 * S, TERM, no_keys);
    leases.decide(5 * S, 5 * S, renewal(1));
    leases.decide(5 * S, 5 * S, renewal(2));
    assert_eq!(leases.into_held(), [renewal(1), renewal(2)]);
}

fn leases(count: i64) -> LeaderLeases {
    let lease = |id| store::LeaseInfo { id, ttl: 5, remaining: 0 };
    LeaderLeases::start(0, (1..=count).map(lease).collect())
}

/// The leases of each command.
fn take(leader: &mut LeaderLeases, keys: usize) -> Vec<Vec<i64>> {
    let commands = leader.take_commands(5 * S, TERM, |_| keys).into_iter();
    let expired = commands.filter(|(kind, _)| *kind == CommandKind::LeaseExpire);
    expired.map(|(_, body)| Expiry::decode(&body).expect("it was encoded").leases).collect()
}

fn ended(leader: &mut LeaderLeases, commands: &[Vec<i64>]) {
    let changes: Vec<_> =
        commands.iter().flatten().map(|id| store::LeaseChange::Revoked { id: *id }).collect();
    leader.follow(5 * S, &changes);
    applied(leader, commands);
}

fn applied(leader: &mut LeaderLeases, commands: &[Vec<i64>]) {
    for leases in commands {
        leader.expiry_applied(&Expiry { term: TERM, leases: leases.clone() }.encode());
    }
}

#[test]
fn mass_expiry_is_proposed_a_few_commands_at_a_time() {
    let mut leader = leases(10_000);
    let mut all = Vec::new();
    while all.len() < 10_000 {
        assert_eq!(leader.next_due_ns(), Some(5 * S));
        let commands = take(&mut leader, 1);
        assert_eq!(commands.iter().map(Vec::len).collect::<Vec<_>>(), [500; 4], "with a key each");
        assert!(leader.next_due_ns() > Some(5 * S), "the rest waits for these, and nothing spins meanwhile");
        assert!(take(&mut leader, 1).is_empty());
        ended(&mut leader, &commands);
        all.extend(commands.into_iter().flatten());
    }
    assert_eq!(all, (1..=10_000).collect::<Vec<_>>());
    assert_eq!(leader.next_due_ns(), None);
}

#[test]
fn a_lease_with_very_many_keys_ends_in_a_command_of_its_own() {
    let mut leader = leases(3);
    assert_eq!(take(&mut leader, 1_000_000), [[1]]);
    ended(&mut leader, &[vec![1]]);
    assert_eq!(take(&mut leader, 700), [vec![2, 3]]);
}

#[test]
fn expiries_that_an_alarm_refuses_do_not_hold_up_others() {
    let mut leader = leases(2);
    let refused = take(&mut leader, MAX_EXPIRING);
    assert!(take(&mut leader, 0).is_empty());
    applied(&mut leader, &refused);
    assert_eq!(take(&mut leader, 0), [[2]]);
}

/// A client that has sent the leases 1 to 5 and no more, and a member that answers what is in `answered`.
#[derive(Default)]
struct FiveRequests {
    taken: i64,
    answered: BTreeMap<i64, Result<LeaseAnswer, &'static str>>,
}

impl RenewalCalls for FiveRequests {
    type Renewal = i64;
    type Failure = &'static str;

    fn next_request(&mut self) -> Poll<Option<Result<i64, &'static str>>> {
        self.taken += 1;
        assert!(self.taken <= 6, "nothing is behind the end");
        Poll::Ready((self.taken <= 5).then_some(Ok(self.taken)))
    }

    fn submit(&mut self, lease: i64) -> i64 {
        lease
    }

    fn answer(&mut self, renewal: &mut i64) -> Poll<Result<LeaseAnswer, &'static str>> {
        self.answered.remove(renewal).map_or(Poll::Pending, Poll::Ready)
    }
}

/// A six-hundredth of the leases is looked at at once, here more than one command takes.
#[test]
fn remainders_of_very_many_leases_are_recorded_by_several_commands() {
    let mut leader = leading((0..600 * 1_001).map(|id| (id, 600, 0)));
    let commands = leader.take_commands(61 * S, TERM, no_keys);
    let sizes = commands.iter().map(|(kind, body)| {
        assert_eq!(*kind, CommandKind::LeaseCheckpoint);
        pb::LeaseCheckpointRequest::decode(body.clone()).expect("remainders").checkpoints.len()
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [1_000, 1]);
}

#[test]
fn renewals_of_a_stream_are_answered_in_order_within_its_limit() {
    let (mut stream, mut calls) = (RenewalStream::new(3), FiveRequests::default());
    assert_eq!(stream.next(&mut calls), Poll::Pending);
    assert_eq!(calls.taken, 3, "as many as may wait");
    calls.answered.insert(2, Ok(LeaseAnswer::NotFound));
    assert_eq!(stream.next(&mut calls), Poll::Pending, "1 is not answered");
    let alive = LeaseAnswer::Alive { remaining_s: 1, granted_s: 2 };
    calls.answered.insert(1, Ok(alive));
    assert_eq!(stream.next(&mut calls), Poll::Ready(Some(Ok((1, alive)))));
    assert_eq!(stream.next(&mut calls), Poll::Ready(Some(Ok((2, LeaseAnswer::NotFound)))));
    assert_eq!(stream.next(&mut calls), Poll::Pending);
    assert_eq!(calls.taken, 5);
    calls.answered.extend([(3, Ok(alive)), (4, Ok(alive)), (5, Ok(alive))]);
    for lease in 3..=5 {
        assert_eq!(stream.next(&mut calls), Poll::Ready(Some(Ok((lease, alive)))));
    }
    assert_eq!(stream.next(&mut calls), Poll::Ready(None));
}

#[test]
fn a_renewal_that_fails_is_answered_in_its_turn() {
    let (mut stream, mut calls) = (RenewalStream::new(3), FiveRequests::default());
    calls.answered.insert(2, Err("it failed"));
    assert_eq!(stream.next(&mut calls), Poll::Pending);
    calls.answered.insert(1, Ok(LeaseAnswer::NotFound));
    assert_eq!(stream.next(&mut calls), Poll::Ready(Some(Ok((1, LeaseAnswer::NotFound)))));
    assert_eq!(stream.next(&mut calls), Poll::Ready(Some(Err("it failed"))));
}
