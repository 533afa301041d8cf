//! A member on a full disk goes on with all that frees space, gets it back by itself, and delays no other.

use std::path::Path;

use api::etcdserverpb as pb;
use log::Disk;
use member::batch::CommandKind;
use member::{Answer, Input, Notice, SnapshotEvent};

use crate::rig::Cluster;
use crate::snapshots::{installed, one_behind};

/// Bytes that are free when a test begins: a dozen segments.
const FREE_BYTES: u64 = 12 << 17;

/// Leaves so much free on a member's disk.
pub(crate) fn leave(cluster: &Cluster, at: u64, bytes: u64) {
    let disk = &cluster.disks[&at];
    disk.set_capacity(Some(u64::MAX));
    let used = u64::MAX - disk.free_bytes(Path::new("/data")).expect("the disk is well");
    disk.set_capacity(Some(used + bytes));
}

fn key(number: u32) -> String {
    format!("key{number:05}")
}

fn try_put(cluster: &mut Cluster, at: u64, number: u32) -> store::Outcome {
    let value = vec![number as u8; 2_000].into();
    let put = pb::PutRequest { key: key(number).into(), value, ..Default::default() };
    cluster.propose(at, CommandKind::Put, &put)
}

/// Puts other keys until one is refused; returns how many there are.
fn fill(cluster: &mut Cluster, at: u64) -> u32 {
    let refused = (0..5_000).find(|number| match try_put(cluster, at, *number) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, api::Error::NoSpace);
            true
        }
    });
    refused.expect("the disk is full some time")
}

fn delete(cluster: &mut Cluster, at: u64, from: u32, to: u32) -> store::Outcome {
    let request =
        pb::DeleteRangeRequest { key: key(from).into(), range_end: key(to).into(), ..Default::default() };
    cluster.propose(at, CommandKind::DeleteRange, &request)
}

fn delete_by_txn(number: u32, puts: bool) -> pb::TxnRequest {
    use pb::request_op::Request;
    let delete = pb::DeleteRangeRequest { key: key(number).into(), ..Default::default() };
    let put = pb::PutRequest { key: "deleted".into(), ..Default::default() };
    let requests = [Some(Request::RequestDeleteRange(delete)), puts.then_some(Request::RequestPut(put))];
    let success = requests.into_iter().flatten().map(|request| pb::RequestOp { request: Some(request) });
    pb::TxnRequest { success: success.collect(), ..Default::default() }
}

fn until_puts_work(cluster: &mut Cluster, at: u64) {
    cluster.until("puts work again", |cluster| try_put(cluster, at, 0).is_ok());
}

#[test]
fn a_lone_member_on_a_full_disk_frees_space_and_takes_puts_again() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    leave(&cluster, 1, FREE_BYTES);
    let puts = fill(&mut cluster, 1);
    assert!(puts > 300, "only {puts} puts of 2 KB fit");
    cluster.run(200);
    assert_eq!(try_put(&mut cluster, 1, puts), Err(api::Error::NoSpace));
    assert!(matches!(cluster.ask(1, |token| Input::Read { token }), Answer::ReadNow));
    assert_eq!(cluster.get(1, &key(7)), Ok(Some(vec![7; 2_000].into())));
    let txn = delete_by_txn(7, false);
    cluster.propose(1, CommandKind::Txn, &txn).expect("a transaction that only deletes goes on");
    let txn = delete_by_txn(8, true);
    assert_eq!(cluster.propose(1, CommandKind::Txn, &txn), Err(api::Error::NoSpace));
    delete(&mut cluster, 1, 10, puts).expect("deletes go on");
    cluster.compact(false);
    until_puts_work(&mut cluster, 1);
    let puts = fill(&mut cluster, 1);
    assert!(puts > 300, "only {puts} puts fit the second time");
    assert_eq!(cluster.get(1, &key(8)), Ok(Some(vec![8; 2_000].into())));
    let news = cluster.nodes[&1].notices.iter().filter(|notice| matches!(notice, Notice::Space { .. }));
    assert_eq!(news.count(), 3, "full, not full, and full again");
}

