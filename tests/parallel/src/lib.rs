//! The parallel parts of the product under shuttle: a scheduler that runs threads in one order after another, switching
//! at every lock. docs/internals/parallel.md lists what is explored.
//!
//! Each scenario runs the product's own code and asserts what must hold in every order; a deadlock is a failure too.
//! Each has a companion with one deliberate defect, which must fail in some order.

#![cfg(test)]
#![allow(dead_code, reason = "of a copied source each scenario uses its part")]

mod addresses;
mod input_queue;
mod tail;
mod watch;
mod worker_queues;
mod write_queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Orders tried of each sort.
const ORDERS: usize = 2_000;
/// Switches of a thread at an unlucky moment in one order of the second sort (PCT).
const DEPTH: usize = 3;
/// Seeds both sorts: every run tries the same orders.
const SEED: u64 = 0x0057_E1E0;
/// Stacks of the product's own calls without optimisation.
const STACK_BYTES: usize = 512 << 10;

/// Later than any test: here it never comes.
fn never() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// Makes segments ready until an entry with this length of payload fits.
fn make_room(log: &mut log::Log, payload_bytes: usize) {
    let mut sizes = log::RecordSizes::default();
    sizes.add_entry(payload_bytes as u64);
    while !log.make_room(&sizes, None) {
        let job = log.next_job().expect("a segment is to be made ready");
        log.background_done(job.run()).expect("the disk is well");
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    config
}

/// The scenario holds in every order tried.
fn holds(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    Runner::new(RandomScheduler::new_from_seed(SEED, ORDERS), config()).run(scenario.clone());
    Runner::new(PctScheduler::new_from_seed(SEED, DEPTH, ORDERS), config()).run(scenario);
}

/// Some order shows that the scenario is broken.
fn fails(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    let caught = catch_unwind(AssertUnwindSafe(|| holds(scenario)));
    assert!(caught.is_err(), "no order showed the defect");
}
