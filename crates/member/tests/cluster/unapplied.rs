//! Committed entries that cannot be applied yet: how many a member lets in, and what becomes of the others.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Answer, MemberConfig};

use crate::compares::compares_value;
use crate::rig::{Cluster, values_read};

const VALUE_BYTES: usize = 5_000;
const MAX_UNAPPLIED_BYTES: u64 = 20_000;

/// Commands that may wait in a member whose queue is to be full.
const WAITING_COMMANDS: usize = 3;

/// What may come beyond the limit: it is looked at before a batch is proposed, when those in flight are not committed.
const IN_FLIGHT_BYTES: u64 = 3 * VALUE_BYTES as u64;

fn limit(config: &mut MemberConfig) {
    config.max_unapplied_bytes = MAX_UNAPPLIED_BYTES;
    config.checkpoint_commands = 1_000;
    config.catchup_entries = 1_000;
    config.queue_limits.batch_commands = 1;
}

fn cluster(size: u64) -> Cluster {
    Cluster::new(size, limit)
}

/// Fills a log until the value of "guard" is in a file, and no longer in memory.
fn fill(cluster: &mut Cluster) {
    cluster.put("guard", vec![9; 300]);
    (0..40).for_each(|number| cluster.put(&format!("key{number}"), vec![number; 300]));
    cluster.settle();
}

fn put(number: usize) -> pb::PutRequest {
    let value = vec![0; VALUE_BYTES].into();
    pb::PutRequest { key: format!("large{number}").into(), value, ..Default::default() }
}

/// Bytes of the values of entries that this member knows committed and has not applied.
fn unapplied_bytes(cluster: &Cluster, at: u64) -> u64 {
    let status = &cluster.nodes[&at].opened.status;
    (status.committed_index() - status.applied_index()).saturating_sub(1) * VALUE_BYTES as u64
}

#[test]
fn a_leader_proposes_nothing_while_too_much_waits_to_be_applied() {
    let mut cluster = cluster(1);
    fill(&mut cluster);
    cluster.hold_jobs = Box::new(values_read);
    let mut tokens = vec![cluster.begin(1, CommandKind::Txn, &compares_value("guard"))];
    cluster.until("it waits for the value", |cluster| cluster.held_jobs.len() == 1);
    for number in 0..20 {
        tokens.push(cluster.begin(1, CommandKind::Put, &put(number)));
        cluster.run(10);
        let waiting = unapplied_bytes(&cluster, 1);
        assert!(waiting <= MAX_UNAPPLIED_BYTES + IN_FLIGHT_BYTES, "{waiting} bytes after {number} puts");
    }
    assert!(unapplied_bytes(&cluster, 1) + 2 * VALUE_BYTES as u64 > MAX_UNAPPLIED_BYTES, "it goes so far");
    assert!(cluster.nodes[&1].opened.status.waiting_commands() >= 10, "the others wait in the queue");
    cluster.release_jobs();
    cluster
        .until("all are answered", |cluster| tokens.iter().all(|token| cluster.answers.contains_key(token)));
    assert_eq!(cluster.get(1, "large19"), Ok(Some(vec![0; VALUE_BYTES].into())));
}

/// A follower forwards what its clients send at once, so it is the leader's queue that is full.
#[test]
fn clients_of_a_follower_hear_that_the_queue_of_the_leader_is_full() {
    let mut cluster = Cluster::new(3, |config| {
        limit(config);
        config.queue_limits.waiting_commands = WAITING_COMMANDS;
    });
    fill(&mut cluster);
    let (leader, follower) = (cluster.leader().expect("one leads"), cluster.follower());
    cluster.hold_jobs = Box::new(move |at, done| at == leader && values_read(at, done));
    let compares = cluster.begin(leader, CommandKind::Txn, &compares_value("guard"));
    cluster.until("it waits for the value", |cluster| cluster.held_jobs.len() == 1);
    let mut taken = vec![compares];
    let mut refused = Vec::new();
    for number in 0..20 {
        let token = cluster.begin(follower, CommandKind::Put, &put(number));
        cluster.run(10);
        let is_refused = matches!(cluster.answers.get(&token), Some(Answer::Failed(_)));
        if is_refused { &mut refused } else { &mut taken }.push(token);
    }
    let waiting = |cluster: &Cluster, at: u64| cluster.nodes[&at].opened.status.waiting_commands();
    assert_eq!((waiting(&cluster, leader), waiting(&cluster, follower)), (WAITING_COMMANDS as u64, 0));
    assert!(refused.len() >= 10, "{} of 20 puts were refused", refused.len());
    for token in refused {
        let answer = &cluster.answers[&token];
        assert!(matches!(answer, Answer::Failed(api::Error::TooManyRequests)), "{answer:?}");
    }
    cluster.release_jobs();
    cluster.until("the others are answered", |cluster| {
        taken.iter().all(|token| cluster.answers.contains_key(token))
    });
    for token in taken {
        let answer = &cluster.answers[&token];
        assert!(matches!(answer, Answer::Applied(Ok(_))), "{answer:?}");
    }
    cluster.settle();
    cluster.assert_equal();
}

/// The other two go on: it is to them as if what they send to the third were lost.
#[test]
fn a_follower_takes_no_entries_while_too_much_waits_to_be_applied() {
    let mut cluster = cluster(3);
    fill(&mut cluster);
    let (leader, behind) = (cluster.leader().expect("one leads"), cluster.follower());
    let term = cluster.nodes[&leader].opened.status.term();
    cluster.hold_jobs = Box::new(move |at, done| at == behind && values_read(at, done));
    cluster.propose(leader, CommandKind::Txn, &compares_value("guard")).expect("it is applied");
    for number in 0..20 {
        cluster.propose(leader, CommandKind::Put, &put(number)).expect("two of three have it");
        cluster.run(10);
        let waiting = unapplied_bytes(&cluster, behind);
        assert!(waiting <= MAX_UNAPPLIED_BYTES + IN_FLIGHT_BYTES, "{waiting} bytes after {number} puts");
    }
    assert!(
        unapplied_bytes(&cluster, behind) + 2 * VALUE_BYTES as u64 > MAX_UNAPPLIED_BYTES,
        "it goes so far"
    );
    cluster.release_jobs();
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(cluster.nodes[&leader].opened.status.term(), term, "heartbeats went on");
}

/// Of three members one is down, so nothing is committed without the one that has too much to apply.
#[test]
fn a_follower_that_a_quorum_needs_takes_entries_all_the_same() {
    let mut cluster = cluster(3);
    fill(&mut cluster);
    let (leader, behind) = (cluster.leader().expect("one leads"), cluster.follower());
    let down = (1..=3).find(|id| *id != leader && *id != behind).expect("there are three");
    let term = cluster.nodes[&leader].opened.status.term();
    cluster.stop(down);
    cluster.hold_jobs = Box::new(move |at, done| at == behind && values_read(at, done));
    cluster.propose(leader, CommandKind::Txn, &compares_value("guard")).expect("it is applied");
    for number in 0..20 {
        cluster.propose(leader, CommandKind::Put, &put(number)).expect("two of three have it");
    }
    assert!(unapplied_bytes(&cluster, behind) > 2 * (MAX_UNAPPLIED_BYTES + IN_FLIGHT_BYTES));
    assert_eq!(cluster.nodes[&leader].opened.status.term(), term);
    cluster.release_jobs();
    cluster.start(down);
    cluster.settle();
    cluster.assert_equal();
}
