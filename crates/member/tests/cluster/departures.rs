//! Members that are removed: what they do before and after, so that the members that are left can go on.

use member::{Answer, Input, MembershipRequest};

use crate::membership::joins;
use crate::rig::Cluster;

#[test]
fn a_leader_transfers_its_leadership_before_its_own_removal() {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    let leader = cluster.leader().expect("one leads");
    let follower = cluster.follower();
    let terms = |cluster: &Cluster| cluster.nodes[&follower].opened.status.term();
    let before = terms(&cluster);
    // Through the leader, and, once more, through another member.
    for (removed, at) in [(leader, leader), (0, 0)] {
        let removed = if removed == 0 { cluster.leader().expect("another one leads") } else { removed };
        let at =
            if at == 0 { *cluster.nodes.keys().find(|id| **id != removed).expect("one is left") } else { at };
        let left = cluster.change(at, &MembershipRequest::Remove { id: removed });
        assert!(left.is_ok_and(|left| !left.contains(&removed)));
        assert_ne!(cluster.leader(), Some(removed), "another one leads already");
        cluster.stop(removed);
        cluster.run(5);
        cluster.put("after", "2");
    }
    let last = *cluster.nodes.keys().next().expect("one is left");
    assert!(cluster.nodes[&last].opened.status.term() <= before + 2, "two transfers and no other election");
}

/// The others may not know that the removal is committed: then they need the vote of the one that was removed.
#[test]
fn a_removed_member_stays_until_the_others_can_do_without_it() {
    let mut cluster = Cluster::new(2, joins);
    cluster.until_published();
    // Both have been connected for an election timeout.
    cluster.run(300);
    let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
    cluster.send(leader, |token| Input::ChangeMembers {
        token,
        request: MembershipRequest::Remove { id: removed },
    });
    let knows = |cluster: &Cluster| {
        cluster.nodes[&removed].membership.as_ref().is_some_and(|membership| membership.is_removed)
    };
    cluster.until("it has applied its removal", |cluster| knows(cluster));
    // The last commit index was not on the disk yet: it is written with the next entry.
    cluster.stop(leader);
    // An election timeout and a half later.
    cluster.run(300);
    assert!(!cluster.nodes[&removed].has_stopped);
    cluster.start(leader);
    let status = cluster.nodes[&leader].opened.status.clone();
    cluster.until("the other leads again", |cluster| {
        if cluster.nodes.get(&removed).is_some_and(|node| node.has_stopped) {
            cluster.stop(removed);
        }
        status.leader() == leader
    });
    cluster.until("the removed one has stopped", |cluster| cluster.nodes[&removed].has_stopped);
    cluster.stop(removed);
    cluster.until("it is alone", |cluster| cluster.conf_state(leader).voters == [leader]);
    cluster.put("after", "2");
}

#[test]
fn a_leader_that_finds_no_successor_is_removed_all_the_same() {
    let mut cluster = Cluster::new(3, |config| config.membership.strict = false);
    cluster.until_published();
    let leader = cluster.leader().expect("one leads");
    // Nothing that it sends to the one with the longest log arrives until the transfer is given up.
    let token = cluster.send(leader, |token| Input::ChangeMembers {
        token,
        request: MembershipRequest::Remove { id: leader },
    });
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    others.iter().for_each(|id| cluster.give(leader, Input::PeerDown(*id)));
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&token));
    assert!(matches!(cluster.answers.remove(&token), Some(Answer::MembersChanged(_))));
}

/// A commit index is written with the next entry. When there is none, a checkpoint says that the removal is committed.
#[test]
fn the_last_member_goes_on_after_a_crash_although_nothing_was_written_since() {
    let mut cluster = Cluster::new(2, joins);
    cluster.until_published();
    cluster.run(300);
    let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
    let left = cluster.change(leader, &MembershipRequest::Remove { id: removed });
    assert_eq!(left, Ok(vec![leader]));
    cluster.until("the removed one has stopped", |cluster| cluster.nodes[&removed].has_stopped);
    cluster.stop(removed);
    cluster.stop(leader);
    cluster.start(leader);
    let status = cluster.nodes[&leader].opened.status.clone();
    cluster.until("it leads alone", |_| status.leader() == leader);
    cluster.put("after", "2");
}
