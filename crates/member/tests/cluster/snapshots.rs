//! A member too far behind the log gets the leader's state, whatever breaks on the way.

use crate::rig::Cluster;
use member::jobs::Done;
use member::{Input, MemberConfig, SnapshotEvent};

fn value(number: u32) -> Vec<u8> {
    (0..400).map(|at| (number.wrapping_mul(31).wrapping_add(at) % 251) as u8).collect()
}

/// Three members of which one was down while the log went on beyond what is kept.
pub(crate) fn one_behind() -> (Cluster, u64) {
    one_behind_with(|_| {})
}

pub(crate) fn one_behind_with(tune: fn(&mut MemberConfig)) -> (Cluster, u64) {
    let mut cluster = Cluster::new(3, tune);
    for number in 0..30 {
        cluster.put(&format!("early{number}"), value(number));
    }
    cluster.settle();
    let behind = cluster.follower();
    cluster.stop(behind);
    for number in 0..300 {
        cluster.put(&format!("late{:03}", number % 150), value(number + 1000));
    }
    cluster.compact(true);
    for number in 0..60 {
        cluster.put(&format!("late{number:03}"), value(number + 5000));
    }
    (cluster, behind)
}

pub(crate) fn installed(event: &SnapshotEvent) -> bool {
    matches!(event, SnapshotEvent::Installed { .. })
}

#[test]
fn a_member_far_behind_catches_up_and_goes_on() {
    let (mut cluster, behind) = one_behind();
    cluster.start(behind);
    cluster.settle();
    assert_eq!(cluster.events(behind, installed), 1);
    let leader = cluster.leader().unwrap();
    let sent = |event: &SnapshotEvent| matches!(event, SnapshotEvent::Sent { .. });
    cluster.until("the end is reported", |cluster| cluster.events(leader, sent) == 1);
    cluster.assert_equal();
    for number in 0..200 {
        cluster.put("after", value(number));
    }
    cluster.settle();
    cluster.assert_equal();
    // What was installed is what a restart finds.
    cluster.stop(behind);
    cluster.start(behind);
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(cluster.get(behind, "early3"), Ok(Some(value(3).into())));
}

#[test]
fn the_state_that_a_snapshot_replaces_is_dropped_by_a_job() {
    let (mut cluster, behind) = one_behind();
    cluster.hold_jobs = Box::new(move |at, done| at == behind && matches!(done, Done::StateDropped));
    cluster.start(behind);
    cluster.settle();
    assert_eq!(cluster.events(behind, installed), 1);
    assert_eq!(cluster.held_jobs.len(), 1, "one state is dropped, in the background");
    let (at, dropped) = cluster.held_jobs.remove(0);
    cluster.give(at, dropped);
    cluster.run(1);
    cluster.assert_equal();
}

#[test]
fn writes_go_on_while_a_snapshot_travels() {
    let (mut cluster, behind) = one_behind();
    cluster.start(behind);
    for number in 0..400 {
        cluster.put(&format!("during{}", number % 37), value(number));
    }
    cluster.settle();
    assert!((1..=2).contains(&cluster.events(behind, installed)), "one makes it quick enough to follow");
    cluster.assert_equal();
}

fn sending(event: &SnapshotEvent) -> bool {
    matches!(event, SnapshotEvent::Sending { .. })
}

fn applied(cluster: &Cluster, at: u64) -> u64 {
    cluster.nodes[&at].opened.status.applied_index()
}

