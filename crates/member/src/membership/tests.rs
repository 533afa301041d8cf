//! The bytes of requests, the rules, what counts as healthy, the queue, and when a command set is recorded.

use api::Error;
use bytes::{Bytes, BytesMut};
use consensus::{Change, ConfChange, ConfState, Entry, EntryKind, PeerState, PeerStatus};
use proptest::prelude::*;
use store::ClusterMember;

use super::command_sets::CommandSets;
use super::health::{ClusterHealth, check_caught_up};
use super::queue::{MAX_WAITING_CHANGES, MembershipQueue, WaitingChange};
use super::request::{MembershipRequest, ProposedChange};
use super::rules::{self, MembersNow};
use crate::apply::replay;
use crate::proposals::batch::Origin;
use crate::tests::LogAndStore;

const OWN: Origin = Origin { member: 1, run: 5 };

fn url(id: u64) -> String {
    format!("http://m{id}:2380")
}

fn add(id: u64, learner: bool) -> MembershipRequest {
    MembershipRequest::Add { id, peer_urls: vec![url(id)], learner }
}

fn member(id: u64, learner: bool) -> ClusterMember {
    let (name, peer_urls) = (format!("m{id}"), vec![url(id)]);
    ClusterMember { id, name, peer_urls, learner, ..ClusterMember::default() }
}

#[test]
fn the_context_of_a_conf_change_is_what_the_table_says() {
    let request = MembershipRequest::Add { id: 9, peer_urls: vec!["a".into()], learner: true };
    let change = ProposedChange { origin: OWN, sequence: 7, max_learners: 2, request };
    let expected: &[u8] = &[
        1, 0, 2, 0, // version, most learners
        1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, // origin, sequence
        1, 1, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, b'a', // request
    ];
    assert_eq!(change.encode(), expected);
    assert_eq!(ProposedChange::decode(&change.encode()), Ok(Some(change)));
    assert_eq!(ProposedChange::decode(&Bytes::from_static(&[2, 0])), Err(2), "its effect is unknown");
    assert_eq!(ProposedChange::decode(&Bytes::new()), Ok(None));
}

#[test]
fn requests_survive_their_encoding_and_parts_of_them_are_refused() {
    let update = MembershipRequest::Update { id: 3, peer_urls: vec![url(3), url(4)] };
    let requests =
        [add(1, false), MembershipRequest::Remove { id: 2 }, update, MembershipRequest::Promote { id: 4 }];
    for request in requests {
        let mut bytes = BytesMut::new();
        request.put(&mut bytes);
        let bytes = bytes.freeze();
        assert_eq!(MembershipRequest::take(&mut bytes.clone()), Some(request));
        (0..bytes.len()).for_each(|cut| assert_eq!(MembershipRequest::take(&mut bytes.slice(..cut)), None));
    }
    assert!(!MembershipRequest::Remove { id: 0 }.is_within_limits());
    let long = MembershipRequest::Update { id: 1, peer_urls: vec!["x".repeat(2049)] };
    assert!(!long.is_within_limits());
}

proptest! {
    #[test]
    fn garbage_is_no_request_or_encodes_to_itself(bytes in any::<Vec<u8>>()) {
        let bytes = Bytes::from(bytes);
        if let Some(request) = MembershipRequest::take(&mut bytes.clone()) {
            let mut again = BytesMut::new();
            request.put(&mut again);
            prop_assert_eq!(again.freeze(), bytes);
        }
    }
}

