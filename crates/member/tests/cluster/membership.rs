//! Members come and go: voters and learners are added, promoted, updated and removed, through any member, across
//! restarts and snapshots.

use api::Error;
use consensus::ConfState;
use member::jobs::Done;
use member::peer_message::PeerMessage;
use member::{
    Answer, Input, MemberConfig, MembershipRequest, MembershipSettings, NEWEST_COMMAND_SET, OpenMemberError,
    StartMode,
};

use crate::rig::Cluster;
use crate::snapshots::one_behind_with;

pub(crate) fn url(id: u64) -> String {
    format!("http://10.0.0.{id}:2380")
}

pub(crate) fn add(id: u64, learner: bool) -> MembershipRequest {
    MembershipRequest::Add { id, peer_urls: vec![url(id)], learner }
}

/// A member from 4 on joins; so does every member of a run that began with one.
pub(crate) fn joins(config: &mut MemberConfig) {
    let told = config.initial_cluster.len() as u64;
    if config.member_id > told {
        config.start = StartMode::Join { lineage: 0 };
    }
}

impl Cluster {
    /// Asks for a change at one member. Repeats it while the leader finds too few members healthy, as it does until
    /// they have been connected for a while.
    pub(crate) fn change(&mut self, at: u64, request: &MembershipRequest) -> Result<Vec<u64>, Error> {
        loop {
            let request = request.clone();
            match self.ask(at, |token| Input::ChangeMembers { token, request }) {
                Answer::MembersChanged(members) => {
                    return Ok(members.iter().map(|member| member.id).collect());
                }
                Answer::Failed(Error::Unhealthy) => self.run(100),
                Answer::Failed(error) => return Err(error),
                other => panic!("another answer: {other:?}"),
            }
        }
    }

    /// Adds a member and starts it.
    pub(crate) fn join(&mut self, at: u64, id: u64, learner: bool) {
        self.change(at, &add(id, learner)).expect("it is added");
        self.disks.insert(id, log::MemDisk::new());
        self.start(id);
        self.until_published();
    }

    /// Runs until every member has published its name, as all members see it.
    pub(crate) fn until_published(&mut self) {
        self.until("all members have published themselves", |cluster| {
            let mut members = cluster.nodes.values().flat_map(|node| node.opened.reader.members());
            members.all(|member| !member.name.is_empty())
        });
        self.settle();
    }

    pub(crate) fn conf_state(&self, at: u64) -> ConfState {
        self.nodes[&at].membership.as_ref().expect("it said so").conf_state.clone()
    }
}

#[test]
fn a_cluster_grows_and_shrinks_and_a_removed_member_does_not_start_again() {
    let mut cluster = Cluster::new(1, joins);
    (0..60).for_each(|n| cluster.put(&format!("key{n}"), vec![7; 300]));
    cluster.join(1, 2, false);
    cluster.join(2, 3, false);
    cluster.join(3, 4, true);
    cluster.assert_equal();
    let conf = ConfState { learners: vec![4], ..ConfState::of_voters([1, 2, 3]) };
    (1..=4).for_each(|id| assert_eq!(cluster.conf_state(id), conf, "member {id}"));
    let follower = cluster.follower();
    assert_eq!(cluster.change(follower, &MembershipRequest::Promote { id: 4 }), Ok(vec![1, 2, 3, 4]));
    cluster.settle();
    (1..=4).for_each(|id| assert_eq!(cluster.conf_state(id), ConfState::of_voters([1, 2, 3, 4])));

    // The leader removes itself; the answer comes before it stops.
    let leader = cluster.leader().expect("one leads");
    let left: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
    assert_eq!(cluster.change(leader, &MembershipRequest::Remove { id: leader }), Ok(left.clone()));
    assert!(cluster.nodes[&leader].membership.as_ref().is_some_and(|membership| membership.is_removed));
    cluster.until("it has stopped", |cluster| cluster.nodes[&leader].has_stopped);
    cluster.stop(leader);
    cluster.settle();
    let again = cluster.start_if_possible(leader);
    assert!(matches!(again, Err(OpenMemberError::Removed { member_id }) if member_id == leader));

    // What was replayed, and what a checkpoint holds, is the same.
    for id in left.clone() {
        cluster.stop(id);
    }
    left.iter().for_each(|id| cluster.start(*id));
    cluster.settle();
    left.iter().for_each(|id| assert_eq!(cluster.conf_state(*id), ConfState::of_voters(left.clone())));
    let [first, second, third] = left[..] else { panic!("three are left") };
    cluster.change(first, &MembershipRequest::Remove { id: third }).expect("it is removed");
    cluster.stop(third);
    cluster.settle();
    cluster.change(first, &MembershipRequest::Remove { id: second }).expect("it is removed");
    cluster.stop(second);
    cluster.settle();
    let last = cluster.change(first, &MembershipRequest::Remove { id: first });
    assert_eq!(last, Err(Error::NotEnoughStartedMembers), "the last voter stays");
    cluster.put("after", "all");
    assert!(cluster.get(first, "key59").expect("it reads").is_some());
}

