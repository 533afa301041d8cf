//! Members that are removed: what they do before and after, so that the members that are left can go on.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Answer, Input, MembershipRequest};

use crate::membership::{add, joins};
use crate::rig::Cluster;

/// The kind of frame that forwards commands, see `peer_message`.
const FORWARD: u8 = 2;

/// The kind of frame that forwards a request about members.
const MEMBERSHIP_REQUEST: u8 = 13;

/// Sends a put of a key to a member; the token of its answer.
fn begin_put(cluster: &mut Cluster, at: u64, key: &str) -> u64 {
    let put = pb::PutRequest { key: key.to_owned().into(), ..Default::default() };
    cluster.begin(at, CommandKind::Put, &put)
}

/// Whether a member has a key.
fn has(cluster: &mut Cluster, at: u64, key: &str) -> bool {
    cluster.get(at, key).expect("an intact disk").is_some()
}

/// What became of a put: applied, or not taken. Nothing else happens to the callers of a member that leaves.
fn was_applied(cluster: &mut Cluster, token: u64) -> bool {
    match cluster.answers.remove(&token) {
        Some(Answer::Applied(Ok(_))) => true,
        Some(Answer::Failed(api::Error::NotTaken)) => false,
        other => panic!("another answer: {other:?}"),
    }
}

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

/// One put in each step, from before the removal is asked for until long after it: each is applied, or not taken and
/// without effect.
#[test]
fn no_caller_of_a_removed_member_is_left_in_doubt() {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    cluster.run(300);
    let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
    let mut puts = Vec::new();
    for step in 0..60 {
        if step == 20 {
            let request = MembershipRequest::Remove { id: removed };
            cluster.send(leader, |token| Input::ChangeMembers { token, request });
        }
        let key = format!("put {step}");
        puts.push((begin_put(&mut cluster, removed, &key), key));
        cluster.step();
    }
    // Reads as well: they would wait for an index that never comes.
    let read = cluster.send(removed, |token| Input::Read { token });
    cluster.run(20);
    assert!(matches!(cluster.answers.remove(&read), Some(Answer::Failed(api::Error::NotTaken))));
    let mut applied = 0;
    for (token, key) in puts {
        let was_applied = was_applied(&mut cluster, token);
        assert_eq!(has(&mut cluster, leader, &key), was_applied, "{key}");
        applied += usize::from(was_applied);
    }
    assert!((20..60).contains(&applied), "{applied} were applied: those before the removal");
}

/// A follower is elected that has the removal of a follower in its log and has not applied it. `removes_elected` tells
/// whether it is its own. Returns a put of a caller of the removed member that comes at that moment, and the other one.
fn put_while_a_leader_finds_a_removal(removes_elected: bool) -> (Cluster, u64, u64) {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    cluster.run(300);
    let leader = cluster.leader().expect("one leads");
    let mut followers = (1..=3).filter(|id| *id != leader);
    let (voter, elected) = (followers.next().expect("two"), followers.next().expect("two"));
    let (removed, left) = if removes_elected { (elected, voter) } else { (voter, elected) };
    // One follower has the removal, so it has the longer log. The leader ends before it hears that.
    cluster.hold = Some(voter);
    let request = MembershipRequest::Remove { id: removed };
    cluster.give(leader, Input::ChangeMembers { token: 1 << 40, request });
    cluster.run(1);
    cluster.stop(leader);
    cluster.hold = None;
    cluster.held.clear();
    [elected, voter].into_iter().for_each(|id| cluster.give(id, Input::PeerNotListening(leader)));
    cluster.until("another leads", |cluster| cluster.leader() == Some(elected));
    let put = begin_put(&mut cluster, removed, "behind");
    if !removes_elected {
        // The command arrives before the acknowledgements by which the new leader could apply the removal.
        let forwarded = cluster.capture(elected, FORWARD);
        cluster.give(elected, forwarded);
    }
    assert!(!cluster.nodes[&elected].opened.reader.was_removed(removed), "not applied yet");
    cluster.until("the removal is applied", |cluster| {
        cluster.nodes[&elected].opened.reader.was_removed(removed)
    });
    (cluster, put, left)
}

/// The new leader did not propose the removal. It finds it in its log.
#[test]
fn a_leader_that_finds_a_removal_in_its_log_proposes_nothing_behind_it_for_the_removed_member() {
    for removes_elected in [false, true] {
        let (mut cluster, put, left) = put_while_a_leader_finds_a_removal(removes_elected);
        cluster.until("an answer", |cluster| cluster.answers.contains_key(&put));
        assert!(!was_applied(&mut cluster, put), "the removed one leads: {removes_elected}");
        cluster.run(100);
        assert!(!has(&mut cluster, left, "behind"));
    }
}

