//! Damage is repaired with a peer's copy, wherever it is found; without one, the callers that wait get an error.

use member::batch::CommandKind;
use member::{Answer, Input, Notice};

use crate::compares::compares_value;
use crate::rig::Cluster;

fn filled() -> Cluster {
    let mut cluster = Cluster::new(3, |_| {});
    for number in 0..40 {
        cluster.put(&format!("key{number}"), vec![number as u8; 300]);
    }
    cluster.settle();
    cluster
}

fn repaired(cluster: &Cluster, at: u64) -> usize {
    cluster.nodes[&at].notices.iter().filter(|notice| matches!(notice, Notice::Repaired { .. })).count()
}

#[test]
fn a_reader_gets_a_damaged_value_from_a_peer() {
    let mut cluster = filled();
    for at in [1, 2, 3] {
        cluster.damage(at, "key7");
        assert_eq!(cluster.get(at, "key7"), Ok(Some(vec![7; 300].into())));
        assert_eq!(repaired(&cluster, at), 1);
    }
    cluster.assert_equal();
    // What was repaired stays so.
    cluster.stop(2);
    cluster.start(2);
    cluster.settle();
    assert_eq!(cluster.get(2, "key7"), Ok(Some(vec![7; 300].into())));
}

#[test]
fn a_value_that_one_peer_lost_too_comes_from_the_other() {
    let mut cluster = filled();
    cluster.damage(1, "key3");
    cluster.damage(2, "key3");
    assert_eq!(cluster.get(1, "key3"), Ok(Some(vec![3; 300].into())));
    assert_eq!(cluster.get(2, "key3"), Ok(Some(vec![3; 300].into())));
}

#[test]
fn a_value_that_nobody_has_is_an_error_and_the_rest_is_served() {
    let mut cluster = filled();
    (1..=3).for_each(|at| cluster.damage(at, "key5"));
    assert_eq!(cluster.get(1, "key5"), Err(api::Error::Corrupt));
    assert_eq!(cluster.get(1, "key6"), Ok(Some(vec![6; 300].into())));
    cluster.put("key5", "new");
    cluster.settle();
    assert_eq!(cluster.get(1, "key5"), Ok(Some("new".into())));
}

#[test]
fn a_sole_member_says_so_at_once() {
    let mut cluster = Cluster::new(1, |_| {});
    for number in 0..40 {
        cluster.put(&format!("key{number}"), vec![number as u8; 300]);
    }
    cluster.damage(1, "key5");
    assert_eq!(cluster.get(1, "key5"), Err(api::Error::Corrupt));
}

#[test]
fn an_address_without_references_needs_no_repair() {
    let mut cluster = filled();
    let address = 77 << 32;
    let answer = cluster.ask(1, |token| Input::Repair { token, address, key: None });
    assert!(matches!(answer, Answer::Repaired));
}

/// docs/operating/limits.md names this number.
const VALUES_UNDER_REPAIR: u64 = 1_024;

#[test]
fn readers_of_more_values_than_are_repaired_at_a_time_are_told_to_come_again() {
    let mut cluster = filled();
    let repair = |cluster: &mut Cluster, number: u64| {
        let address = (77 << 32) + number;
        cluster.send(1, |token| Input::Repair { token, address, key: None })
    };
    let taken: Vec<u64> = (0..VALUES_UNDER_REPAIR).map(|number| repair(&mut cluster, number)).collect();
    let refused = repair(&mut cluster, VALUES_UNDER_REPAIR);
    let joins = repair(&mut cluster, 0);
    cluster.step();
    let answer = cluster.answers.remove(&refused);
    assert!(matches!(answer, Some(Answer::Failed(api::Error::TooManyRequests))), "{answer:?}");
    cluster.run(10);
    for token in taken.into_iter().chain([joins]) {
        let answer = cluster.answers.remove(&token);
        assert!(matches!(answer, Some(Answer::Repaired)), "{answer:?}");
    }
    let later = repair(&mut cluster, VALUES_UNDER_REPAIR);
    cluster.run(10);
    assert!(matches!(cluster.answers.remove(&later), Some(Answer::Repaired)), "there is room again");
}

#[test]
fn apply_waits_for_a_value_it_compares() {
    let mut cluster = filled();
    let hurt = cluster.follower();
    cluster.damage(hurt, "key9");
    cluster
        .propose(hurt, CommandKind::Txn, &compares_value("key9"))
        .expect("it is applied where the value was damaged");
    assert_eq!(repaired(&cluster, hurt), 1);
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(cluster.get(hurt, "then"), Ok(Some("yes".into())));
}

/// A disk that fails to read for a while looks like damage. When peers do not have the value any more, only this disk
/// can still give it.
#[test]
fn apply_tries_its_own_disk_again_when_peers_have_purged_the_value() {
    let mut cluster = Cluster::new(3, |config| {
        config.catchup_entries = 10_000;
        config.checkpoint_commands = 100_000;
    });
    for number in 0..40 {
        cluster.put(&format!("key{number}"), vec![number as u8; 300]);
    }
    cluster.settle();
    let behind = cluster.follower();
    cluster.stop(behind);
    let leader = cluster.leader().unwrap();
    cluster.propose(leader, CommandKind::Txn, &compares_value("key9")).expect("it is applied");
    cluster.put("key9", "new");
    cluster.compact(true);
    cluster.settle();
    cluster.until("the old value is purged", |cluster| {
        cluster
            .nodes
            .values()
            .all(|node| node.opened.reader.purged() == node.opened.reader.current_revision())
    });
    cluster.start(behind);
    cluster.damage(behind, "key9");
    cluster.until("apply meets the damage", |cluster| {
        cluster.nodes[&behind].notices.iter().any(|notice| matches!(notice, Notice::Damage { .. }))
    });
    assert_eq!(cluster.get(behind, "key9"), Err(api::Error::Corrupt), "peers do not have it");
    // The same bit again: nothing is wrong with it any more.
    cluster.damage(behind, "key9");
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(repaired(&cluster, behind), 0);
    assert_eq!(cluster.get(behind, "then"), Ok(Some("yes".into())));
}

#[test]
fn a_damaged_entry_is_repaired_for_a_follower_that_lags() {
    let mut cluster = Cluster::new(3, |config| {
        config.catchup_entries = 10_000;
        config.checkpoint_commands = 100_000;
    });
    let behind = cluster.follower();
    cluster.stop(behind);
    for number in 0..200u32 {
        // More than consensus keeps in memory, so that it is read from disk.
        cluster.put(&format!("key{number}"), vec![number as u8; 120_000]);
    }
    let leader = cluster.leader().unwrap();
    cluster.damage(leader, "key3");
    cluster.start(behind);
    cluster.settle();
    assert!(repaired(&cluster, leader) >= 1);
    cluster.assert_equal();
}

#[test]
fn a_snapshot_meets_a_damaged_value_and_the_next_one_has_it() {
    let mut cluster = filled();
    let behind = cluster.follower();
    cluster.stop(behind);
    for number in 0..200 {
        cluster.put(&format!("late{number}"), vec![number as u8; 300]);
    }
    let leader = cluster.leader().unwrap();
    cluster.damage(leader, "key3");
    cluster.start(behind);
    cluster.settle();
    assert_eq!(repaired(&cluster, leader), 1);
    cluster.assert_equal();
}