#[test]
fn the_rules_are_those_of_etcd() {
    let members = [member(1, false), member(2, false), member(3, true)];
    let conf = ConfState { learners: vec![3], ..ConfState::of_voters([1, 2]) };
    let check = |request: &MembershipRequest, max_learners| {
        rules::check(request, &MembersNow { members: &members, conf: &conf, max_learners }, false)
    };
    assert_eq!(check(&add(4, false), 1), Ok(()));
    assert_eq!(check(&add(4, true), 1), Err(Error::TooManyLearners));
    assert_eq!(check(&add(4, true), 2), Ok(()));
    assert_eq!(check(&add(3, false), 1), Err(Error::MemberExists));
    let same_url = MembershipRequest::Add { id: 4, peer_urls: vec![url(3)], learner: false };
    assert_eq!(check(&same_url, 1), Err(Error::PeerUrlExists));
    assert_eq!(check(&MembershipRequest::Remove { id: 9 }, 1), Err(Error::MemberNotFound));
    assert_eq!(check(&MembershipRequest::Remove { id: 2 }, 1), Ok(()));
    assert_eq!(check(&MembershipRequest::Promote { id: 9 }, 1), Err(Error::MemberNotFound));
    assert_eq!(check(&MembershipRequest::Promote { id: 2 }, 1), Err(Error::MemberNotLearner));
    assert_eq!(check(&MembershipRequest::Promote { id: 3 }, 1), Ok(()));
    let update = |id, urls: &[u64]| MembershipRequest::Update {
        id,
        peer_urls: urls.iter().map(|id| url(*id)).collect(),
    };
    assert_eq!(check(&update(3, &[3, 4]), 1), Ok(()), "its own URL may stay");
    assert_eq!(check(&update(3, &[1]), 1), Err(Error::PeerUrlExists));
    assert_eq!(check(&update(9, &[4]), 1), Err(Error::MemberNotFound));
    let now = MembersNow { members: &members, conf: &conf, max_learners: 1 };
    assert_eq!(rules::check(&add(4, false), &now, true), Err(Error::MemberNotFound), "ids are used once");
    assert_eq!(rules::conf_change_of(&update(3, &[4]), &conf), Change::AddLearner(3), "its role stays");
    let alone = MembersNow { members: &members[..1], conf: &ConfState::of_voters([1]), max_learners: 1 };
    let last = rules::check(&MembershipRequest::Remove { id: 1 }, &alone, false);
    assert_eq!(last, Err(Error::NotEnoughStartedMembers), "the last voter stays");
}

#[test]
fn a_change_that_contradicts_its_request_has_no_effect_anywhere() {
    let mut state = LogAndStore::new(&[1]);
    let mut conf = ConfState::of_voters([1]);
    let mut apply = |change: Change, request: MembershipRequest, conf: &mut ConfState| {
        let proposed = ProposedChange { origin: OWN, sequence: 1, max_learners: 1, request };
        let payload = ConfChange::single(change, proposed.encode()).encode();
        let index = state.reader.applied().index + 1;
        let entry = Entry { term: 1, index, kind: EntryKind::ConfChange, payload };
        replay(&mut state.store, conf, &entry, 0).expect("this release knows it");
        (state.reader.members().len(), conf.voters.len())
    };
    assert_eq!(apply(Change::AddVoter(3), add(2, false), &mut conf), (1, 1));
    assert_eq!(apply(Change::AddLearner(2), add(2, false), &mut conf), (1, 1));
    assert_eq!(apply(Change::AddVoter(2), add(2, false), &mut conf), (2, 2));
    assert_eq!(apply(Change::Remove(2), MembershipRequest::Remove { id: 2 }, &mut conf), (1, 1));
    assert_eq!(apply(Change::AddVoter(2), add(2, false), &mut conf), (1, 1), "its id is used up");
}

#[test]
fn a_change_must_leave_a_quorum_of_voters_that_run() {
    let check = |members: &[ClusterMember], up: &[u64], request: &MembershipRequest| {
        let up_since_ns = up.iter().map(|id| (*id, if *id == 9 { 101 } else { 100 })).collect();
        let health = ClusterHealth { own_id: 1, members, up_since_ns: &up_since_ns, healthy_since_ns: 100 };
        health.check(request)
    };
    let remove = |id| MembershipRequest::Remove { id };
    let one = [member(1, false)];
    assert_eq!(check(&one, &[], &add(2, false)), Ok(()));
    let unstarted = ClusterMember { name: String::new(), ..member(2, false) };
    let two = [member(1, false), unstarted.clone()];
    assert_eq!(check(&two, &[], &add(3, false)), Err(Error::NotEnoughStartedMembers));
    assert_eq!(check(&two, &[], &remove(2)), Ok(()), "it never ran");
    let three = [member(1, false), member(2, false), member(3, false)];
    assert_eq!(check(&three, &[2, 3], &add(4, false)), Ok(()));
    assert_eq!(check(&three, &[2], &add(4, false)), Err(Error::Unhealthy));
    assert_eq!(check(&three, &[2], &add(4, true)), Err(Error::Unhealthy), "as in etcd");
    assert_eq!(check(&three, &[2], &remove(3)), Ok(()), "3 is down");
    assert_eq!(check(&three, &[2], &remove(2)), Err(Error::Unhealthy));
    assert_eq!(check(&three, &[2], &remove(1)), Err(Error::Unhealthy));
    assert_eq!(check(&three, &[2, 3], &remove(1)), Ok(()));
    let with_new = [member(1, false), member(2, false), member(9, false)];
    assert_eq!(
        check(&with_new, &[9], &add(4, false)),
        Err(Error::Unhealthy),
        "9 is connected since just now"
    );
    let five: Vec<ClusterMember> = (1..=5).map(|id| member(id, false)).collect();
    for (voters, up, expected) in [
        (4, &[2, 3, 4][..], Ok(())),
        (4, &[2, 3], Ok(())),
        (4, &[2], Err(Error::Unhealthy)),
        (5, &[2, 3, 4, 5], Ok(())),
        (5, &[2, 3, 4], Ok(())),
        (5, &[2, 3], Err(Error::Unhealthy)),
    ] {
        for request in [add(6, false), add(6, true)] {
            assert_eq!(check(&five[..voters], up, &request), expected, "{voters} {up:?} {request:?}");
        }
    }
    let learner = [member(1, false), member(2, true)];
    assert_eq!(check(&learner, &[], &remove(2)), Ok(()));
    assert_eq!(check(&learner, &[], &MembershipRequest::Promote { id: 2 }), Ok(()));
    let two_unstarted =
        [member(1, false), unstarted, ClusterMember { id: 4, ..Default::default() }, member(3, true)];
    let promote = check(&two_unstarted, &[], &MembershipRequest::Promote { id: 3 });
    assert_eq!(promote, Err(Error::NotEnoughStartedMembers));
}