/// A part of each file is live: it must be copied before the file can go. All of it fits into one segment.
#[test]
fn space_comes_back_although_every_file_holds_something() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    leave(&cluster, 1, FREE_BYTES);
    let puts = fill(&mut cluster, 1);
    for number in (0..puts).filter(|number| number % 16 != 0) {
        delete(&mut cluster, 1, number, number + 1).expect("there is room for deletes");
    }
    cluster.compact(false);
    until_puts_work(&mut cluster, 1);
    for number in (16..puts).step_by(16) {
        assert_eq!(cluster.get(1, &key(number)), Ok(Some(vec![number as u8; 2_000].into())));
    }
}

#[test]
fn deletes_that_use_up_their_share_leave_room_for_a_compaction() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    leave(&cluster, 1, FREE_BYTES / 4);
    let puts = fill(&mut cluster, 1);
    // A reader keeps all files, so that none can be used again.
    let pin = cluster.nodes[&1].opened.log.pin();
    // Each deletes nothing and takes an entry.
    let refused = (0..5_000).find_map(|_| delete(&mut cluster, 1, 90_000, 90_001).err());
    assert_eq!(refused, Some(api::Error::NoSpace));
    cluster.run(200);
    assert_eq!(delete(&mut cluster, 1, 0, puts), Err(api::Error::NoSpace), "there is no room for deletes");
    cluster.compact(false);
    assert_eq!(cluster.leader(), Some(1));
    drop(pin);
}

#[test]
fn a_member_that_is_killed_again_and_again_on_a_full_disk_leads_each_time() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    leave(&cluster, 1, FREE_BYTES);
    let puts = fill(&mut cluster, 1);
    leave(&cluster, 1, 0);
    for kill in 0..10 {
        cluster.stop(1);
        cluster.start(1);
        cluster.settle();
        cluster.until("it leads", |cluster| cluster.leader() == Some(1));
        delete(&mut cluster, 1, kill, kill + 1).expect("deletes go on");
    }
    assert_eq!(cluster.get(1, &key(11)), Ok(Some(vec![11; 2_000].into())));
    delete(&mut cluster, 1, 0, puts).expect("deletes go on");
    cluster.compact(false);
    until_puts_work(&mut cluster, 1);
}

#[test]
fn others_go_on_without_a_follower_whose_disk_is_full_and_it_catches_up() {
    let mut cluster = Cluster::new(3, |config| {
        config.checkpoint_commands = 100_000;
        config.catchup_entries = 100_000;
    });
    let (leader, full) = (cluster.leader().expect("somebody leads"), cluster.follower());
    leave(&cluster, full, FREE_BYTES);
    let term = cluster.nodes[&leader].opened.status.term();
    for number in 0..2_000 {
        try_put(&mut cluster, leader, number).expect("the others go on");
    }
    let applied = |cluster: &Cluster, at: u64| cluster.nodes[&at].opened.status.applied_index();
    assert!(applied(&cluster, full) < applied(&cluster, leader), "it does not have all");
    assert!(applied(&cluster, full) > 300, "but what fits");
    assert_eq!(cluster.get(full, &key(9)), Ok(Some(vec![9; 2_000].into())), "and serves it");
    cluster.stop(full);
    cluster.start(full);
    cluster.run(500);
    assert!(cluster.nodes.contains_key(&full), "it starts on the full disk");
    let status = &cluster.nodes[&full].opened.status;
    assert_eq!((status.leader(), status.term()), (leader, term), "and disturbs no other");
    cluster.disks[&full].set_capacity(None);
    cluster.settle();
    cluster.assert_equal();
}

/// The others forget what the full member lacks, and would send it a snapshot that does not fit either.
#[test]
fn a_follower_whose_disk_is_full_takes_a_snapshot_when_it_has_room() {
    let mut cluster = Cluster::new(3, |_| {});
    let (leader, full) = (cluster.leader().expect("somebody leads"), cluster.follower());
    leave(&cluster, full, FREE_BYTES / 4);
    for number in 0..1_000 {
        try_put(&mut cluster, leader, number).expect("the others go on");
    }
    cluster.run(500);
    let refusals = cluster.events(leader, |event| matches!(event, SnapshotEvent::NotSent { .. }));
    assert!(refusals > 0, "it refuses a snapshot");
    assert!(cluster.nodes.contains_key(&full));
    cluster.disks[&full].set_capacity(None);
    cluster.settle();
    cluster.assert_equal();
}

