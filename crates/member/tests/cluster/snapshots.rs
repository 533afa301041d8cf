//! A member too far behind the log gets the leader's state, whatever breaks on the way.

use crate::rig::Cluster;
use member::{Input, SnapshotEvent};

fn value(number: u32) -> Vec<u8> {
    (0..400).map(|at| (number.wrapping_mul(31).wrapping_add(at) % 251) as u8).collect()
}

/// Three members of which one was down while the log went on beyond what is kept.
pub(crate) fn one_behind() -> (Cluster, u64) {
    let mut cluster = Cluster::new(3, |_| {});
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
    let sending = |event: &SnapshotEvent| matches!(event, SnapshotEvent::Sending { .. });
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
