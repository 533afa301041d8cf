//! Space is freed: at once when a client asks, gradually otherwise, and never while a reader still needs it.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Answer, Input, Notice, WantedEntries};

use crate::full_disk::leave;
use crate::rig::Cluster;

fn file_bytes(cluster: &Cluster, at: u64) -> u64 {
    cluster.nodes[&at].opened.log.file_bytes()
}

fn live_bytes(cluster: &Cluster, at: u64) -> u64 {
    cluster.nodes[&at].opened.log.live_bytes()
}

/// Much written, a tenth of it kept.
fn fill_and_delete(cluster: &mut Cluster) {
    for number in 0..1_000u32 {
        cluster.put(&format!("key{number:04}"), vec![number as u8; 2_000]);
    }
    let leader = cluster.leader().unwrap();
    for number in (0..1_000u32).filter(|number| number % 10 != 0) {
        let delete = pb::DeleteRangeRequest { key: format!("key{number:04}").into(), ..Default::default() };
        cluster.propose(leader, CommandKind::DeleteRange, &delete).expect("a delete is applied");
    }
    cluster.compact(true);
    cluster.settle();
}

fn check_values(cluster: &mut Cluster) {
    for number in (0..1_000u32).step_by(10) {
        let got = cluster.get(1, &format!("key{number:04}"));
        assert_eq!(got, Ok(Some(vec![number as u8; 2_000].into())), "key{number:04}");
    }
}

#[test]
fn defragmenting_leaves_little_more_than_what_is_referenced() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    fill_and_delete(&mut cluster);
    assert!(file_bytes(&cluster, 1) > 2_000_000);
    cluster.send(1, |_| Input::Defragment);
    let live = live_bytes(&cluster, 1);
    assert!(live >= 200_000);
    cluster.until("the files are small", |cluster| file_bytes(cluster, 1) < live + live / 8);
    check_values(&mut cluster);
    cluster.stop(1);
    cluster.start(1);
    cluster.settle();
    check_values(&mut cluster);
    assert!(file_bytes(&cluster, 1) < live + live / 4);
    // Nothing goes on when nothing is left to do.
    cluster.run(200);
    let changes = cluster.disks[&1].changes();
    cluster.run(2_000);
    assert_eq!(cluster.disks[&1].changes(), changes);
}

#[test]
fn each_of_three_members_gives_back_its_own() {
    let mut cluster = Cluster::new(3, |_| {});
    fill_and_delete(&mut cluster);
    (1..=3).for_each(|at| {
        cluster.send(at, |_| Input::Defragment);
    });
    let live = live_bytes(&cluster, 1);
    cluster.until("the files are small", |cluster| (1..=3).all(|at| file_bytes(cluster, at) < 2 * live));
    check_values(&mut cluster);
    cluster.assert_equal();
    cluster.put("more", "is written");
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn history_that_is_compacted_gives_back_its_space_unasked() {
    let mut cluster = Cluster::new(3, |config| config.checkpoint_commands = 100_000);
    for number in 0..1_500u32 {
        cluster.put(&format!("key{:02}", number % 40), vec![number as u8; 2_000]);
    }
    cluster.compact(false);
    cluster.settle();
    let before = file_bytes(&cluster, 2);
    cluster.until("space comes back", |cluster| (1..=3).all(|at| file_bytes(cluster, at) * 2 < before));
    cluster.assert_equal();
}

/// Entries behind the checkpoint are kept for followers that are a little behind. A member without others has none:
/// what was overwritten leaves the disk although `--snapshot-catchup-entries` would keep all of it.
#[test]
fn a_lone_member_keeps_nothing_behind_its_checkpoint() {
    const WRITTEN: u64 = 1_000_000;
    for size in [1, 2] {
        let mut cluster = Cluster::new(size, |config| config.catchup_entries = 10_000);
        (0..WRITTEN / 2_000).for_each(|number| cluster.put("key", vec![number as u8; 2_000]));
        cluster.compact(true);
        cluster.settle();
        // A checkpoint for the sake of little space comes after ten seconds.
        cluster.run(4_000);
        for at in 1..=size {
            let left = file_bytes(&cluster, at);
            assert_eq!(left > WRITTEN, size > 1, "{left} bytes are left of {size} members' {WRITTEN}");
            assert!(size > 1 || left < WRITTEN / 4, "{left}");
        }
    }
}

#[test]
fn writes_go_on_while_values_move() {
    let mut cluster = Cluster::new(3, |_| {});
    fill_and_delete(&mut cluster);
    cluster.send(1, |_| Input::Defragment);
    for number in 0..300u32 {
        cluster.put(&format!("key{:04}", number % 100 * 10), vec![1; 2_000]);
        if number % 50 == 0 {
            cluster.compact(false);
        }
    }
    cluster.settle();
    cluster.assert_equal();
    cluster.stop(1);
    cluster.start(1);
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_full_store_takes_writes_again_after_compacting() {
    let mut cluster = Cluster::new(1, |config| config.quota_bytes = 1_000_000);
    let put = |number: u32| pb::PutRequest {
        key: format!("key{:02}", number % 20).into(),
        value: vec![number as u8; 5_000].into(),
        ..Default::default()
    };
    let full = (0..1_000)
        .find(|number| cluster.propose(1, CommandKind::Put, &put(*number)) == Err(api::Error::NoSpace));
    assert!(full.is_some_and(|number| number > 100));
    cluster.compact(true);
    cluster.send(1, |_| Input::Defragment);
    let alarm = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Deactivate as i32,
        member_id: 1,
        alarm: pb::AlarmType::Nospace as i32,
    };
    cluster.propose(1, CommandKind::Alarm, &alarm).expect("disarmed");
    cluster.propose(1, CommandKind::Put, &put(1)).expect("there is room");
    cluster.until("the files are small", |cluster| file_bytes(cluster, 1) < 200_000);
}

/// Space asked for on an idle member makes checkpoints of one and the same entry: a base, and deltas with what moved.
#[test]
fn checkpoints_of_one_entry_are_told_apart() {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 100_000);
    for number in 0..1_000u32 {
        cluster.put(&format!("key{number:04}"), vec![number as u8; 2_000]);
    }
    for _ in 0..5 {
        cluster.send(1, |_| Input::Defragment);
        cluster.run(400);
    }
    let checkpoints = cluster.nodes[&1].notices.iter().filter_map(|notice| match notice {
        Notice::Checkpoint { index } => Some(*index),
        _ => None,
    });
    let checkpoints: Vec<u64> = checkpoints.collect();
    assert!(checkpoints.windows(3).any(|three| three[0] == three[2]), "{checkpoints:?}");
    cluster.stop(1);
    cluster.start(1);
    cluster.settle();
    check_values(&mut cluster);
}

