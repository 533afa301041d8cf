//! A member whose log is damaged where it must be replayed repairs it with its peers before it takes part.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Input, MemberConfig, Notice};

use crate::compares::compares_value;
use crate::rig::Cluster;

/// No checkpoint and no truncation: a start replays every entry.
fn replay_all(config: &mut MemberConfig) {
    config.checkpoint_commands = 100_000;
    config.catchup_entries = 10_000;
}

fn value(number: u8) -> Vec<u8> {
    vec![number; 300]
}

/// A cluster with forty keys, of which `hurt` are damaged at a member that is down.
pub(crate) fn one_hurt(size: u64, hurt: &[&str]) -> (Cluster, u64) {
    let mut cluster = Cluster::new(size, replay_all);
    for number in 0..40 {
        cluster.put(&format!("key{number}"), value(number));
    }
    cluster.settle();
    let at = if size == 1 { 1 } else { cluster.follower() };
    hurt.iter().for_each(|key| cluster.damage(at, key));
    cluster.stop(at);
    (cluster, at)
}

pub(crate) fn repaired(cluster: &Cluster, at: u64) -> usize {
    let notices = cluster.nodes[&at].notices.iter();
    notices.filter(|notice| matches!(notice, Notice::Repaired { .. })).count()
}

#[test]
fn damaged_entries_are_fetched_before_a_member_joins() {
    let (mut cluster, hurt) = one_hurt(3, &["key3", "key4", "key30"]);
    for number in 40..60 {
        cluster.put(&format!("key{number}"), value(number));
    }
    cluster.start(hurt);
    let at_start = cluster.nodes[&hurt].opened.loading.replayed_entries;
    assert!((1..20).contains(&at_start), "{at_start} entries are before the damage");
    cluster.settle();
    assert_eq!(repaired(&cluster, hurt), 4, "three entries, and the log");
    cluster.assert_equal();
    for number in 0..60 {
        let found = cluster.get(hurt, &format!("key{number}"));
        assert_eq!(found, Ok(Some(value(number).into())), "key{number}");
    }
    // It is an ordinary member again, and its log is whole on disk.
    cluster.put("after", "it takes part");
    cluster.settle();
    cluster.stop(hurt);
    cluster.start(hurt);
    cluster.settle();
    assert_eq!(repaired(&cluster, hurt), 0);
    cluster.assert_equal();
}

/// It acknowledged the entry: a quorum may count on it. So it does nothing that only a member with its whole log may.
#[test]
fn a_member_with_a_damaged_log_neither_votes_nor_acknowledges() {
    let (mut cluster, hurt) = one_hurt(3, &["key20"]);
    let leader = cluster.leader().expect("somebody leads");
    let other = (1..=3).find(|id| *id != hurt && *id != leader).expect("there are three");
    cluster.stop(leader);
    cluster.stop(other);
    // The other two begin again, and what reaches the damaged one is lost.
    cluster.start(hurt);
    cluster.start(other);
    cluster.hold = Some(hurt);
    let term = cluster.nodes[&other].opened.status.term();
    for _ in 0..40 {
        cluster.run(50);
        cluster.held.clear();
        assert_eq!(cluster.nodes[&hurt].opened.status.leader(), 0);
        assert_eq!(cluster.nodes[&other].opened.status.leader(), 0, "it has one vote");
    }
    assert_eq!(cluster.nodes[&other].opened.status.term(), term);
    let read = cluster.ask(hurt, |token| Input::Read { token });
    assert!(matches!(read, member::Answer::Failed(api::Error::NoLeader)));
    // It gets its entry, although there is no leader: then there is a quorum.
    cluster.hold = None;
    cluster.until("it is repaired", |cluster| repaired(cluster, hurt) == 2);
    cluster.until("they elect a leader", |cluster| cluster.leader().is_some());
    cluster.put("after", "a quorum");
    cluster.settle();
    cluster.assert_equal();
}

