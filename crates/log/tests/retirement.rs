//! A file that has lost its last reference is freed once, under each path it had, however long readers hold it.

mod rig;

use log::{CheckpointKind, Options, Space};
use rig::{Rig, options};

/// A log of several segments, without references.
fn filled(options: &Options) -> Rig {
    let mut rig = Rig::with(options);
    for index in 1..=6 {
        let entry = rig.entry(index, 1, 1_500);
        rig.append(None, vec![entry]);
    }
    assert!(rig.sync());
    rig
}

/// Runs all background jobs, none of which may fail.
fn work(rig: &mut Rig) {
    while let Some(job) = rig.log.next_job() {
        rig.log.background_done(job.run()).expect("each file is there when it is recycled or removed");
        rig.log.check_all();
    }
}

#[test]
fn a_file_that_is_pinned_over_several_checkpoints_is_freed_once() {
    let mut rig = filled(&Options { reserve_segments: 7, ..options() });
    let pin = rig.reader.pin();
    rig.log.truncate_to(6);
    for _ in 0..3 {
        assert!(rig.checkpoint(CheckpointKind::Base));
    }
    drop(pin);
    work(&mut rig);
    assert_eq!(rig.log.space(), Space::Ok, "all segments of the reserve could be made");
    assert!(rig.log.can_roll_over());
}

#[test]
fn a_segment_counts_as_reclaimable_until_it_is_retired_under_the_path_it_has() {
    let mut rig = filled(&Options { wal_dir: Some("/wal".into()), wal_dir_bytes: 0, ..options() });
    let reclaimable = rig.log.reclaimable_bytes(6, 6);
    assert!(reclaimable > 0);
    let pin = rig.reader.pin();
    work(&mut rig);
    assert_eq!(
        rig.log.reclaimable_bytes(6, 6),
        reclaimable,
        "the segments moved; their old files are retired"
    );
    rig.log.truncate_to(6);
    assert!(rig.checkpoint(CheckpointKind::Base));
    assert_eq!(rig.log.reclaimable_bytes(6, 6), 0, "all of it is on its way out");
    drop(pin);
    work(&mut rig);
}
