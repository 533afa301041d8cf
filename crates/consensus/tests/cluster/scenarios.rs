//! Elections, transfers, restarts and lagging followers, one scenario a test.

use bytes::Bytes;
use consensus::{
    Change, ConfChange, Config, Consensus, MAX_UNCOMMITTED_BYTES, PeerState, ProposeError, Ready, Role,
    Start, Transition,
};

use crate::cluster::Cluster;
use crate::member::ELECTION_TICK;

fn change(transition: Transition, changes: &[Change]) -> ConfChange {
    ConfChange { transition, changes: changes.to_vec(), context: Bytes::from_static(b"who") }
}

pub(crate) fn follower(cluster: &Cluster, leader: u64) -> u64 {
    cluster.running().into_iter().find(|id| *id != leader).unwrap()
}

#[test]
fn three_members_elect_replicate_and_read() {
    let mut cluster = Cluster::new(1, 3);
    let leader = cluster.elect();
    let (index, term) = cluster.propose(leader, 100).unwrap();
    cluster.run(3);
    assert_eq!(cluster.committed[&index].term, term);
    assert!(cluster.members.values().all(|member| member.applied == index));
    cluster.read(leader);
    cluster.run(2);
    assert_eq!(cluster.reads_served, 1);
}

#[test]
fn a_follower_names_the_leader_and_takes_no_proposal() {
    let mut cluster = Cluster::new(2, 3);
    let leader = cluster.elect();
    cluster.run(2);
    let follower = follower(&cluster, leader);
    assert_eq!(cluster.propose(follower, 8), Err(ProposeError::NotLeader { leader }));
    assert_eq!(cluster.node(follower).start_round(1), Err(ProposeError::NotLeader { leader }));
}

