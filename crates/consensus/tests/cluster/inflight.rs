//! What may be in flight to a peer, and that nothing lost stops it.

use consensus::{MAX_APPEND_BYTES, MAX_INFLIGHT_BYTES, MAX_INFLIGHT_MESSAGES, PeerStatus};

use crate::cluster::Cluster;
use crate::member::ELECTION_TICK;
use crate::scenarios::follower;

fn peer(cluster: &mut Cluster, leader: u64, id: u64) -> PeerStatus {
    cluster.node(leader).status().peers.into_iter().find(|peer| peer.id == id).unwrap()
}

/// A leader, and a follower whose disk stalls, with a full window of appends that are written nowhere.
fn full_window(seed: u64) -> (Cluster, u64, u64) {
    let mut cluster = Cluster::new(seed, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let stalled = follower(&cluster, leader);
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = true;
    for _ in 0..3 * MAX_INFLIGHT_MESSAGES {
        cluster.propose(leader, 8).unwrap();
    }
    (cluster, leader, stalled)
}

fn catches_up(cluster: &mut Cluster, leader: u64, id: u64) {
    cluster.members.get_mut(&id).unwrap().is_disk_stalled = false;
    cluster.run(2 * ELECTION_TICK);
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(cluster.members[&id].applied, cluster.members[&leader].applied);
    assert!(cluster.members[&id].applied > 3 * MAX_INFLIGHT_MESSAGES as u64);
}

#[test]
fn a_peer_that_does_not_answer_gets_no_more_than_its_window() {
    let mut cluster = Cluster::new(15, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let silent = follower(&cluster, leader);
    for _ in 0..30 {
        cluster.propose(leader, 700_000).unwrap();
        for link in cluster.waiting_links() {
            if link.0 != silent && link.1 != silent {
                cluster.deliver(link);
            }
        }
        while cluster.complete_write(leader) {}
    }
    let bytes = cluster.bytes_under_way(leader, silent);
    assert!((MAX_INFLIGHT_BYTES..MAX_INFLIGHT_BYTES + 800_000).contains(&bytes), "{bytes} bytes in flight");
    cluster.run(10);
    assert_eq!(cluster.members[&silent].applied, cluster.members[&leader].applied);
    assert_eq!(cluster.bytes_under_way(leader, silent), 0);
}

#[test]
fn heartbeats_do_not_widen_the_window_of_a_peer_whose_disk_hangs() {
    let (mut cluster, leader, stalled) = full_window(16);
    cluster.run(200);
    let peer = peer(&mut cluster, leader, stalled);
    assert_eq!(peer.next - 1 - peer.matched, MAX_INFLIGHT_MESSAGES as u64, "an append for each entry");
    catches_up(&mut cluster, leader, stalled);
}

#[test]
fn heartbeats_do_not_widen_a_window_that_is_shut_by_its_bytes() {
    let mut cluster = Cluster::new(17, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let stalled = follower(&cluster, leader);
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = true;
    for _ in 0..30 {
        cluster.propose(leader, 700_000).unwrap();
        cluster.flush();
    }
    cluster.run(200);
    let peer = peer(&mut cluster, leader, stalled);
    let appends = MAX_INFLIGHT_BYTES.div_ceil(700_000) as u64;
    assert_eq!(peer.next - 1 - peer.matched, appends, "an append for each entry");
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = false;
    cluster.run(10);
    assert_eq!(cluster.members[&stalled].applied, cluster.members[&leader].applied);
}

#[test]
fn a_full_window_of_lost_appends_is_sent_again() {
    let (mut cluster, leader, stalled) = full_window(18);
    cluster.lose(leader, stalled);
    catches_up(&mut cluster, leader, stalled);
}

#[test]
fn a_full_window_whose_responses_are_lost_is_freed() {
    let (mut cluster, leader, stalled) = full_window(19);
    while cluster.deliver((leader, stalled, true)) {}
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = false;
    while cluster.complete_write(stalled) {}
    cluster.lose(stalled, leader);
    catches_up(&mut cluster, leader, stalled);
}

#[test]
fn a_lost_probe_is_sent_again() {
    let mut cluster = Cluster::new(20, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let other = follower(&cluster, leader);
    cluster.node(leader).report_unreachable(other);
    let (index, _) = cluster.propose(leader, 8).unwrap();
    cluster.lose(leader, other);
    cluster.run(3);
    assert_eq!(cluster.members[&other].applied, index);
}

#[test]
fn an_append_carries_a_mebibyte_of_entries_or_one_larger_entry() {
    let mut cluster = Cluster::new(22, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let lagging = follower(&cluster, leader);
    cluster.crash(lagging);
    (0..10).for_each(|_| _ = cluster.propose(leader, 300_000).unwrap());
    cluster.run(5);
    cluster.restart(lagging);
    cluster.run(30);
    assert_eq!(cluster.members[&lagging].applied, cluster.members[&leader].applied);
    assert!((900_000..1 << 20).contains(&cluster.longest), "{} bytes at once", cluster.longest);
    cluster.propose(leader, 2_000_000).unwrap();
    cluster.run(5);
    assert!((2_000_000..2_001_000).contains(&cluster.longest), "{} bytes at once", cluster.longest);
}

#[test]
fn a_peer_that_answers_many_heartbeats_at_once_is_probed_once() {
    let mut cluster = Cluster::new(21, 3);
    let first = cluster.elect();
    cluster.run(3);
    let target = follower(&cluster, first);
    let stalled = 6 - first - target;
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = true;
    cluster.node(first).transfer_leader(target).unwrap();
    cluster.work(first);
    cluster.flush();
    assert_eq!(cluster.leader(), Some(target));
    // Its vote is not on its disk, so that its answers wait.
    for _ in 0..3 {
        cluster.propose(target, 300_000).unwrap();
    }
    cluster.run(20 * ELECTION_TICK);
    cluster.members.get_mut(&stalled).unwrap().is_disk_stalled = false;
    while cluster.complete_write(stalled) {}
    let mut most = 0;
    while cluster.deliver((stalled, target, false)) || cluster.deliver((stalled, target, true)) {
        most = most.max(cluster.bytes_under_way(target, stalled));
    }
    assert!(most as u64 <= MAX_APPEND_BYTES + 100_000, "{most} bytes in flight");
    cluster.run(5);
    assert_eq!(cluster.members[&stalled].applied, cluster.members[&target].applied);
}
