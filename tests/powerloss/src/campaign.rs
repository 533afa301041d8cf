//! Every cut point of a recording, in several variants, on several threads.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use log::MemDisk;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::recorder::DiskOperation;
use crate::recording::Recording;
use crate::recovery::{recover, recover_and_go_on, recover_interrupted};
use crate::replay::{Defect, DiskReplay};
use crate::survival::{Survival, has_unsynced};

/// Operations shown before a cut that broke something.
const SHOWN: usize = 12;

/// How a recording is cut.
#[derive(Debug, Clone, Copy)]
pub struct CutPlan {
    /// Decides the random cases.
    pub seed: u64,
    /// Random images of each cut.
    pub chances: u64,
    /// One image in this many is also recovered with another power loss during recovery, and with one after a new
    /// write.
    pub go_on_every: usize,
    /// Threads.
    pub threads: usize,
    /// A deliberate defect.
    pub defect: Option<Defect>,
}

/// The figures of a campaign.
#[derive(Debug, Clone, Default)]
pub struct CutFigures {
    /// Operations recorded.
    pub operations: usize,
    /// Points at which power was lost.
    pub cuts: usize,
    /// Recoveries by how their image was made.
    images: BTreeMap<Survival, usize>,
    /// Recoveries whose state hash was compared, whose history was read, and that continued with a write.
    pub hashes: usize,
    /// See [`CutFigures::hashes`].
    pub histories: usize,
    /// See [`CutFigures::hashes`].
    pub went_on: usize,
}

/// A recovery that went wrong.
#[derive(Debug, Clone)]
pub struct RecoveryFailure {
    /// Power was lost after so many operations.
    pub position: usize,
    survival: Survival,
    seed: u64,
    reason: String,
    /// The last operations before it.
    trace: Vec<String>,
}

impl CutFigures {
    /// Recoveries in all.
    pub fn recoveries(&self) -> usize {
        self.images.values().sum()
    }

    fn add(&mut self, other: &CutFigures) {
        self.cuts += other.cuts;
        self.hashes += other.hashes;
        self.histories += other.histories;
        self.went_on += other.went_on;
        other.images.iter().for_each(|(survival, count)| *self.images.entry(*survival).or_default() += count);
    }
}

impl fmt::Display for CutFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images: Vec<String> =
            self.images.iter().map(|(survival, count)| format!("{survival:?} {count}")).collect();
        write!(
            f,
            "{} operations, {} cut points, {} recoveries ({}); {} state hashes and {} older revisions compared; {} of \
             the images again with another power loss while recovering, and with one after a new write",
            self.operations,
            self.cuts,
            self.recoveries(),
            images.join(", "),
            self.hashes,
            self.histories,
            self.went_on
        )
    }
}

impl fmt::Display for RecoveryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryFailure { position, survival, seed, reason, trace } = self;
        write!(
            f,
            "power lost after operation {position}, {survival:?} of the unsynced left (seed {seed}): {reason}"
        )?;
        trace.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

/// Loses power after every operation of a recording and recovers.
///
/// # Errors
/// The first recovery that was not as it must be.
pub fn cut_everywhere(recording: &Recording, plan: CutPlan) -> Result<CutFigures, Box<RecoveryFailure>> {
    let stop = AtomicBool::new(false);
    let results: Vec<Result<CutFigures, Box<RecoveryFailure>>> = std::thread::scope(|scope| {
        let share =
            |worker| CutWorker { recording, plan, worker, stop: &stop, figures: CutFigures::default() };
        let workers: Vec<_> =
            (0..plan.threads).map(|worker| scope.spawn(move || share(worker).run())).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mut all = CutFigures { operations: recording.operations.len(), ..CutFigures::default() };
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(figures) => all.add(&figures),
            Err(failure) => failures.push(failure),
        }
    }
    failures.into_iter().min_by_key(|failure| failure.position).map_or(Ok(all), Err)
}

/// One thread's part of the cuts.
struct CutWorker<'r> {
    recording: &'r Recording,
    plan: CutPlan,
    worker: usize,
    stop: &'r AtomicBool,
    figures: CutFigures,
}

impl CutWorker<'_> {
    fn run(mut self) -> Result<CutFigures, Box<RecoveryFailure>> {
        let mut replay = DiskReplay::new(&self.recording.operations, self.plan.defect);
        for position in 1.. {
            let operation = replay.step().map_err(|error| {
                self.failure(
                    position,
                    Survival::Everything,
                    0,
                    format!("the recording cannot be played: {error}"),
                )
            })?;
            let Some(operation) = operation else { break };
            let is_mine = operation.is_change() && position % self.plan.threads == self.worker;
            if is_mine {
                self.cut(&replay.disk, position)?;
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(self.figures)
    }

    fn cut(&mut self, disk: &MemDisk, position: usize) -> Result<(), Box<RecoveryFailure>> {
        self.figures.cuts += 1;
        let unsynced = has_unsynced(disk);
        let wanted = |survival: &Survival| unsynced || !survival.needs_unsynced();
        for survival in Survival::ALL.into_iter().filter(wanted) {
            let images = if survival == Survival::Chance { self.plan.chances } else { 1 };
            for image in 0..images {
                let seed = drawn(self.plan.seed, position, image);
                let outcome = catch_unwind(AssertUnwindSafe(|| self.recover(disk, position, survival, seed)));
                let outcome = outcome.unwrap_or_else(|_| Err("it panics".to_owned()));
                outcome.map_err(|reason| self.failure(position, survival, seed, reason))?;
            }
        }
        Ok(())
    }

    fn recover(
        &mut self,
        disk: &MemDisk,
        position: usize,
        survival: Survival,
        seed: u64,
    ) -> Result<(), String> {
        let ledger = &self.recording.ledger;
        let promise = ledger.promised(position, self.plan.defect == Some(Defect::AnsweredAtOnce));
        let image = survival.image(disk, seed);
        *self.figures.images.entry(survival).or_default() += 1;
        // After a kill the next process uses what is not synced, and may lose it later.
        if survival == Survival::Killed || self.figures.recoveries().is_multiple_of(self.plan.go_on_every) {
            self.figures.went_on += 1;
            recover_and_go_on(&image.fork(), promise, ledger)?;
            recover_interrupted(&image, promise, ledger, seed)?;
        }
        let seen = recover(&image, promise, ledger, seed)?;
        self.figures.hashes += usize::from(seen.hash_compared);
        self.figures.histories += usize::from(seen.history_compared);
        Ok(())
    }

    fn failure(
        &self,
        position: usize,
        survival: Survival,
        seed: u64,
        reason: String,
    ) -> Box<RecoveryFailure> {
        self.stop.store(true, Ordering::Relaxed);
        let last = &self.recording.operations[position.saturating_sub(SHOWN)..position];
        let trace = last.iter().map(shown).collect();
        Box::new(RecoveryFailure { position, survival, seed, reason, trace })
    }
}

/// A seed for each image.
fn drawn(seed: u64, position: usize, image: u64) -> u64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((position as u64) << 8 | image);
    random.next_u64()
}

fn shown(operation: &DiskOperation) -> String {
    match operation {
        DiskOperation::Write(file, offset, bytes) => {
            format!("Write({file}, {offset}, {} bytes)", bytes.len())
        }
        other => format!("{other:?}"),
    }
}
