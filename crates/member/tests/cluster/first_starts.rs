//! Members that join, and whose first start is cut short anywhere.

use log::MemDisk;
use member::{MemberConfig, OpenMemberError, StartMode};

use crate::membership::{add, joins};
use crate::rig::Cluster;

/// A cluster of one that has added a second member, whose disk fails after this many changes at its first start.
/// Returns whether that start failed.
fn joiner_cut_short(changes: u64) -> (Cluster, bool) {
    let mut cluster = Cluster::new(1, joins);
    cluster.put("before", "1");
    cluster.change(1, &add(2, true)).expect("it is added");
    let disk = MemDisk::new();
    disk.stop_after(changes);
    cluster.disks.insert(2, disk.clone());
    let has_failed = cluster.start_if_possible(2).is_err();
    cluster.stop(2);
    let mut keep_some = |pending: u64| changes % pending;
    let left = if changes.is_multiple_of(2) { disk.fork() } else { disk.crash(&mut keep_some) };
    cluster.disks.insert(2, left);
    (cluster, has_failed)
}

#[test]
fn a_joiner_whose_first_start_was_cut_short_joins_at_the_next() {
    let mut failed = 0;
    for changes in 0.. {
        let (mut cluster, has_failed) = joiner_cut_short(changes);
        cluster.start(2);
        cluster.until_published();
        cluster.assert_equal();
        assert_eq!(cluster.conf_state(2).learners, [2], "after {changes} changes");
        if !has_failed {
            break;
        }
        failed += 1;
    }
    assert!(failed > 5, "{failed} starts were cut short");
}

/// It has a log and no checkpoint: nothing says yet how the member begins, but whose directory it is.
#[test]
fn a_directory_that_holds_nothing_yet_is_not_taken_for_another_member() {
    fn as_another(config: &mut MemberConfig) {
        (config.member_id, config.start) = (9, StartMode::Join { lineage: 0 });
    }
    let mut refused = 0;
    for changes in 0.. {
        let (mut cluster, has_failed) = joiner_cut_short(changes);
        if !has_failed {
            break;
        }
        cluster.tune = as_another;
        if let Err(OpenMemberError::OtherFlags { found, member_id, .. }) = cluster.start_if_possible(2) {
            assert_eq!((found.member_id, member_id), (2, 9));
            refused += 1;
        }
    }
    assert!(refused > 0, "no start was cut short between the log and the first checkpoint");
}