#[test]
fn requests_that_do_not_fit_get_the_errors_of_etcd_at_any_member() {
    let mut cluster = Cluster::new(3, joins);
    let leader = cluster.leader().expect("one leads");
    for at in [leader, cluster.follower()] {
        let mut refused =
            |request: MembershipRequest| cluster.change(at, &request).expect_err("it does not fit");
        assert_eq!(refused(add(2, false)), Error::MemberExists);
        let same_url = MembershipRequest::Add { id: 9, peer_urls: vec![url(1)], learner: false };
        assert_eq!(refused(same_url), Error::PeerUrlExists);
        assert_eq!(refused(MembershipRequest::Remove { id: 9 }), Error::MemberNotFound);
        assert_eq!(refused(MembershipRequest::Promote { id: 2 }), Error::MemberNotLearner);
        assert_eq!(refused(MembershipRequest::Remove { id: 0 }), Error::BadMemberUrls);
    }
    cluster.change(1, &add(4, true)).expect("a learner is added");
    assert_eq!(cluster.change(2, &add(5, true)), Err(Error::TooManyLearners));
    assert_eq!(cluster.change(3, &MembershipRequest::Promote { id: 4 }), Err(Error::LearnerNotReady));
    let moved = MembershipRequest::Update { id: 4, peer_urls: vec![url(40)] };
    cluster.change(2, &moved).expect("its URL changes");
    cluster.settle();
    let members = cluster.nodes[&1].opened.reader.members();
    assert_eq!(members[3].peer_urls, [url(40)]);
    assert_eq!(cluster.conf_state(3).learners, [4], "it stays a learner");
    cluster.change(1, &MembershipRequest::Remove { id: 4 }).expect("a learner may go");
    assert_eq!(cluster.change(1, &add(4, true)), Err(Error::MemberNotFound), "its id is used up");
    cluster.assert_equal();
}

#[test]
fn changes_that_would_cost_the_quorum_are_refused_unless_the_operator_insists() {
    let mut cluster = Cluster::new(3, joins);
    cluster.until_published();
    let stopped = cluster.follower();
    cluster.stop(stopped);
    cluster.run(300);
    let leader = cluster.leader().expect("one leads");
    let ask =
        |cluster: &mut Cluster, request| cluster.ask(leader, |token| Input::ChangeMembers { token, request });
    let addition = ask(&mut cluster, add(4, false));
    assert!(matches!(addition, Answer::Failed(Error::Unhealthy)), "{addition:?}");
    let live = (1..=3).find(|id| *id != leader && *id != stopped).expect("one is left");
    let removal = ask(&mut cluster, MembershipRequest::Remove { id: live });
    assert!(matches!(removal, Answer::Failed(Error::Unhealthy)));
    let dead = ask(&mut cluster, MembershipRequest::Remove { id: stopped });
    assert!(matches!(dead, Answer::MembersChanged(_)), "one that is down may go");
    let mut lax = Cluster::new(3, |config| config.membership.strict = false);
    let stopped = lax.follower();
    lax.stop(stopped);
    lax.settle();
    let leader = lax.leader().expect("one leads");
    let request = add(4, false);
    assert!(matches!(
        lax.ask(leader, |token| Input::ChangeMembers { token, request }),
        Answer::MembersChanged(_)
    ));
}

#[test]
fn membership_changes_wait_until_every_member_can_apply_them() {
    fn old(config: &mut MemberConfig) {
        config.membership = MembershipSettings { command_set: 1, ..MembershipSettings::default() };
    }
    let mut cluster = Cluster::new(3, old);
    let sets = |cluster: &Cluster| -> Vec<u8> {
        cluster.nodes.values().map(|node| node.opened.reader.command_set()).collect()
    };
    assert_eq!(cluster.change(1, &add(4, true)), Err(Error::NotCapable));
    cluster.put("a", "1");
    // New releases, member by member.
    cluster.tune = |_| {};
    for id in 1..=3 {
        assert_eq!(sets(&cluster), [1, 1, 1], "before member {id}");
        let is_leader = cluster.leader() == Some(id);
        cluster.stop(id);
        if is_leader {
            cluster.until("another leads", |cluster| cluster.leader().is_some());
        }
        cluster.start(id);
        cluster.settle();
    }
    cluster.until("the command set is recorded", |cluster| sets(cluster) == [NEWEST_COMMAND_SET; 3]);
    cluster.change(1, &add(4, true)).expect("now a member can be added");
    cluster.settle();
    cluster.assert_equal();
    (1..=3).for_each(|id| cluster.stop(id));
    (1..=3).for_each(|id| cluster.start(id));
    cluster.settle();
    assert_eq!(sets(&cluster), [NEWEST_COMMAND_SET; 3]);
}

