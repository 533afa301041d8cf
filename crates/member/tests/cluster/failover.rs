//! The leader's process ends, and its machine says so: an election follows at once, and nothing else changes.

use member::Input;

use crate::rig::Cluster;

/// Steps of 5 ms within which another member leads. The election timeout has 200 at least.
const SOON: usize = 40;

fn settled() -> (Cluster, u64, Vec<u64>) {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put("before", "1");
    cluster.settle();
    let leader = cluster.leader().expect("one leads");
    let followers = (1..=3).filter(|id| *id != leader).collect();
    (cluster, leader, followers)
}

#[test]
fn followers_that_see_the_leaders_process_end_elect_another_at_once() {
    let (mut cluster, leader, followers) = settled();
    cluster.stop(leader);
    // The second one sees it 20 ms later.
    cluster.give(followers[0], Input::PeerNotListening(leader));
    cluster.run(4);
    cluster.give(followers[1], Input::PeerNotListening(leader));
    cluster.run(SOON);
    assert!(cluster.leader().is_some_and(|id| id != leader), "a new leader");
    cluster.put("after", "2");
    cluster.start(leader);
    cluster.settle();
    cluster.assert_equal();
}

/// The first in line has the older log: it is the other's turn soon.
#[test]
fn the_follower_with_the_longer_log_is_elected() {
    let (mut cluster, leader, followers) = settled();
    cluster.hold = Some(followers[0]);
    cluster.put("only two have it", "2");
    cluster.hold = None;
    cluster.held.clear();
    cluster.stop(leader);
    for follower in &followers {
        cluster.give(*follower, Input::PeerNotListening(leader));
    }
    cluster.run(SOON);
    assert_eq!(cluster.leader(), Some(followers[1]));
    cluster.settle();
    assert!(cluster.get(followers[0], "only two have it").expect("it reads").is_some());
}

#[test]
fn one_follower_that_is_mistaken_disturbs_nobody() {
    let (mut cluster, leader, followers) = settled();
    let term = cluster.nodes[&leader].opened.status.term();
    for follower in followers {
        cluster.give(follower, Input::PeerNotListening(leader));
        cluster.run(2 * SOON);
        for node in cluster.nodes.values() {
            assert_eq!((node.opened.status.leader(), node.opened.status.term()), (leader, term));
        }
    }
    // Nor does the end of one that does not lead.
    let other = cluster.follower();
    cluster.stop(other);
    cluster.give(leader, Input::PeerNotListening(other));
    cluster.run(2 * SOON);
    assert_eq!(cluster.nodes[&leader].opened.status.term(), term);
}

#[test]
fn a_leader_that_only_falls_silent_is_given_its_election_timeout() {
    let (mut cluster, leader, _) = settled();
    cluster.stop(leader);
    cluster.run(4 * SOON);
    assert_eq!(cluster.leader(), None);
}