/// Each has what the other lacks, and they answer each other before either of them takes part.
#[test]
fn two_members_with_different_damage_repair_each_other() {
    let mut cluster = Cluster::new(3, replay_all);
    for number in 0..40 {
        cluster.put(&format!("key{number}"), value(number));
    }
    cluster.settle();
    cluster.damage(1, "key10");
    cluster.damage(2, "key11");
    (1..=3).for_each(|id| cluster.stop(id));
    cluster.start(1);
    cluster.start(2);
    cluster.until("they elect a leader", |cluster| cluster.leader().is_some());
    cluster.put("after", "two of three");
    cluster.start(3);
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn an_entry_that_no_member_has_stops_the_process() {
    let mut cluster = Cluster::new(3, replay_all);
    for number in 0..10 {
        cluster.put(&format!("key{number}"), value(number));
    }
    cluster.settle();
    (1..=3).for_each(|id| cluster.damage(id, "key5"));
    (1..=3).for_each(|id| cluster.stop(id));
    (1..=3).for_each(|id| cluster.start(id));
    cluster.run(600);
    assert_eq!(cluster.nodes.len(), 3, "the others may have it later");
    // Those that are left wait for an answer.
    cluster.until("some stop", |cluster| cluster.nodes.len() < 3);
}

#[test]
fn a_lone_member_is_refused_at_once() {
    let (mut cluster, hurt) = one_hurt(1, &["key5"]);
    let refused = cluster.start_if_possible(hurt).expect_err("it has no peers").to_string();
    assert!(refused.contains("cannot be replayed") && refused.contains("is damaged"), "{refused}");
}

/// A cluster in which a checkpoint holds the value of "guard", and the entries after it compare it. The values of
/// `hurt` are damaged at a member that is down.
fn compared(size: u64, hurt: &[&str]) -> (Cluster, u64) {
    let mut cluster = Cluster::new(size, |config| config.checkpoint_commands = 40);
    cluster.put("guard", vec![9; 300]);
    (0..40).for_each(|number| cluster.put(&format!("key{number}"), value(number)));
    cluster.settle();
    let at = if size == 1 { 1 } else { cluster.follower() };
    let leader = cluster.leader().expect("one leads");
    // Sent together, so that a part of their batch is applied before the value is missed.
    let mut put = |key: &str| {
        let request = pb::PutRequest { key: key.to_owned().into(), ..pb::PutRequest::default() };
        cluster.begin(leader, CommandKind::Put, &request);
    };
    put("before");
    cluster.begin(leader, CommandKind::Txn, &compares_value("guard"));
    cluster.settle();
    // A commit index is recorded with the entries after it.
    (0..9).for_each(|number| cluster.put(&format!("after{number}"), "the transaction"));
    cluster.settle();
    hurt.iter().for_each(|key| cluster.damage(at, key));
    cluster.stop(at);
    (cluster, at)
}

/// The members that run overwrite the value of "guard", and purge it.
fn forget_value(cluster: &mut Cluster) {
    cluster.put("guard", "another value");
    cluster.compact(true);
    cluster.until("the value is gone", |cluster| {
        let purged = |node: &crate::rig::Node| node.opened.reader.purged() == node.opened.reader.compacted();
        cluster.nodes.values().all(purged)
    });
}

/// Its log is whole, so it takes part; the entry waits for the value.
#[test]
fn a_value_that_a_replayed_entry_compares_comes_from_a_peer() {
    let (mut cluster, hurt) = compared(3, &["guard"]);
    cluster.start(hurt);
    let opened = &cluster.nodes[&hurt].opened;
    let warned = |text: &String| text.contains("compares a damaged value");
    assert!(opened.warnings.iter().any(warned), "{:?}", opened.warnings);
    cluster.settle();
    assert_eq!(repaired(&cluster, hurt), 1);
    assert_eq!(cluster.get(hurt, "then"), Ok(Some("yes".into())));
    assert_eq!(cluster.get(hurt, "after8"), Ok(Some("the transaction".into())));
    cluster.assert_equal();
    cluster.stop(hurt);
    cluster.start(hurt);
    cluster.settle();
    assert_eq!(repaired(&cluster, hurt), 0, "the copy is written");
    cluster.assert_equal();
}

/// The entry after the one that needs the value is damaged, too.
#[test]
fn damaged_entries_are_fetched_beside_a_value_that_one_compares() {
    let (mut cluster, hurt) = compared(3, &["guard", "after3"]);
    cluster.start(hurt);
    cluster.settle();
    assert_eq!(repaired(&cluster, hurt), 3, "an entry, the log, and the value");
    assert_eq!(cluster.get(hurt, "then"), Ok(Some("yes".into())));
    cluster.assert_equal();
}

/// All others have overwritten the value, and purged it. The member stays behind, says once what to do, and accounts
/// the entries that wait: those that the start has found, and those that came since.
#[test]
fn a_compared_value_that_no_member_has_leaves_its_member_behind() {
    const ENTRY_BYTES: usize = 20_000;
    let (mut cluster, hurt) = compared(3, &["guard"]);
    (0..5).for_each(|number| cluster.put(&format!("large{number}"), vec![0; ENTRY_BYTES]));
    forget_value(&mut cluster);
    let told = |cluster: &Cluster| {
        let says = |text: &str| text.contains("this member stays behind") && text.contains("replace");
        let notices = cluster.nodes[&hurt].notices.iter();
        notices.filter(|notice| matches!(notice, Notice::Failure { text } if says(text))).count()
    };
    for waiting in [5, 10] {
        cluster.start(hurt);
        cluster.until("it says that it stays behind", |cluster| told(cluster) > 0);
        (5..10).for_each(|number| cluster.put(&format!("large{number}"), vec![0; ENTRY_BYTES]));
        cluster.run(600);
        assert_eq!(told(&cluster), 1, "and it does not repeat that");
        let node = &cluster.nodes[&hurt];
        assert_eq!(
            node.opened.reader.current_revision(),
            43,
            "it has applied what is before the transaction"
        );
        let memory = node.opened.status.memory();
        let log = memory.iter().find(|(component, _)| *component == "log").map_or(0, |(_, bytes)| *bytes);
        assert!(log >= (waiting + 5) * ENTRY_BYTES as u64, "{log} bytes are accounted");
        cluster.stop(hurt);
    }
}

/// A cluster in which a member stays behind: the others have overwritten the value that it misses, and purged it.
fn left_behind(tune: fn(&mut MemberConfig)) -> (Cluster, u64) {
    let (mut cluster, hurt) = compared(3, &["guard"]);
    cluster.tune = tune;
    forget_value(&mut cluster);
    cluster.start(hurt);
    let tells = |notice: &Notice| matches!(notice, Notice::Failure { text } if text.contains("stays behind"));
    cluster.until("it stays behind", |cluster| cluster.nodes[&hurt].notices.iter().any(tells));
    (cluster, hurt)
}

/// Once too much waits it takes no more entries, so it falls behind the log of the leader, which sends a snapshot.
#[test]
fn a_member_that_stays_behind_gets_a_snapshot_in_the_end() {
    let (mut cluster, hurt) = left_behind(|config| {
        (config.checkpoint_commands, config.max_unapplied_bytes) = (40, 20_000);
    });
    (0..100).for_each(|number| cluster.put(&format!("large{number}"), vec![0; 2_000]));
    cluster.settle();
    assert_eq!(cluster.get(hurt, "then"), Ok(Some("yes".into())));
    cluster.assert_equal();
}

/// Nothing that it is asked would be answered.
#[test]
fn a_leader_that_stays_behind_hands_over() {
    let (mut cluster, hurt) = left_behind(|config| config.checkpoint_commands = 40);
    let leader = cluster.leader().expect("one leads");
    cluster.send(leader, |token| Input::MoveLeader { token, to: hurt });
    cluster.until("it leads", |cluster| cluster.leader() == Some(hurt));
    cluster.until("another one leads", |cluster| cluster.leader().is_some_and(|leader| leader != hurt));
    cluster.put("after", "is answered");
}

/// One of the two others does not hear of it, whichever that is: then the second one leads.
#[test]
fn a_leader_that_stays_behind_tries_each_of_the_others() {
    for deaf in [1, 2] {
        let (mut cluster, hurt) = left_behind(|config| config.checkpoint_commands = 40);
        let leader = cluster.leader().expect("one leads");
        let deaf = (1..=3).filter(|id| *id != hurt).nth(deaf - 1).expect("there are two");
        cluster.send(leader, |token| Input::MoveLeader { token, to: hurt });
        cluster.until("it leads", |cluster| cluster.leader() == Some(hurt));
        cluster.hold = Some(deaf);
        let is_other = |id: u64| id != hurt && id != deaf;
        cluster.until("the other one leads", |cluster| cluster.leader().is_some_and(is_other));
    }
}

#[test]
fn a_lone_member_cannot_replay_what_compares_a_damaged_value() {
    let (mut cluster, hurt) = compared(1, &["guard"]);
    let refused = cluster.start_if_possible(hurt).expect_err("it has no peers").to_string();
    assert!(refused.contains("compares a value that is damaged"), "{refused}");
}
