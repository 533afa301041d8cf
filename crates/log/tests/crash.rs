//! Power is lost at every operation of random runs: what was synced comes back, of the rest at most a prefix.

mod rig;

use log::{CheckpointKind, HardState};
use proptest::prelude::*;
use proptest::test_runner::Config;
use rig::{Rig, open, options};

#[derive(Debug, Clone)]
enum Step {
    /// Entries of these payload lengths, going back this many indices first.
    Append {
        back: u64,
        lens: Vec<usize>,
    },
    HardState {
        vote: u64,
    },
    Sync,
    Seal,
    Checkpoint(CheckpointKind),
    Truncate,
    Background,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(CheckpointKind::Base), Just(CheckpointKind::Delta)];
    prop_oneof![
        6 => (0..3_u64, prop::collection::vec(0..900_usize, 1..4))
            .prop_map(|(back, lens)| Step::Append { back, lens }),
        1 => prop::collection::vec(5000..9000_usize, 1..2).prop_map(|lens| Step::Append { back: 0, lens }),
        2 => (0..4_u64).prop_map(|vote| Step::HardState { vote }),
        5 => Just(Step::Sync),
        1 => Just(Step::Seal),
        2 => kind.prop_map(Step::Checkpoint),
        1 => Just(Step::Truncate),
        3 => Just(Step::Background),
    ]
}

/// Runs a step; false once the disk has failed.
fn run(rig: &mut Rig, step: &Step, term: u64) -> bool {
    match step {
        Step::Append { back, lens } => {
            // Raft never replaces what is committed; the model commits what a checkpoint holds.
            let last = rig.state().entries.len() as u64;
            let floor = rig.checkpoint.index.max(rig.log.first_index() - 1);
            let first = (last + 1).saturating_sub(*back).max(floor + 1);
            let entries =
                (first..).zip(lens).map(|(index, len)| rig.entry(index, term, *len)).collect::<Vec<_>>();
            return rig.try_append(None, entries).is_some();
        }
        Step::HardState { vote } => {
            let hard_state = HardState { term, vote: *vote, commit: 0 };
            return rig.try_append(Some(hard_state), Vec::new()).is_some();
        }
        Step::Sync => return rig.sync(),
        Step::Seal => rig.seal(),
        Step::Checkpoint(kind) => {
            rig.checkpoint(*kind);
        }
        Step::Truncate => {
            let index = rig.checkpoint.index;
            rig.log.truncate_to(index);
        }
        Step::Background => rig.background(),
    }
    true
}

/// Runs all steps until the disk stops after `changes`, then loses power and recovers twice.
fn crash_after(steps: &[Step], changes: u64, seed: u64) {
    let mut rig = Rig::new();
    rig.log.loaded().expect("nothing is referenced");
    rig.disk.stop_after(changes);
    for (at, step) in steps.iter().enumerate() {
        if !run(&mut rig, step, 1 + at as u64 / 4) {
            break;
        }
    }
    let mut random = seed | 1;
    let mut choose = move |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let disk = rig.disk.crash(&mut choose);
    rig.check(open(&disk, &options()).expect("a crash is not corruption"));
    // Opening changed the disk (it cuts and sweeps): it must be sound to crash there as well.
    let disk = disk.crash(&mut choose);
    rig.check(open(&disk, &options()).expect("a crash while recovering is not corruption"));
}

proptest! {
    #![proptest_config(Config { cases: 48, max_shrink_iters: 200, ..Config::default() })]

    #[test]
    fn what_was_synced_survives_a_crash_at_any_operation(
        steps in prop::collection::vec(step(), 1..40),
        seed in any::<u64>(),
    ) {
        let mut whole = Rig::new();
        let before = whole.disk.changes();
        for (at, step) in steps.iter().enumerate() {
            run(&mut whole, step, 1 + at as u64 / 4);
        }
        let changes = whole.disk.changes() - before;
        for stop in 0..=changes {
            crash_after(&steps, stop, seed.wrapping_add(stop));
        }
    }
}
