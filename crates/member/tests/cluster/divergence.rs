//! Members whose states differ: from the frames that show it to the alarm that stops writes.
//!
//! All states are equal here. A hash that differs is put into a frame of the member that is to be corrupt.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::peer_message::PeerMessage;
use member::{Input, MembershipRequest};

use crate::rig::Cluster;

/// The kind of a frame with a state hash, see `peer_message`.
const STATE_HASH: u8 = 8;

/// Steps of ten ticks and some more: without a verdict the leader names no member after ten.
const TEN_TICKS: usize = 220;

/// A cluster that has applied something. All have compared their hashes.
fn compared(size: u64) -> Cluster {
    let mut cluster = Cluster::new(size, |config| config.membership.strict = false);
    cluster.until_published();
    cluster.put("key", "value");
    cluster.settle();
    cluster.run(TEN_TICKS);
    cluster
}

/// The members beside the given ones.
fn others(cluster: &Cluster, without: &[u64]) -> Vec<u64> {
    cluster.nodes.keys().copied().filter(|id| !without.contains(id)).collect()
}

/// The last applied index of a member, and its state hash there.
fn state(cluster: &Cluster, at: u64) -> (u64, u64) {
    let (applied, hash) = cluster.nodes[&at].opened.reader.state_hash();
    (applied.index, hash)
}

/// Gives a member the state hash of a peer.
fn tell(cluster: &mut Cluster, at: u64, from: u64, (index, hash): (u64, u64)) {
    let bytes = PeerMessage::StateHash { index, hash }.encode().concat().into();
    cluster.give(at, Input::Frame { from, bytes });
}

/// Gives a member a hash of a peer that differs from its own.
fn tell_of_difference(cluster: &mut Cluster, at: u64, from: u64) {
    let (index, hash) = state(cluster, at);
    tell(cluster, at, from, (index, !hash));
}

/// Whom the alarms of a member name.
fn named(cluster: &Cluster, at: u64) -> Vec<u64> {
    let alarms = cluster.nodes[&at].opened.reader.alarms();
    assert!(alarms.iter().all(|alarm| alarm.alarm == pb::AlarmType::Corrupt as i32));
    alarms.iter().map(|alarm| alarm.member_id).collect()
}

fn until_named(cluster: &mut Cluster, member_id: u64) {
    cluster.until("all have the alarm", |cluster| {
        cluster.nodes.keys().all(|at| named(cluster, *at) == [member_id])
    });
}

fn disarm(cluster: &mut Cluster, at: u64, member_id: u64) {
    let action = pb::alarm_request::AlarmAction::Deactivate as i32;
    let alarm = pb::AlarmRequest { action, member_id, alarm: pb::AlarmType::Corrupt as i32 };
    cluster.propose(at, CommandKind::Alarm, &alarm).expect("disarmed");
    cluster.settle();
}

#[test]
fn the_member_that_differs_from_the_two_others_is_named_and_writes_stop() {
    for leads in [false, true] {
        let mut cluster = compared(3);
        let leader = cluster.leader().expect("one leads");
        let corrupt = if leads { leader } else { cluster.follower() };
        for at in others(&cluster, &[corrupt]) {
            tell_of_difference(&mut cluster, at, corrupt);
        }
        until_named(&mut cluster, corrupt);
        let put = pb::PutRequest { key: "key".into(), value: "new".into(), ..Default::default() };
        let refused = cluster.propose(leader, CommandKind::Put, &put);
        assert_eq!(refused, Err(api::Error::Corrupt));
        // What was seen before does not raise it again, once a tick has found the alarm.
        cluster.run(TEN_TICKS);
        disarm(&mut cluster, leader, corrupt);
        cluster.run(TEN_TICKS);
        assert_eq!(named(&cluster, leader), []);
    }
}

/// A follower alone sees it. The leader cannot: no hash of others comes to it that differs from its own.
#[test]
fn a_follower_raises_the_alarm_as_well() {
    let mut cluster = compared(3);
    let (leader, at) = (cluster.leader().expect("one leads"), cluster.follower());
    let [corrupt] = others(&cluster, &[leader, at])[..] else { panic!("there are three") };
    tell_of_difference(&mut cluster, at, corrupt);
    until_named(&mut cluster, corrupt);
}

#[test]
fn of_two_members_that_differ_none_is_named() {
    let mut cluster = compared(2);
    tell_of_difference(&mut cluster, 1, 2);
    tell_of_difference(&mut cluster, 2, 1);
    cluster.run(TEN_TICKS / 2);
    assert_eq!(named(&cluster, 1), [], "another member might know more");
    until_named(&mut cluster, 0);
}

/// The leader is ahead of its followers, so that its hash often comes before they have applied the index. It is not
/// sent again.
#[test]
fn a_hash_that_comes_before_its_index_is_applied_is_compared_once_it_is() {
    let mut cluster = compared(3);
    let (leader, at) = (cluster.leader().expect("one leads"), cluster.follower());
    let [other] = others(&cluster, &[leader, at])[..] else { panic!("there are three") };
    cluster.lost = Some((at, STATE_HASH));
    let (index, hash) = state(&cluster, at);
    tell(&mut cluster, at, leader, (index + 1, !hash));
    cluster.put("key", "new");
    cluster.settle();
    let now = state(&cluster, at);
    assert_eq!(now.0, index + 1);
    tell(&mut cluster, at, other, now);
    until_named(&mut cluster, leader);
}

/// An alarm for it would stop writes until an operator disarms it, and no member could be repaired.
#[test]
fn a_removed_member_is_not_named() {
    for is_judged in [true, false] {
        let mut cluster = compared(3);
        let (leader, removed) = (cluster.leader().expect("one leads"), cluster.follower());
        let [other] = others(&cluster, &[leader, removed])[..] else { panic!("there are three") };
        cluster.lost = Some((leader, STATE_HASH));
        if is_judged {
            tell_of_difference(&mut cluster, leader, removed);
            until_named(&mut cluster, removed);
            cluster.run(TEN_TICKS);
            disarm(&mut cluster, leader, removed);
        } else {
            // The other one was not equal at this index, so that the leader waits.
            cluster.put("key", "new");
            cluster.settle();
            tell_of_difference(&mut cluster, leader, removed);
            cluster.run(1);
        }
        let left = cluster.change(leader, &MembershipRequest::Remove { id: removed });
        assert_eq!(left.map(|left| left.len()), Ok(2));
        cluster.until("it is removed", |cluster| cluster.conf_state(leader).voters.len() == 2);
        if is_judged {
            tell_of_difference(&mut cluster, leader, removed);
        } else {
            let now = state(&cluster, leader);
            tell(&mut cluster, leader, other, now);
        }
        cluster.run(TEN_TICKS);
        assert_eq!(named(&cluster, leader), []);
        cluster.put("key", "newer");
    }
}