/// A learner applies every command, so it counts like a voter.
#[test]
fn new_commands_wait_for_a_learner_of_an_older_release() {
    fn old(config: &mut MemberConfig) {
        config.membership = MembershipSettings { command_set: 2, ..MembershipSettings::default() };
        joins(config);
    }
    fn new_but_the_learner(config: &mut MemberConfig) {
        if config.member_id == 4 { old(config) } else { joins(config) }
    }
    let mut cluster = Cluster::new(3, old);
    cluster.join(1, 4, true);
    let sets = |cluster: &Cluster| -> Vec<u8> {
        cluster.nodes.values().map(|node| node.opened.reader.command_set()).collect()
    };
    let restart = |cluster: &mut Cluster, id| {
        cluster.stop(id);
        cluster.start(id);
        cluster.until("one leads", |cluster| cluster.leader().is_some());
        cluster.settle();
    };
    cluster.tune = new_but_the_learner;
    (1..=3).for_each(|id| restart(&mut cluster, id));
    cluster.run(200);
    assert_eq!(sets(&cluster), [2; 4], "the learner cannot apply them");
    cluster.tune = joins;
    restart(&mut cluster, 4);
    cluster.until("the command set is recorded", |cluster| sets(cluster) == [NEWEST_COMMAND_SET; 4]);
}

#[test]
fn the_last_member_goes_on_alone_when_its_operator_forces_it() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.change(1, &add(4, true)).expect("a learner is added");
    (0..70).for_each(|n| cluster.put(&format!("key{n}"), "value"));
    let survivor = cluster.follower();
    (1..=3).for_each(|id| cluster.stop(id));
    cluster.tune = |config| config.start = StartMode::ForceNewCluster;
    cluster.start(survivor);
    cluster.settle();
    let members = cluster.nodes[&survivor].opened.reader.members();
    assert_eq!(members.iter().map(|member| member.id).collect::<Vec<_>>(), [survivor]);
    cluster.put("after", "1");
    cluster.stop(survivor);
    cluster.tune = |_| {};
    cluster.start(survivor);
    cluster.settle();
    assert_eq!(cluster.conf_state(survivor), ConfState::of_voters([survivor]));
    assert!(cluster.get(survivor, "key69").expect("it reads").is_some());
    assert!(cluster.get(survivor, "after").expect("it reads").is_some());
}

/// While a snapshot is installed, consensus has its configuration and the store still has the members before it.
#[test]
fn news_of_members_wait_for_the_end_of_an_installation() {
    let (mut cluster, behind) = one_behind_with(|config| config.membership.strict = false);
    let others = cluster.leader().expect("one leads");
    cluster.change(others, &add(4, true)).expect("a learner is added");
    (0..200).for_each(|n| cluster.put(&format!("key{n}"), vec![7; 300]));
    cluster.compact(true);
    (0..60).for_each(|n| cluster.put(&format!("key{n}"), vec![8; 300]));
    cluster.hold_jobs = Box::new(|_, done| matches!(done, Done::Installed(_)));
    cluster.start(behind);
    cluster.until("the snapshot is being installed", |cluster| !cluster.held_jobs.is_empty());
    let introduction = PeerMessage::Introduction { id: 4, peer_urls: vec![url(4)] };
    cluster.give(behind, Input::Frame { from: 4, bytes: introduction.encode().concat().into() });
    cluster.run(10);
    let listed = |cluster: &Cluster| cluster.nodes[&behind].membership.as_ref().map(|all| all.members.len());
    assert_eq!(listed(&cluster), Some(3), "nothing was said meanwhile");
    cluster.hold_jobs = Box::new(|_, _| false);
    for (at, input) in std::mem::take(&mut cluster.held_jobs) {
        cluster.give(at, input);
    }
    cluster.settle();
    assert_eq!(listed(&cluster), Some(4));
    cluster.assert_equal();
}
