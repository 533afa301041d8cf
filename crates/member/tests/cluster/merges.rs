//! Merges of checkpoints: what does not wait for them.

use member::jobs::Done;

use crate::rig::Cluster;
use crate::snapshots::installed;

/// A follower writes a checkpoint, after so many others. Returns whether it begins a merge when that is done. With
/// `installs`, a snapshot waits for the end of the checkpoint, and must be installed next.
fn begins_merge(checkpoints: u32, installs: bool) -> bool {
    let mut cluster = Cluster::new(3, |config| {
        config.checkpoint_commands = 1;
        config.catchup_entries = 5;
    });
    for number in 0..checkpoints {
        cluster.put(&format!("key{number}"), "value");
        cluster.settle();
    }
    let behind = cluster.follower();
    cluster.hold_jobs = Box::new(move |at, done| at == behind && matches!(done, Done::Checkpoint { .. }));
    cluster.put("last", "value");
    cluster.until("its checkpoint is written", |cluster| !cluster.held_jobs.is_empty());
    if installs {
        cluster.hold = Some(behind);
        (0..40).for_each(|number| cluster.put(&format!("later{number}"), "value"));
        cluster.hold = None;
        cluster.held.clear();
        let installing =
            |cluster: &mut Cluster| cluster.nodes[&behind].opened.status.snapshots_installing() == 1;
        cluster.until("a snapshot waits", installing);
    }
    cluster.hold_jobs = Box::new(move |at, done| at == behind && matches!(done, Done::CheckpointsMerged(_)));
    for (at, input) in std::mem::take(&mut cluster.held_jobs) {
        cluster.give(at, input);
    }
    if installs {
        cluster.until("it is installed", |cluster| cluster.events(behind, installed) == 1);
        cluster.settle();
        cluster.assert_equal();
    } else {
        cluster.run(20);
    }
    !cluster.held_jobs.is_empty()
}

/// An installation replaces all checkpoints, and consensus waits for it.
#[test]
fn no_merge_begins_while_an_installation_waits() {
    let due = (1..12).find(|checkpoints| begins_merge(*checkpoints, false));
    let checkpoints = due.expect("a merge is due at some time");
    assert!(!begins_merge(checkpoints, true));
}
