//! The simulator: whole clusters of the product's own log, store, consensus and member code in one thread,
//! thousands of
//! times faster than real time, from one seed.
//!
//! It is the main test of this project. A seed draws a plan (sizes, speeds, requests, faults), a loop over
//! simulated time
//! carries it out, and checks look at everything that members show to each other, to clients and to their
//! disks. The
//! same seed gives the same run, event by event. What is simulated and what is checked:
//! `docs/internals/simulation.md`.
//!
//! It must be able to fail: [`Defect`] lists mistakes made on purpose, each of which it notices.

mod campaign;
mod checks;
mod clients;
mod clock;
mod cluster;
mod coverage;
mod defects;
mod disk;
mod faults;
mod figures;
mod network;
mod plan;
mod process;
mod queue;
mod report;
mod rng;
mod shrink;
mod workers;

pub use campaign::{Noticed, replay, run_defects, run_seeds, shrink};
pub use defects::Defect;
pub use figures::Figures;
