//! The short form: one recording, cut everywhere, and the defects that must be noticed.

use std::sync::LazyLock;

use powerloss::{CutPlan, Defect, Recording, cut_everywhere, record};

const SEED: u64 = 1;
const STEPS: usize = 160;

/// One recording for both tests, so that what is noticed is the defect.
static RECORDING: LazyLock<Recording> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory to record in");
    record(directory.path(), SEED, STEPS).expect("a member without power loss does nothing wrong")
});

fn plan(defect: Option<Defect>) -> CutPlan {
    CutPlan { seed: SEED, chances: 1, go_on_every: 16, threads: 2, defect }
}

#[test]
fn every_cut_point_recovers() {
    let recording = &*RECORDING;
    let unmet = recording.unmet();
    assert!(unmet.is_empty(), "the recording must have all of it, and lacks {unmet:?}: {recording}");
    let figures = cut_everywhere(recording, plan(None)).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{recording}; {figures}");
    assert!(figures.hashes * 2 > figures.recoveries(), "too few states could be compared: {figures}");
    assert!(figures.histories * 2 > figures.recoveries(), "too little history was read: {figures}");
}

#[test]
fn every_defect_is_noticed() {
    for defect in Defect::ALL {
        match cut_everywhere(&RECORDING, plan(Some(defect))) {
            Ok(figures) => panic!("not noticed: {defect:?}: {figures}"),
            Err(failure) => println!("{defect:?} is noticed: {failure}\n"),
        }
    }
}