/// Asks as a backup that has everything before `from`; returns whether the log still has the rest.
fn has_entries(cluster: &mut Cluster, from: u64) -> bool {
    let wanted = |token| WantedEntries { token, from, to: u64::MAX, max_bytes: 1 << 20 };
    match cluster.ask(1, |token| Input::ReadEntries(wanted(token))) {
        Answer::Entries(job) => job.is_some(),
        Answer::EntriesGone => false,
        other => panic!("another answer: {other:?}"),
    }
}

/// A lone member, which keeps no entries for others, that has made checkpoints since it applied an entry. A backup has
/// asked for this entry, or not.
fn past_checkpoints(is_backed_up: bool) -> (Cluster, u64) {
    let mut cluster = Cluster::new(1, |config| config.checkpoint_commands = 20);
    cluster.put("key", "first");
    let from = cluster.nodes[&1].opened.status.applied_index();
    assert!(!is_backed_up || has_entries(&mut cluster, from));
    put_past_checkpoints(&mut cluster);
    (cluster, from)
}

fn put_past_checkpoints(cluster: &mut Cluster) {
    let is_checkpoint = |notice: &&Notice| matches!(notice, Notice::Checkpoint { .. });
    let made = |cluster: &Cluster| cluster.nodes[&1].notices.iter().filter(is_checkpoint).count();
    let before = made(cluster);
    (0..200).for_each(|number| cluster.put("key", vec![number as u8; 2_000]));
    cluster.until("checkpoints", |cluster| made(cluster) >= before + 5);
}

#[test]
fn entries_that_a_backup_has_not_read_stay_in_the_log() {
    let (mut cluster, from) = past_checkpoints(false);
    assert!(!has_entries(&mut cluster, from), "no reader needs them");
    let (mut cluster, from) = past_checkpoints(true);
    assert!(has_entries(&mut cluster, from));
    let next = cluster.nodes[&1].opened.status.applied_index();
    assert!(has_entries(&mut cluster, next));
    put_past_checkpoints(&mut cluster);
    assert!(has_entries(&mut cluster, next), "it has not read these");
    assert!(!has_entries(&mut cluster, next - 1), "it has read those");
}

#[test]
fn a_member_that_is_to_give_space_back_keeps_no_entries_for_a_backup() {
    let (mut cluster, from) = past_checkpoints(true);
    cluster.run(500);
    assert!(has_entries(&mut cluster, from));
    cluster.send(1, |_| Input::Defragment);
    cluster.run(500);
    assert!(!has_entries(&mut cluster, from));
}

/// What is kept for a backup may be what fills the disk.
#[test]
fn a_member_on_a_nearly_full_disk_keeps_no_entries_for_a_backup() {
    let (mut cluster, from) = past_checkpoints(true);
    cluster.run(500);
    assert!(has_entries(&mut cluster, from));
    leave(&cluster, 1, 0);
    let put = pb::PutRequest { key: "key".into(), value: vec![0; 2_000].into(), ..Default::default() };
    let full = (0..1_000).find_map(|_| cluster.propose(1, CommandKind::Put, &put).err());
    assert_eq!(full, Some(api::Error::NoSpace));
    cluster.compact(true);
    cluster.until("puts work again", |cluster| cluster.propose(1, CommandKind::Put, &put).is_ok());
    assert!(!has_entries(&mut cluster, from));
}
