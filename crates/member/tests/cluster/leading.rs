//! Losing leadership with commands at hand.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Answer, Input, MemberConfig, MembershipRequest};

use crate::rig::Cluster;

/// Steps after which a leader without followers steps down; long enough for every election timeout.
const MAX_STEPS: usize = 2_000;

/// Steps in the shortest election timeout.
const ELECTION_STEPS: usize = 200;

/// Sends a put to a member, without waiting for the answer.
fn send_put(cluster: &mut Cluster, to: u64) -> u64 {
    cluster.begin(to, CommandKind::Put, &pb::PutRequest { key: "k".into(), ..Default::default() })
}

/// A cluster of three with its leader left alone.
fn lonely_leader() -> (Cluster, u64) {
    tuned_lonely_leader(|_| {})
}

/// The same, of members with other settings.
fn tuned_lonely_leader(tune: fn(&mut MemberConfig)) -> (Cluster, u64) {
    let mut cluster = Cluster::new(3, tune);
    let leader = cluster.leader().expect("somebody leads");
    for follower in (1..=3).filter(|id| *id != leader) {
        cluster.stop(follower);
    }
    (cluster, leader)
}

/// Counts steps until a leader that was left alone leads no more. A put comes in before each of the steps `puts_at`.
fn steps_to_step_down(cluster: &mut Cluster, leader: u64, puts_at: &[usize]) -> usize {
    for step in 0..MAX_STEPS {
        if puts_at.contains(&step) {
            send_put(cluster, leader);
        }
        cluster.step();
        if cluster.leader().is_none() {
            return step;
        }
    }
    panic!("a leader without followers leads on");
}

#[test]
fn a_command_that_comes_as_leadership_ends_waits() {
    let (mut cluster, leader) = lonely_leader();
    let last = steps_to_step_down(&mut cluster, leader, &[]);
    // The first put is in no other log, so this member will lead again as soon as one other runs. In the step of the
    // tick consensus steps down, and has not said so when the last command is tried.
    let (mut cluster, leader) = lonely_leader();
    assert_eq!(steps_to_step_down(&mut cluster, leader, &[0, last]), last);
    cluster.longest_delay_ns = 0;
    cluster.start(leader % 3 + 1);
    cluster.until("the same leader", |cluster| cluster.leader() == Some(leader));
    cluster.until("the commands", |cluster| cluster.nodes[&leader].opened.status.pending() == 0);
    assert_eq!(cluster.nodes[&leader].opened.status.failed(), 0);
    // The time without a leader is no delay of the batch.
    assert!(cluster.longest_delay_ns < 10_000_000, "{} ns", cluster.longest_delay_ns);
}

#[test]
fn what_waits_and_what_comes_too_late_is_counted_by_its_kind() {
    let (mut cluster, leader) = lonely_leader();
    send_put(&mut cluster, leader);
    cluster.send(leader, |token| Input::Read { token });
    cluster.send(leader, |token| Input::Lease { token, lease: 1, renew: true });
    cluster.step();
    let counts = |cluster: &Cluster| {
        let status = &cluster.nodes[&leader].opened.status;
        (status.pending(), status.failed(), status.late_reads())
    };
    assert_eq!(counts(&cluster), (1, 0, 0));
    cluster.until("the deadlines", |cluster| counts(cluster).0 == 0);
    assert_eq!(counts(&cluster), (0, 1, 1));
}

/// Steps until a cluster of three whose members `ids` were killed and started again agrees on a leader.
fn steps_to_come_back(ids: impl Fn(&Cluster, u64) -> Vec<u64>) -> usize {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put("k", "v");
    cluster.settle();
    let leader = cluster.leader().expect("somebody leads");
    let killed = ids(&cluster, leader);
    killed.iter().for_each(|id| cluster.stop(*id));
    killed.iter().for_each(|id| cluster.start(*id));
    let mut steps = 0;
    cluster.until("a leader", |cluster| {
        steps += 1;
        cluster.leader().is_some()
            && cluster.nodes.values().all(|node| Some(node.opened.status.leader()) == cluster.leader())
    });
    steps
}

#[test]
fn members_that_come_back_do_not_wait_for_an_election_timeout() {
    let all = steps_to_come_back(|_, _| vec![1, 2, 3]);
    let leader = steps_to_come_back(|_, leader| vec![leader]);
    let but_leader = steps_to_come_back(|_, leader| (1..=3).filter(|id| *id != leader).collect());
    for steps in [all, leader, but_leader] {
        assert!(steps < ELECTION_STEPS / 2, "{steps} steps");
    }
}

/// docs/operating/limits.md names these numbers.
const WAITING_READS: usize = 100_000;
const WAITING_CHANGES: usize = 64;

fn assert_too_many(cluster: &mut Cluster, token: u64) {
    let answer = cluster.answers.remove(&token);
    assert!(matches!(answer, Some(Answer::Failed(api::Error::TooManyRequests))), "{answer:?}");
}

#[test]
fn a_bounded_number_of_reads_and_lease_questions_waits_for_a_leader() {
    let (mut cluster, member) = lonely_leader();
    steps_to_step_down(&mut cluster, member, &[]);
    let read = |token| Input::Read { token };
    let renewal = |token| Input::Lease { token, lease: 1, renew: true };
    let ask = |cluster: &mut Cluster, number: usize| match number % 2 {
        0 => cluster.send(member, read),
        _ => cluster.send(member, renewal),
    };
    let waiting: Vec<u64> = (0..WAITING_READS).map(|number| ask(&mut cluster, number)).collect();
    let refused = [ask(&mut cluster, 0), ask(&mut cluster, 1)];
    cluster.step();
    assert!(waiting.iter().all(|token| !cluster.answers.contains_key(token)));
    refused.into_iter().for_each(|token| assert_too_many(&mut cluster, token));
}

#[test]
fn a_command_that_finds_the_queue_full_is_answered_so_and_those_before_it_wait() {
    let (mut cluster, member) = tuned_lonely_leader(|config| config.queue_limits.waiting_commands = 3);
    steps_to_step_down(&mut cluster, member, &[]);
    let waiting: Vec<u64> = (0..3).map(|_| send_put(&mut cluster, member)).collect();
    let refused = send_put(&mut cluster, member);
    cluster.step();
    assert_too_many(&mut cluster, refused);
    assert!(waiting.iter().all(|token| !cluster.answers.contains_key(token)));
    assert_eq!(cluster.nodes[&member].opened.status.waiting_commands(), 3);
    // They were taken: the next leader proposes them.
    cluster.start(member % 3 + 1);
    cluster.until("the commands", |cluster| waiting.iter().all(|token| cluster.answers.contains_key(token)));
    for token in waiting {
        let answer = cluster.answers.remove(&token);
        assert!(matches!(answer, Some(Answer::Applied(Ok(_)))), "{answer:?}");
    }
}

#[test]
fn a_bounded_number_of_requests_about_members_waits_for_a_leader() {
    let (mut cluster, member) = lonely_leader();
    steps_to_step_down(&mut cluster, member, &[]);
    let ask = |cluster: &mut Cluster| {
        let request = MembershipRequest::Remove { id: member % 3 + 1 };
        cluster.send(member, |token| Input::ChangeMembers { token, request })
    };
    let waiting: Vec<u64> = (0..WAITING_CHANGES).map(|_| ask(&mut cluster)).collect();
    let refused = ask(&mut cluster);
    cluster.step();
    assert!(waiting.iter().all(|token| !cluster.answers.contains_key(token)));
    assert_too_many(&mut cluster, refused);
}