/// What was forwarded while the removal was under way returns when the leader has applied it.
#[test]
fn a_leader_returns_what_a_member_forwards_while_it_is_removed() {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    cluster.run(300);
    let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
    let third = (1..=3).find(|id| ![leader, removed].contains(id)).expect("three members");
    // The acknowledgements that commit the removal do not arrive yet.
    cluster.hold = Some(third);
    cluster.send(removed, |token| Input::ChangeMembers {
        token,
        request: MembershipRequest::Remove { id: removed },
    });
    cluster.run(1);
    let put = begin_put(&mut cluster, removed, "late");
    cluster.hold = None;
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&put));
    let is_applied = was_applied(&mut cluster, put);
    assert_eq!(has(&mut cluster, leader, "late"), is_applied);
    let parting = |cluster: &Cluster| {
        let membership = cluster.nodes[&leader].membership.as_ref().expect("it was told");
        membership.parting.iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    cluster.until("the removal is applied", |cluster| !parting(cluster).is_empty());
    assert_eq!(parting(&cluster), [removed], "its streams stay for the answers");
    cluster.until("they end", |cluster| parting(cluster).is_empty());
}

/// An entry behind the removal does not reach the removed member: its caller would wait for the time-out.
#[test]
fn a_leader_returns_a_request_about_members_that_comes_from_a_removed_one() {
    for is_removed_before in [false, true] {
        let mut cluster = Cluster::new(3, joins);
        cluster.until_published();
        cluster.run(300);
        let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
        let removal = MembershipRequest::Remove { id: removed };
        let added = cluster.send(removed, |token| Input::ChangeMembers { token, request: add(9, true) });
        if is_removed_before {
            let late = cluster.capture(leader, MEMBERSHIP_REQUEST);
            assert!(cluster.change(leader, &removal).is_ok());
            cluster.give(leader, late);
        } else {
            // It waits with the leader, behind the removal.
            cluster.give(leader, Input::ChangeMembers { token: 1 << 40, request: removal });
        }
        cluster.until("an answer", |cluster| cluster.answers.contains_key(&added));
        let answer = cluster.answers.remove(&added);
        assert!(matches!(answer, Some(Answer::Failed(api::Error::NotTaken))), "{answer:?}");
        cluster.run(100);
        assert_eq!(cluster.conf_state(leader).learners, [], "it has no effect");
    }
}

#[test]
fn a_member_that_stops_takes_no_more_and_forgets_what_waits() {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    let stopped = cluster.follower();
    let others: Vec<u64> = (1..=3).filter(|id| *id != stopped).collect();
    others.iter().for_each(|id| cluster.give(stopped, Input::PeerDown(*id)));
    let waits = begin_put(&mut cluster, stopped, "waits");
    cluster.run(1);
    assert!(!cluster.answers.contains_key(&waits), "it knows of no leader that hears it");
    cluster.give(stopped, Input::Stop);
    let late = begin_put(&mut cluster, stopped, "late");
    cluster.run(2);
    for put in [waits, late] {
        assert!(!was_applied(&mut cluster, put));
    }
    cluster.settle();
    let leader = cluster.leader().expect("one leads");
    assert!(!has(&mut cluster, leader, "waits") && !has(&mut cluster, leader, "late"));
}

/// Consensus learns only after an election timeout that a peer is dead. A broken connection tells it at once.
#[test]
fn a_leader_that_gives_up_its_leadership_chooses_a_connected_peer() {
    for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        let mut cluster = Cluster::new(5, |_| {});
        cluster.until_published();
        cluster.settle();
        let leader = cluster.leader().expect("one leads");
        let before = cluster.nodes[&leader].opened.status.term();
        let followers: Vec<u64> = (1..=5).filter(|id| *id != leader).collect();
        [one, other].into_iter().for_each(|at| cluster.stop(followers[at]));
        let answer = cluster.ask(leader, |token| Input::GiveUpLeadership { token });
        assert!(matches!(answer, Answer::LeaderMoved), "{answer:?} with {one} and {other} dead");
        cluster.settle();
        let next = cluster.leader().expect("one leads");
        assert_ne!(next, leader);
        assert_eq!(cluster.nodes[&next].opened.status.term(), before + 1, "no other election was held");
    }
}

#[test]
fn a_leader_without_connected_peers_keeps_its_leadership() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.until_published();
    let leader = cluster.leader().expect("one leads");
    (1..=3).filter(|id| *id != leader).for_each(|id| cluster.give(leader, Input::PeerDown(id)));
    let answer = cluster.ask(leader, |token| Input::GiveUpLeadership { token });
    assert!(matches!(answer, Answer::Failed(api::Error::Unhealthy)), "{answer:?}");
    assert_eq!(cluster.leader(), Some(leader));
}
