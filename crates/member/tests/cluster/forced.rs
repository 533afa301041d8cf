//! A member that its operator has forced to go on alone, and what is left of its old cluster.

use bytes::Bytes;
use consensus::{Body, ConfState, Message};
use member::peer_message::PeerMessage;
use member::{Input, MemberConfig, MembershipRequest, StartMode};

use crate::membership::joins;
use crate::rig::Cluster;
use crate::snapshots::{installed, one_behind};

fn forced(cluster: &mut Cluster, survivor: u64) {
    cluster.tune = |config| config.start = StartMode::ForceNewCluster;
    cluster.start(survivor);
    cluster.tune = |_| {};
    cluster.settle();
}

/// The others go on as the old cluster and add a member, whose id the forced one has never heard of.
#[test]
fn a_member_that_the_old_cluster_added_later_deposes_nobody() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put("before", "1");
    cluster.settle();
    let survivor = cluster.follower();
    (1..=3).for_each(|id| cluster.stop(id));
    forced(&mut cluster, survivor);
    let term = cluster.nodes[&survivor].opened.status.term();
    let applied = cluster.nodes[&survivor].opened.status.applied_index();
    let from_9 = |body| Message { from: 9, to: survivor, term: term + 5, body };
    let vote = Body::Vote {
        pre: false,
        transfer: true,
        last_index: applied + 100,
        last_term: term + 4,
        commit: applied,
        commit_term: term,
    };
    for body in [Body::Heartbeat { commit: 1 }, vote] {
        let frame = PeerMessage::of_consensus(from_9(body).encode()).concat();
        cluster.give(survivor, Input::Frame { from: 9, bytes: frame.into() });
        cluster.run(1);
        let status = &cluster.nodes[&survivor].opened.status;
        assert_eq!((status.leader(), status.term()), (survivor, term));
    }
    // Nor does its state count, which is another one.
    cluster.put("after", "2");
    let index = cluster.nodes[&survivor].opened.status.applied_index();
    let hash: Bytes = PeerMessage::StateHash { index, hash: 1 }.encode().concat().into();
    cluster.give(survivor, Input::Frame { from: 9, bytes: hash });
    cluster.run(100);
    assert!(cluster.nodes[&survivor].opened.reader.alarms().is_empty());
}

/// The forced cluster has no leader, and only members of the old one run, which know this member and have longer logs
/// and higher terms. It follows none of them, also after a restart, and neither does a member that it added.
#[test]
fn members_of_the_old_cluster_never_lead_the_forced_one() {
    let tune: fn(&mut MemberConfig) = |config| {
        joins(config);
        config.membership.strict = false;
    };
    let mut cluster = Cluster::new(3, tune);
    cluster.put("before", "1");
    cluster.until_published();
    let survivor = cluster.follower();
    cluster.stop(survivor);
    cluster.until("the others agree without it", |cluster| cluster.leader().is_some());
    let old_leader = cluster.leader().expect("one leads");
    // The one that is down does not know of it.
    cluster.join(old_leader, 4, true);
    (0..100).for_each(|n| cluster.put(&format!("old{n}"), "value"));

    // The old members do not run while the forced one grows to two voters.
    let old: Vec<u64> = (1..=4).filter(|id| *id != survivor).collect();
    old.iter().for_each(|id| cluster.stop(*id));
    cluster.tune = |config| config.start = StartMode::ForceNewCluster;
    cluster.start(survivor);
    cluster.tune = tune;
    cluster.settle();
    let lineage = cluster.nodes[&survivor].opened.reader.lineage();
    assert_ne!(lineage, 0);
    cluster.told_lineage = lineage;
    cluster.join(survivor, 5, false);
    cluster.put("after", "2");
    cluster.settle();
    assert_eq!(cluster.nodes[&5].opened.reader.lineage(), lineage, "with the snapshot, too");

    // Each of the two in turn runs alone among the old members, started again.
    for alone in [5, survivor] {
        [survivor, 5].iter().for_each(|id| cluster.stop(*id));
        old.iter().for_each(|id| cluster.start(*id));
        cluster.start(alone);
        assert_eq!(cluster.nodes[&alone].opened.reader.lineage(), lineage);
        cluster.until("the old cluster has a leader", |cluster| {
            cluster.leader().is_some_and(|leader| old.contains(&leader))
        });
        cluster.run(1_000);
        assert_eq!(cluster.nodes[&alone].opened.status.leader(), 0);
        assert!(cluster.get(alone, "old99").expect("it reads").is_none());
        old.iter().for_each(|id| cluster.stop(*id));
        cluster.start(if alone == 5 { survivor } else { 5 });
        cluster.settle();
        // Once an entry of the new leader is committed, so are those before it.
        cluster.put("again", "3");
        cluster.settle();
        assert!(cluster.get(alone, "after").expect("it reads").is_some());
    }
    cluster.put("end", "3");
    cluster.settle();
    cluster.assert_equal();
}