/// The leader went on without the entries that the follower needed next, and sent another snapshot, and so on.
#[test]
fn a_follower_whose_snapshot_travels_long_catches_up_under_continuous_writes() {
    let (mut cluster, behind) = one_behind();
    let leader = cluster.leader().expect("somebody leads");
    cluster.steps_per_item = 400;
    cluster.start(behind);
    cluster.until("it is sent", |cluster| cluster.events(leader, sending) == 1);
    let begin = applied(&cluster, leader);
    let (mut written, mut most_bytes) = (0, 0);
    let file_bytes = |cluster: &Cluster| cluster.nodes[&leader].opened.log.file_bytes();
    while applied(&cluster, behind) + 5 < applied(&cluster, leader) {
        cluster.put(&format!("during{}", written % 37), value(written));
        written += 1;
        most_bytes = file_bytes(&cluster).max(most_bytes);
        assert!(written < 5_000, "it is at {} of {}", applied(&cluster, behind), applied(&cluster, leader));
    }
    assert!(applied(&cluster, leader) - begin > 500, "only {written} puts while it travelled");
    assert_eq!(cluster.events(leader, sending), 1);
    cluster.settle();
    cluster.assert_equal();
    cluster.compact(true);
    (0..100).for_each(|number| cluster.put("after", value(number)));
    cluster.run(500);
    let left = file_bytes(&cluster);
    assert!(left < most_bytes / 2, "what was kept for it is not kept forever: {left} of {most_bytes}");
}

#[test]
fn a_follower_is_waited_for_although_it_starts_again_after_its_snapshot() {
    let (mut cluster, behind) = one_behind();
    let leader = cluster.leader().expect("somebody leads");
    cluster.steps_per_item = 20;
    cluster.start(behind);
    let sent = |event: &SnapshotEvent| matches!(event, SnapshotEvent::Sent { .. });
    for number in 0.. {
        cluster.put("during", value(number));
        if cluster.has_whole_stream() {
            break;
        }
    }
    // It installs the snapshot, and gets no entry after it.
    cluster.hold = Some(behind);
    cluster.until("it is sent", |cluster| cluster.events(leader, sent) == 1);
    cluster.stop(behind);
    cluster.hold = None;
    (0..300).for_each(|number| cluster.put(&format!("while{}", number % 37), value(number)));
    cluster.start(behind);
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(cluster.events(leader, sending), 1);
}

/// The entries that it lacks have some 150 KB.
#[test]
fn a_member_behind_by_more_bytes_than_are_kept_gets_a_snapshot() {
    let all = |config: &mut MemberConfig| config.catchup_entries = 10_000;
    let some = |config: &mut MemberConfig| (config.catchup_entries, config.catchup_bytes) = (10_000, 100_000);
    for (tune, snapshots) in [(all as fn(&mut MemberConfig), 0), (some, 1)] {
        let (mut cluster, behind) = one_behind_with(tune);
        cluster.start(behind);
        cluster.settle();
        assert_eq!(cluster.events(behind, installed), snapshots);
        cluster.assert_equal();
    }
}

#[test]
fn a_snapshot_is_given_up_when_the_log_after_it_would_take_more_space_than_it_does() {
    let (mut cluster, behind) = one_behind_with(|config| config.snapshot_log_bytes = 0);
    let leader = cluster.leader().expect("somebody leads");
    cluster.steps_per_item = 100_000;
    cluster.start(behind);
    cluster.until("it is sent", |cluster| cluster.events(leader, sending) == 1);
    let before = cluster.nodes[&leader].opened.log.file_bytes();
    (0..1_000).for_each(|number| cluster.put("during", vec![number as u8; 2_000]));
    let pinned = cluster.nodes[&leader].opened.log.file_bytes() - before;
    assert!(pinned > 1_000_000, "the stream still pins what it reads: {pinned}");
    cluster.steps_per_item = 1;
    cluster.until("it is given up", |cluster| !cluster.reasons_not_sent(leader).is_empty());
    assert!(cluster.reasons_not_sent(leader)[0].contains("was released to free space"));
    cluster.settle();
    cluster.assert_equal();
    cluster.compact(true);
    (0..100).for_each(|number| cluster.put("after", value(number)));
    cluster.run(500);
    let freed = cluster.nodes[&leader].opened.log.file_bytes();
    assert!(freed < before + pinned / 2, "{freed} of {pinned} and {before}");
    assert_eq!(applied(&cluster, behind), applied(&cluster, leader));
}

