//! The memory limit: what is refused at it, what goes on, and how the store may grow again.

use api::etcdserverpb as pb;
use member::Notice;
use member::batch::CommandKind;

use crate::rig::Cluster;

const LIMIT_BYTES: u64 = 600_000;

/// The kind of a frame with forwarded commands, see `peer_message`.
const FORWARD: u8 = 2;

/// Keys are long, so that few of them reach the limit.
fn put(number: u32) -> pb::PutRequest {
    let key = format!("/registry/pods/a-namespace-with-a-name/pod-{number:06}-{:x>250}", number);
    pb::PutRequest { key: key.into(), value: "v".into(), ..Default::default() }
}

/// Puts new keys until one is refused; returns how many were taken.
fn fill(cluster: &mut Cluster, at: u64) -> u32 {
    let refused = (0..20_000).find(|number| match cluster.propose(at, CommandKind::Put, &put(*number)) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, api::Error::NoSpace);
            true
        }
    });
    refused.expect("there is a limit")
}

/// Deletes all keys, the first one last: what is deleted by the revision that is compacted stays until the next
/// compaction.
fn delete_all(cluster: &mut Cluster, at: u64) {
    for (first, end) in [(1, "0"), (0, "")] {
        let (key, range_end) = (put(first).key, end.into());
        let delete = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
        cluster.propose(at, CommandKind::DeleteRange, &delete).expect("a delete is applied");
    }
}

fn disarm(cluster: &mut Cluster, at: u64, member_id: u64) {
    let action = pb::alarm_request::AlarmAction::Deactivate as i32;
    let alarm = pb::AlarmRequest { action, member_id, alarm: pb::AlarmType::Nospace as i32 };
    cluster.propose(at, CommandKind::Alarm, &alarm).expect("disarmed");
}

fn alarms(cluster: &Cluster, at: u64) -> Vec<u64> {
    cluster.nodes[&at].opened.reader.alarms().into_iter().map(|alarm| alarm.member_id).collect()
}

fn accounted(cluster: &Cluster, at: u64) -> u64 {
    cluster.nodes[&at].opened.status.memory().iter().map(|(_, bytes)| bytes).sum()
}

/// Runs until what was deleted and compacted is not accounted any more.
fn until_free(cluster: &mut Cluster, at: u64) {
    for _ in 0..6_000 {
        if accounted(cluster, at) < LIMIT_BYTES / 4 {
            return;
        }
        cluster.step();
    }
    panic!("accounted: {:?}", cluster.nodes[&at].opened.status.memory());
}

/// How often an excess began or ended at a member.
fn excesses(cluster: &Cluster, at: u64, began: bool) -> usize {
    let notices = cluster.nodes[&at].notices.iter();
    notices
        .filter(|notice| match notice {
            Notice::MemoryLimit { exceeded, limit_bytes, largest, .. } => {
                assert_eq!(*limit_bytes, LIMIT_BYTES);
                assert!(!exceeded || *largest == "index", "{largest}");
                *exceeded == began
            }
            _ => false,
        })
        .count()
}

#[test]
fn a_full_memory_refuses_growth_until_keys_are_gone_and_the_alarm_is_disarmed() {
    let mut cluster = Cluster::new(1, |config| config.memory_limit_bytes = LIMIT_BYTES);
    let taken = fill(&mut cluster, 1);
    assert!(taken > 1_000, "{taken} keys were taken");
    assert!(accounted(&cluster, 1) >= LIMIT_BYTES / 20 * 19);
    assert_eq!((excesses(&cluster, 1, true), excesses(&cluster, 1, false)), (1, 0));
    cluster.until("the alarm is raised", |cluster| alarms(cluster, 1) == [1]);
    let lease = pb::LeaseGrantRequest { ttl: 60, id: 7 };
    assert_eq!(cluster.propose(1, CommandKind::LeaseGrant, &lease).err(), Some(api::Error::NoSpace));

    // Disarming alone changes nothing.
    disarm(&mut cluster, 1, 1);
    assert_eq!(cluster.propose(1, CommandKind::Put, &put(0)).err(), Some(api::Error::NoSpace));
    cluster.until("the alarm is raised again", |cluster| alarms(cluster, 1) == [1]);

    let first = String::from_utf8(put(0).key.to_vec()).expect("text");
    assert_eq!(cluster.get(1, &first), Ok(Some("v".into())));
    delete_all(&mut cluster, 1);
    assert_eq!(cluster.get(1, &first), Ok(None));
    cluster.compact(true);
    until_free(&mut cluster, 1);
    // What is deleted is noted for the next checkpoint before it goes, so an excess may end and begin again meanwhile.
    let ended = excesses(&cluster, 1, false);
    assert!(ended > 0 && excesses(&cluster, 1, true) == ended, "the last excess has ended");
    assert_eq!(
        cluster.propose(1, CommandKind::Put, &put(0)).err(),
        Some(api::Error::NoSpace),
        "the alarm stays"
    );
    disarm(&mut cluster, 1, 1);
    cluster.propose(1, CommandKind::Put, &put(0)).expect("there is room");
    cluster.run(100);
    assert_eq!(alarms(&cluster, 1), []);
}