/// A cluster that is forced for a second time has another lineage than before.
#[test]
fn each_force_draws_another_lineage() {
    let mut cluster = Cluster::new(1, |_| {});
    let mut seen = vec![cluster.nodes[&1].opened.reader.lineage()];
    for _ in 0..2 {
        cluster.stop(1);
        forced(&mut cluster, 1);
        let lineage = cluster.nodes[&1].opened.reader.lineage();
        assert!(!seen.contains(&lineage), "{lineage} after {seen:?}");
        seen.push(lineage);
    }
}

/// It counts all its entries as committed, but for this one, which would leave nothing to go on with.
#[test]
fn a_removal_that_may_not_be_committed_does_not_bind_the_removed_member() {
    let mut cluster = Cluster::new(3, |config| config.membership.strict = false);
    cluster.put("before", "1");
    cluster.settle();
    let leader = cluster.leader().expect("one leads");
    let mut others = (1..=3).filter(|id| *id != leader);
    let (removed, stopped) = (others.next().expect("one"), others.next().expect("another"));
    cluster.stop(stopped);
    // What it acknowledges does not arrive: nothing is committed.
    cluster.hold = Some(leader);
    cluster.send(leader, |token| Input::ChangeMembers {
        token,
        request: MembershipRequest::Remove { id: removed },
    });
    cluster.run(20);
    cluster.hold = None;
    cluster.held.clear();
    cluster.stop(leader);
    cluster.stop(removed);
    forced(&mut cluster, removed);
    assert_eq!(cluster.conf_state(removed).voters, [removed]);
    assert!(cluster.get(removed, "before").expect("it reads").is_some());
    cluster.put("after", "2");
    cluster.stop(removed);
    cluster.start(removed);
    cluster.settle();
    assert!(cluster.get(removed, "after").expect("it reads").is_some());
}

/// Steps in which a snapshot comes and is installed, with some to spare.
const MAX_STEPS: usize = 1_000;

/// Its own state is whole until that of the snapshot is.
#[test]
fn a_member_that_crashed_while_it_installed_a_snapshot_can_be_forced() {
    let mut crashes = 0;
    for changes in (1..).step_by(9) {
        let (mut cluster, behind) = one_behind();
        let disk = cluster.disks[&behind].clone();
        disk.stop_after(changes);
        let _ = cluster.start_if_possible(behind);
        let has_it = |cluster: &Cluster| cluster.events(behind, installed) == 1;
        // A disk that fails ends some processes, and others try again forever.
        for _ in 0..MAX_STEPS {
            if !cluster.nodes.contains_key(&behind) || has_it(&cluster) {
                break;
            }
            cluster.step();
        }
        let is_installed = cluster.nodes.contains_key(&behind) && has_it(&cluster);
        crashes += u64::from(!is_installed);
        (1..=3).for_each(|id| cluster.stop(id));
        let mut keep_some = |pending: u64| changes % pending;
        let left = if changes.is_multiple_of(2) { disk.fork() } else { disk.crash(&mut keep_some) };
        cluster.disks.insert(behind, left);
        forced(&mut cluster, behind);
        assert_eq!(cluster.conf_state(behind), ConfState::of_voters([behind]), "after {changes} changes");
        cluster.put("after", "1");
        assert!(cluster.get(behind, "early3").expect("it reads").is_some(), "after {changes} changes");
        if is_installed {
            break;
        }
    }
    assert!(crashes > 3, "{crashes} crashes");
}