/// The process ended when the last of a snapshot did not fit.
#[test]
fn a_snapshot_that_does_not_fit_fails_and_the_next_one_is_installed_when_there_is_space() {
    let mut refused = 0;
    for free in (0..160 << 10).step_by(8 << 10) {
        let (mut cluster, full) = one_behind();
        let leader = cluster.leader().expect("somebody leads");
        cluster.start(full);
        cluster.until("it receives", |cluster| {
            cluster.events(full, |event| matches!(event, SnapshotEvent::Receiving { .. })) == 1
        });
        leave(&cluster, full, free);
        cluster.run(400);
        assert!(cluster.nodes.contains_key(&full), "it ended, with {free} bytes free");
        let reasons = cluster.reasons_not_sent(leader);
        assert!(cluster.events(full, installed) == 1 || !reasons.is_empty(), "with {free} bytes free");
        refused += reasons.iter().filter(|reason| reason.contains("no storage space")).count();
        cluster.disks[&full].set_capacity(None);
        cluster.settle();
        cluster.assert_equal();
    }
    assert!(refused > 5, "the sender learns why: {refused}");
}

/// By then consensus counts on the snapshot: it cannot be refused any more.
#[test]
fn a_snapshot_whose_commit_finds_no_space_is_committed_when_there_is() {
    let (mut cluster, full) = one_behind();
    let reserve = Path::new("/data/member/checkpoint/RESERVE");
    cluster.start(full);
    cluster.until("it has all of it", |cluster| cluster.has_whole_stream());
    if cluster.disks[&full].exists(reserve).expect("the disk is well") {
        cluster.disks[&full].remove(reserve).expect("the disk is well");
    }
    leave(&cluster, full, 0);
    cluster.run(400);
    assert_eq!(cluster.events(full, installed), 0);
    let status = &cluster.nodes[&full].opened.status;
    assert_eq!(status.snapshots_installing(), 1);
    let failure = |notice: &&Notice| matches!(notice, Notice::Failure { text } if text.contains("snapshot"));
    assert_eq!(cluster.nodes[&full].notices.iter().filter(failure).count(), 1, "one notice is enough");
    cluster.disks[&full].set_capacity(None);
    cluster.settle();
    assert_eq!(cluster.events(full, installed), 1);
    cluster.assert_equal();
}

/// Its stream pins files and history: what was deleted could not be freed before its end.
#[test]
fn a_leader_whose_disk_is_full_gives_up_the_snapshot_that_it_sends() {
    let (mut cluster, behind) = one_behind();
    let leader = cluster.leader().expect("somebody leads");
    cluster.steps_per_item = 1_000_000;
    cluster.start(behind);
    cluster.until("it is sent", |cluster| {
        cluster.events(leader, |event| matches!(event, SnapshotEvent::Sending { .. })) == 1
    });
    leave(&cluster, leader, FREE_BYTES);
    let puts = fill(&mut cluster, leader);
    delete(&mut cluster, leader, 0, puts).expect("deletes go on");
    cluster.compact(false);
    cluster.run(500);
    assert_eq!(
        try_put(&mut cluster, leader, 0),
        Err(api::Error::NoSpace),
        "its stream pins what was deleted"
    );
    cluster.steps_per_item = 1;
    until_puts_work(&mut cluster, leader);
    cluster.until("it is given up", |cluster| !cluster.reasons_not_sent(leader).is_empty());
    assert!(cluster.reasons_not_sent(leader)[0].contains("was released to free space"));
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_leader_whose_disk_is_full_leads_on() {
    let mut cluster = Cluster::new(3, |config| config.checkpoint_commands = 100_000);
    let leader = cluster.leader().expect("somebody leads");
    leave(&cluster, leader, FREE_BYTES);
    let puts = fill(&mut cluster, leader);
    let follower = cluster.follower();
    assert_eq!(try_put(&mut cluster, follower, puts), Err(api::Error::NoSpace), "forwarded puts, too");
    delete(&mut cluster, follower, 0, puts).expect("deletes go on");
    cluster.compact(false);
    until_puts_work(&mut cluster, leader);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.settle();
    cluster.assert_equal();
}