#[test]
fn a_restarted_leader_need_not_wait_for_its_followers_to_miss_it() {
    let mut cluster = Cluster::new(2, 3);
    let leader = cluster.elect();
    cluster.propose(leader, 8).unwrap();
    cluster.run(2);
    cluster.crash(leader);
    cluster.restart(leader);
    cluster.node(leader).campaign();
    cluster.run(2);
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn a_restarted_follower_does_not_depose_its_leader() {
    let mut cluster = Cluster::new(2, 3);
    let leader = cluster.elect();
    cluster.run(2);
    let term = cluster.node(leader).status().term;
    let follower = follower(&cluster, leader);
    cluster.crash(follower);
    cluster.restart(follower);
    cluster.node(follower).campaign();
    cluster.run(2);
    assert_eq!((cluster.leader(), cluster.node(leader).status().term), (Some(leader), term));
}

#[test]
fn an_entry_that_no_log_takes_is_not_proposed() {
    const BYTES: usize = (1 << 30) + 1;
    let mut cluster = Cluster::new(4, 1);
    let leader = cluster.elect();
    let refused = cluster.node(leader).propose(Bytes::from(vec![0; BYTES]));
    assert_eq!(refused, Err(ProposeError::TooLarge { bytes: BYTES }));
}

#[test]
fn no_more_is_proposed_than_may_be_uncommitted() {
    const BYTES: usize = 1 << 20;
    let mut cluster = Cluster::new(4, 3);
    let leader = cluster.elect();
    cluster.run(2);
    // All of them share their bytes, and none is sent.
    let payload = Bytes::from(vec![7; BYTES]);
    let most = MAX_UNCOMMITTED_BYTES as usize / BYTES;
    for number in 0..most {
        assert!(cluster.node(leader).propose(payload.clone()).is_ok(), "entry {number}");
    }
    assert_eq!(cluster.node(leader).propose(payload.clone()), Err(ProposeError::Overloaded));
    assert_eq!(cluster.node(leader).propose(Bytes::from_static(b"small")), Err(ProposeError::Overloaded));
    cluster.work(leader);
    cluster.flush();
    cluster.run(most);
    cluster.node(leader).propose(payload).expect("all that went before is committed");
}

#[test]
fn leadership_is_handed_over_and_proposals_wait() {
    let mut cluster = Cluster::new(3, 3);
    let leader = cluster.elect();
    cluster.run(2);
    let successor = follower(&cluster, leader);
    cluster.node(leader).transfer_leader(successor).unwrap();
    cluster.work(leader);
    assert_eq!(cluster.propose(leader, 8), Err(ProposeError::Transferring { to: successor }));
    cluster.flush();
    assert_eq!(cluster.leader(), Some(successor));
    cluster.propose(successor, 8).unwrap();
    cluster.run(2);
    assert_eq!(cluster.node(successor).transfer_leader(99), Err(ProposeError::NotAVoter { id: 99 }));
}

#[test]
fn a_leader_with_a_stalled_disk_transfers_its_leadership() {
    let mut cluster = Cluster::new(4, 3);
    let leader = cluster.elect();
    cluster.run(5);
    cluster.members.get_mut(&leader).unwrap().is_disk_stalled = true;
    let (index, _) = cluster.propose(leader, 8).unwrap();
    cluster.run(ELECTION_TICK - 1);
    assert_eq!(cluster.leader(), Some(leader));
    let stalled = cluster.node(leader).stalled_write().unwrap();
    assert!(stalled.replicated && stalled.ticks == ELECTION_TICK as u64 - 1);
    cluster.run(2);
    let successor = cluster.leader().unwrap();
    assert_ne!(successor, leader);
    cluster.propose(successor, 8).unwrap();
    cluster.run(5);
    assert!(cluster.committed.contains_key(&(index + 2)), "the others go on");
    cluster.run(5 * ELECTION_TICK);
    assert_eq!(cluster.leader(), Some(successor), "a stalled disk wins no election");
    cluster.members.get_mut(&leader).unwrap().is_disk_stalled = false;
    cluster.run(5);
    assert_eq!(cluster.members[&leader].applied, cluster.members[&successor].applied);
}

#[test]
fn a_slow_disk_delays_neither_heartbeats_nor_reads() {
    let mut cluster = Cluster::new(5, 3);
    let leader = cluster.elect();
    cluster.run(5);
    for member in cluster.members.values_mut() {
        member.is_disk_stalled = true;
    }
    cluster.propose(leader, 8).unwrap();
    cluster.read(leader);
    cluster.run(3 * ELECTION_TICK);
    assert_eq!((cluster.leader(), cluster.reads_served), (Some(leader), 1));
}

#[test]
fn a_learner_catches_up_by_snapshot_and_is_promoted() {
    let mut cluster = Cluster::new(6, 3);
    let leader = cluster.elect();
    for _ in 0..20 {
        cluster.propose(leader, 100).unwrap();
    }
    cluster.run(3);
    cluster.join(4);
    cluster.propose_conf_change(leader, &change(Transition::Auto, &[Change::AddLearner(4)])).unwrap();
    cluster.run(20);
    assert_eq!(cluster.snapshots_installed, 1, "a member that knows nothing gets a snapshot");
    assert_eq!(cluster.members[&4].conf_state.learners, [4]);
    assert_eq!(cluster.members[&4].applied, cluster.members[&leader].applied);
    cluster.propose_conf_change(leader, &change(Transition::Auto, &[Change::AddVoter(4)])).unwrap();
    cluster.run(5);
    assert_eq!(cluster.members[&4].conf_state.voters, [1, 2, 3, 4]);
    cluster.node(leader).transfer_leader(4).unwrap();
    cluster.work(leader);
    cluster.run(2);
    assert_eq!(cluster.leader(), Some(4));
}

#[test]
fn one_conf_change_at_a_time_and_only_one_that_fits() {
    let mut cluster = Cluster::new(7, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let remove = change(Transition::Auto, &[Change::Remove(follower(&cluster, leader))]);
    cluster.propose_conf_change(leader, &remove).unwrap();
    assert_eq!(cluster.propose_conf_change(leader, &remove), Err(ProposeError::ConfChangePending));
    cluster.run(3);
    let unfit = ConfChange::leave_joint();
    assert!(matches!(cluster.propose_conf_change(leader, &unfit), Err(ProposeError::ConfChange(_))));
    let nobody =
        change(Transition::JointAutoLeave, &[Change::Remove(1), Change::Remove(2), Change::Remove(3)]);
    assert!(matches!(cluster.propose_conf_change(leader, &nobody), Err(ProposeError::ConfChange(_))));
}

#[test]
fn a_joint_change_swaps_members_and_leaves_by_itself() {
    let mut cluster = Cluster::new(8, 3);
    let leader = cluster.elect();
    cluster.run(3);
    cluster.join(4);
    let gone = follower(&cluster, leader);
    let swap = change(Transition::Auto, &[Change::AddVoter(4), Change::Remove(gone)]);
    cluster.propose_conf_change(leader, &swap).unwrap();
    cluster.run(30);
    let conf = cluster.members[&4].conf_state.clone();
    assert!(!conf.is_joint() && conf.contains(4) && !conf.contains(gone), "{conf:?}");
    cluster.crash(gone);
    let leader = cluster.elect();
    cluster.propose(leader, 8).unwrap();
    cluster.run(5);
    assert_eq!(cluster.members[&4].applied, cluster.members[&leader].applied);
}

#[test]
fn an_explicit_joint_change_stays_until_it_is_left() {
    let mut cluster = Cluster::new(9, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let demote = change(Transition::JointExplicit, &[Change::AddLearner(follower(&cluster, leader))]);
    cluster.propose_conf_change(leader, &demote).unwrap();
    cluster.run(10);
    assert!(cluster.node(leader).conf_state().is_joint());
    cluster.read(leader);
    cluster.run(2);
    assert_eq!(cluster.reads_served, 1, "both majorities confirm");
    cluster.propose_conf_change(leader, &ConfChange::leave_joint()).unwrap();
    cluster.run(10);
    let conf = cluster.node(leader).conf_state();
    assert!(!conf.is_joint() && conf.learners.len() == 1, "{conf:?}");
}

#[test]
fn a_voter_that_knows_nothing_yet_votes_when_its_leader_is_gone() {
    let mut cluster = Cluster::new(18, 2);
    let leader = cluster.elect();
    cluster.run(3);
    let other = follower(&cluster, leader);
    cluster.join(3);
    cluster.propose_conf_change(leader, &change(Transition::Auto, &[Change::AddVoter(3)])).unwrap();
    // It hears heartbeats, but neither entries nor a snapshot reach it.
    for _ in 0..ELECTION_TICK {
        for id in cluster.running() {
            cluster.tick(id);
            while cluster.complete_write(id) {}
        }
        for link in cluster.waiting_links() {
            while (link.1, link.2) != (3, true) && cluster.deliver(link) {}
        }
    }
    assert_eq!((cluster.node(3).status().leader, cluster.node(3).status().last_index), (leader, 0));
    assert_eq!(cluster.node(other).conf_state().voters, [1, 2, 3]);
    cluster.crash(leader);
    assert_eq!(cluster.elect(), other);
    cluster.propose(other, 8).unwrap();
    cluster.run(10);
    assert_eq!(cluster.members[&3].applied, cluster.members[&other].applied);
}

#[test]
fn a_removed_leader_steps_down() {
    let mut cluster = Cluster::new(10, 3);
    let leader = cluster.elect();
    cluster.run(3);
    cluster.propose_conf_change(leader, &change(Transition::Auto, &[Change::Remove(leader)])).unwrap();
    cluster.run(4 * ELECTION_TICK);
    assert_eq!(cluster.node(leader).status().role, Role::Follower);
    let successor = cluster.leader().unwrap();
    assert_ne!(successor, leader);
    cluster.propose(successor, 8).unwrap();
    cluster.run(3);
}

#[test]
fn a_follower_far_behind_is_fed_from_disk() {
    let mut cluster = Cluster::new(11, 3);
    let leader = cluster.elect();
    cluster.run(3);
    let lagging = follower(&cluster, leader);
    cluster.crash(lagging);
    // More than stays in memory.
    for _ in 0..40 {
        cluster.propose(leader, 600_000).unwrap();
        cluster.run(1);
    }
    cluster.restart(lagging);
    cluster.run(30);
    assert!(cluster.fetches_served > 1 && cluster.snapshots_installed == 0);
    assert_eq!(cluster.members[&lagging].applied, cluster.members[&leader].applied);
    let status = cluster.node(leader).status();
    assert!(status.peers.iter().all(|peer| peer.state == PeerState::Replicate));
}

#[test]
fn a_sole_voter_leads_at_once_and_wins_its_rounds_alone() {
    let mut cluster = Cluster::new(12, 1);
    cluster.work(1);
    assert_eq!(cluster.leader(), Some(1));
    cluster.read(1);
    assert!(!cluster.start_round(1), "nothing of its term is committed yet");
    cluster.flush();
    assert!(cluster.start_round(1));
    cluster.work(1);
    assert_eq!(cluster.reads_served, 1);
}

#[test]
fn a_sole_voter_says_nothing_in_a_term_that_is_not_on_its_disk() {
    let mut cluster = Cluster::new(13, 1);
    cluster.work(1);
    cluster.flush();
    cluster.join(2);
    cluster.propose_conf_change(1, &change(Transition::Auto, &[Change::AddLearner(2)])).unwrap();
    cluster.run(5);
    cluster.crash(1);
    cluster.members.get_mut(&1).unwrap().is_disk_stalled = true;
    cluster.restart(1);
    assert_eq!(cluster.leader(), Some(1));
    for _ in 0..ELECTION_TICK {
        cluster.tick(1);
    }
    assert!(cluster.waiting_links().is_empty(), "its vote for itself could still be lost");
    cluster.members.get_mut(&1).unwrap().is_disk_stalled = false;
    cluster.run(5);
    assert_eq!(cluster.members[&2].applied, cluster.members[&1].applied);
}

#[test]
fn a_leader_that_was_deposed_unawares_answers_no_read() {
    let mut cluster = Cluster::new(16, 3);
    let old = cluster.elect();
    cluster.run(5);
    let others: Vec<u64> = cluster.running().into_iter().filter(|id| *id != old).collect();
    // A round is under way to the others while they elect another leader, who commits.
    cluster.read(old);
    assert!(cluster.start_round(old));
    cluster.work(old);
    cluster.run_among(&others, 4 * ELECTION_TICK);
    let new = cluster.leader().unwrap();
    assert_ne!(new, old);
    cluster.propose(new, 8).unwrap();
    cluster.run_among(&others, 3);
    assert!(cluster.node(old).is_leader(), "it does not know");
    // One more read, which would be stale; both rounds now reach the others and are not answered.
    cluster.read(old);
    for link in cluster.waiting_links().into_iter().filter(|link| link.0 == old) {
        while cluster.deliver(link) {}
    }
    cluster.node(old).retry_round();
    cluster.work(old);
    assert!(cluster.node(old).is_leader());
    assert_eq!(cluster.reads_served, 0);
    cluster.run(5);
    assert_eq!((cluster.reads_served, cluster.leader()), (0, Some(new)), "both were dropped");
}

#[test]
fn a_read_waits_for_a_round_that_begins_after_it() {
    let mut cluster = Cluster::new(17, 3);
    let leader = cluster.elect();
    cluster.run(5);
    cluster.read(leader);
    assert!(cluster.start_round(leader));
    cluster.read(leader);
    assert!(!cluster.start_round(leader), "one round in flight");
    cluster.flush();
    assert_eq!(cluster.reads_served, 1);
    assert!(cluster.start_round(leader));
    cluster.work(leader);
    cluster.flush();
    assert_eq!(cluster.reads_served, 2);
}

#[test]
fn a_round_ends_with_the_leadership() {
    let mut cluster = Cluster::new(14, 3);
    let leader = cluster.elect();
    cluster.run(3);
    cluster.node(leader).start_round(1000).unwrap();
    cluster.node(leader).step_down();
    let ready = cluster.node(leader).ready().unwrap();
    assert_eq!((ready.rounds_won, ready.rounds_dropped), (vec![], vec![1000]));
}

/// Runs a sole voter until nothing is left to do; returns all readies.
fn settle(node: &mut Consensus) -> Vec<Ready> {
    let mut readies = Vec::new();
    while let Some(ready) = node.ready() {
        if let Some(write) = ready.write.as_ref().filter(|write| write.must_sync) {
            node.synced(write.number);
        }
        readies.push(ready);
    }
    readies
}

#[test]
fn a_payload_is_one_buffer_from_propose_to_committed() {
    let config =
        Config { id: 1, election_tick: 10, heartbeat_tick: 1, pre_vote: true, check_quorum: true, seed: 1 };
    let mut node = Consensus::new(&config, Start::bootstrap([1])).unwrap();
    settle(&mut node);
    let payload = Bytes::from(vec![7; 100]);
    let (index, _) = node.propose(payload.clone()).unwrap();
    let readies = settle(&mut node);
    let written = readies.iter().filter_map(|ready| ready.write.as_ref()).flat_map(|write| &write.entries);
    let committed = readies.iter().flat_map(|ready| &ready.committed);
    let seen: Vec<_> = written.chain(committed).filter(|entry| entry.index == index).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|entry| entry.payload.as_ptr() == payload.as_ptr()), "no copy was made");
}