/// Three members of which only the last, a follower, has a limit; and the leader.
fn follower_with_limit() -> (Cluster, u64) {
    let mut cluster = Cluster::new(3, |config| {
        config.memory_limit_bytes = if config.member_id == 3 { LIMIT_BYTES } else { 0 };
    });
    if cluster.leader() == Some(3) {
        cluster.ask(3, |token| member::Input::MoveLeader { token, to: 1 });
        cluster.settle();
    }
    let leader = cluster.leader().expect("somebody leads");
    assert_ne!(leader, 3);
    (cluster, leader)
}

/// No answer and no change of the leader tells a follower that the frame with its alarm was lost.
#[test]
fn an_alarm_whose_frame_is_lost_is_raised_again() {
    let (mut cluster, leader) = follower_with_limit();
    cluster.lost = Some((leader, FORWARD));
    let mut put_next = (0..).map(|number| {
        let put = put(number);
        cluster.propose(leader, CommandKind::Put, &put).expect("no alarm is raised");
        excesses(&cluster, 3, true) > 0
    });
    assert!(put_next.any(|is_exceeded| is_exceeded));
    // So far above the limit that no checkpoint ends the excess.
    assert_eq!(put_next.take(600).count(), 600);
    assert_eq!(alarms(&cluster, leader), []);
    cluster.lost = None;
    cluster.until("the alarm is raised", |cluster| alarms(cluster, leader) == [3]);
}

#[test]
fn a_follower_without_memory_stops_the_whole_cluster_from_growing() {
    let (mut cluster, leader) = follower_with_limit();
    assert!(fill(&mut cluster, leader) > 1_000);
    cluster.settle();
    for at in 1..=3 {
        assert_eq!(alarms(&cluster, at), [3]);
        assert_eq!(cluster.propose(at, CommandKind::Put, &put(0)).err(), Some(api::Error::NoSpace));
    }
    assert_eq!((excesses(&cluster, 3, true), excesses(&cluster, leader, true)), (1, 0));
    delete_all(&mut cluster, 3);
    cluster.compact(true);
    until_free(&mut cluster, 3);
    disarm(&mut cluster, leader, 3);
    (1..=3).for_each(|at| assert!(cluster.propose(at, CommandKind::Put, &put(at as u32)).is_ok()));
    cluster.settle();
    cluster.assert_equal();
}

/// A restart counts what it loads, and finds itself at the limit without a write.
#[test]
fn a_restarted_member_knows_that_it_is_at_its_limit() {
    let mut cluster = Cluster::new(1, |_| {});
    for number in 0..2_500 {
        cluster.propose(1, CommandKind::Put, &put(number)).expect("there is no limit");
    }
    let before = cluster.nodes[&1].opened.reader.memory();
    cluster.stop(1);
    cluster.tune = |config| config.memory_limit_bytes = LIMIT_BYTES;
    cluster.start(1);
    cluster.until("the alarm is raised", |cluster| alarms(cluster, 1) == [1]);
    let after = cluster.nodes[&1].opened.reader.memory();
    assert!(after.index.abs_diff(before.index) < before.index / 20, "{before:?}, {after:?}");
    assert_eq!(cluster.propose(1, CommandKind::Put, &put(0)).err(), Some(api::Error::NoSpace));
}