#[test]
fn a_learner_is_promoted_with_nine_tenths_of_the_log() {
    let peer = |id, matched| PeerStatus {
        id,
        matched,
        next: matched + 1,
        state: PeerState::Replicate,
        recent_active: true,
    };
    assert_eq!(check_caught_up(3, 1, &[peer(1, 1000), peer(3, 899)]), Err(Error::LearnerNotReady));
    assert_eq!(check_caught_up(3, 1, &[peer(1, 1000), peer(3, 900)]), Ok(()));
    assert_eq!(check_caught_up(4, 1, &[peer(1, 1000)]), Err(Error::MemberNotFound));
}

#[test]
fn requests_wait_are_sent_once_and_come_back_only_if_they_were_sent_there() {
    let waiting = |origin, sequence| WaitingChange { origin, sequence, request: add(sequence, false) };
    let mut queue = MembershipQueue::default();
    assert!(queue.push(waiting(OWN, 1)));
    assert_eq!(queue.forward_all(2), [waiting(OWN, 1)]);
    assert_eq!(queue.forward_all(2), []);
    assert_eq!(queue.take_refused(3, 1), None, "it was not sent to 3");
    assert_eq!(queue.take_refused(2, 1), Some(waiting(OWN, 1)));
    assert_eq!(queue.take_refused(2, 1), None);
    let other = Origin { member: 2, run: 9 };
    assert!(queue.push(waiting(OWN, 2)) && queue.push(waiting(other, 2)));
    queue.forget(OWN, 2);
    assert_eq!(queue.first(), Some(&waiting(other, 2)));
    assert_eq!(queue.take_foreign(OWN), [waiting(other, 2)]);
    assert_eq!(queue.take_first(), None);
    (0..MAX_WAITING_CHANGES as u64).for_each(|sequence| assert!(queue.push(waiting(OWN, sequence))));
    assert!(!queue.push(waiting(OWN, 99)));
}

#[test]
fn a_command_set_is_recorded_once_all_members_have_announced_it() {
    let mut sets = CommandSets::default();
    let newer = |sets: &mut CommandSets, now_ns, connected: &[u64]| {
        sets.take_newer((now_ns, 50), 1, (1, 2), [1, 2, 3].into_iter(), |id| connected.contains(&id))
    };
    sets.announced(2, 2);
    assert_eq!(newer(&mut sets, 0, &[2, 3]), None, "3 has announced nothing: it may be of an older release");
    sets.announced(3, 3);
    assert_eq!(newer(&mut sets, 0, &[2]), None, "3 may come back with an older release");
    assert_eq!(newer(&mut sets, 0, &[2, 3]), Some(2));
    assert_eq!(newer(&mut sets, 49, &[2, 3]), None, "it was just proposed");
    assert_eq!(newer(&mut sets, 50, &[2, 3]), Some(2));
    let recorded = sets.take_newer((99, 50), 2, (1, 2), [1, 2].into_iter(), |_| true);
    assert_eq!(recorded, None, "it is recorded");
}

#[test]
fn a_member_has_a_bounded_number_of_urls_of_bounded_length() {
    let is_allowed = |count: usize, bytes: usize| {
        let peer_urls = vec!["u".repeat(bytes); count];
        let add = MembershipRequest::Add { id: 4, peer_urls: peer_urls.clone(), learner: false };
        let update = MembershipRequest::Update { id: 4, peer_urls };
        [add, update].map(|request| request.is_within_limits())
    };
    assert_eq!(is_allowed(64, 2_048), [true; 2]);
    assert_eq!(is_allowed(65, 1), [false; 2]);
    assert_eq!(is_allowed(1, 2_049), [false; 2]);
}