#[test]
fn a_broken_stream_goes_on_where_the_receiver_stands() {
    let (mut cluster, behind) = one_behind();
    cluster.breaks = vec![10, 11, 5_000, 70_001];
    cluster.start(behind);
    cluster.settle();
    assert!(cluster.breaks.is_empty(), "the stream is longer than that");
    assert_eq!(cluster.events(behind, installed), 1);
    let begun = |event: &SnapshotEvent| matches!(event, SnapshotEvent::Receiving { .. });
    assert_eq!(cluster.events(behind, begun), 1, "it went on, it did not begin again");
    cluster.assert_equal();
}

/// The leader would offer the very same state again and again to a member that has it.
#[test]
fn a_leader_that_does_not_hear_of_the_end_learns_it_from_consensus() {
    let (mut cluster, behind) = one_behind();
    cluster.lose_end = true;
    cluster.start(behind);
    cluster.until("it is installed", |cluster| cluster.events(behind, installed) == 1);
    cluster.run(2_000);
    let leader = cluster.leader().unwrap();
    assert!(cluster.events(leader, sending) <= 2, "{}", cluster.events(leader, sending));
    cluster.put("after", "it");
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_receiver_that_dies_gets_another() {
    let (mut cluster, behind) = one_behind();
    cluster.start(behind);
    let begun = |event: &SnapshotEvent| matches!(event, SnapshotEvent::Receiving { .. });
    cluster.until("it receives", |cluster| cluster.events(behind, begun) == 1);
    cluster.run(3);
    cluster.stop(behind);
    cluster.run(10);
    cluster.start(behind);
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_crash_at_any_moment_of_an_installation_leaves_before_or_after() {
    let (mut cluster, behind) = one_behind();
    let before = cluster.disks[&behind].changes();
    cluster.start(behind);
    cluster.until("it is installed", |cluster| cluster.events(behind, installed) == 1);
    let changes = cluster.disks[&behind].changes() - before;
    // A step does several changes at once, so the machine stops between them, spread over all of it.
    for round in 0..12 {
        let (mut cluster, behind) = one_behind();
        let disk = cluster.disks[&behind].clone();
        let moment = disk.changes() + changes * round / 12;
        disk.stop_after(changes * round / 12);
        // The disk may fail before it is open.
        let _ = cluster.start_if_possible(behind);
        cluster
            .until("the moment", |cluster| disk.changes() >= moment || !cluster.nodes.contains_key(&behind));
        cluster.stop(behind);
        cluster.disks.insert(behind, disk.crash(&mut |below| round % below));
        cluster.start(behind);
        cluster.settle();
        cluster.assert_equal();
    }
}

#[test]
fn a_header_that_makes_no_sense_is_refused() {
    let mut cluster = Cluster::new(3, |_| {});
    let (leader, follower) = (cluster.leader().unwrap(), cluster.follower());
    for header in [&b""[..], b"STLS", &[b'x'; 64], b"STLS\x02\0\0\0                "] {
        let header = bytes::Bytes::copy_from_slice(header);
        let answer = cluster.ask(follower, |token| Input::SnapshotOffered { token, from: leader, header });
        assert!(matches!(answer, member::Answer::SnapshotRefused(_)), "{answer:?}");
    }
}

/// Consensus may have the configuration of a snapshot that has arrived, and the store the state before it: a checkpoint
/// of the two would fit nothing.
#[test]
fn a_stop_before_consensus_has_decided_on_a_snapshot_writes_no_checkpoint() {
    let (mut cluster, behind) = one_behind();
    cluster.start(behind);
    cluster.until("the snapshot has arrived", |cluster| cluster.has_whole_stream());
    // A checkpoint would have to end first.
    cluster.hold_jobs = Box::new(|_, _| true);
    cluster.give(behind, Input::Stop);
    cluster.step();
    assert!(cluster.nodes[&behind].has_stopped, "at once");
    cluster.hold_jobs = Box::new(|_, _| false);
    cluster.held_jobs.clear();
    cluster.stop(behind);
    cluster.start(behind);
    cluster.settle();
    cluster.assert_equal();
}
