//! The simulator: whole clusters of the product's own log, store, consensus and member code in one thread, from one
//! seed.
//!
//! It is the main test of this project. One run goes from a seed to a verdict like this:
//!
//! ```text
//! seed 42
//!   | plan/             draws the plan: 3 members, 16 KiB segments, 9 clients, faults with their times
//!   v
//! simulation/           t = 0      Start member 0, 1, 2                     opens them on disks in memory
//!   takes the next      t = 0.8 s  MemberStep 1: inputs in, decision out    -> frames, write jobs, answers
//!   event of the queue  t = 0.8 s  WriteLog 1, Deliver 1 -> 0, ...          after delays that are drawn
//!   and handles it,     t = 1.4 s  FaultDue 3: power loss of member 0       unsynced writes are lost or torn
//!   with the parts in   t = 1.9 s  Start member 0                           recovery; its disk is checked
//!   world/              t = 19 s   FaultsStop, FinalWrites, CheckConvergence, FinalRead
//!   |
//!   +--> checks/        each frame, answer, event and disk is held against the invariants, one a file
//!   +--> report/        each event goes into the trace hash; faults and operations are counted
//!   v
//! verdict               Ok: trace hash 812ad49a..., 41746 events, 14379 answers checked
//!                       or the first violation: check, text, the last events
//! ```
//!
//! The same seed gives the same run, event by event: time is a queue, randomness is one generator per concern, nothing
//! iterates over a hash map. A failing seed is followed in three steps:
//!
//! ```text
//! sim --seed 42                     FAILED: strict serializability: a read was answered at 17 (it must see 18) ...
//! sim --seed 42 --shrink            2 faults are left; repeat it with: --seed 42 --faults 3,11
//! sim --seed 42 --faults 3,11 --trace   every event with a text, so that one reads backwards from the violation
//! ```
//!
//! `campaign/` runs many seeds on several threads. [`Defect`] names deliberate mistakes, each of which the checks must
//! notice. `docs/internals/simulation.md` says what is simulated, what is checked, and what is not.

mod campaign;
mod checks;
mod defects;
mod plan;
mod report;
mod rng;
mod simulation;
mod world;

pub use campaign::{NoticedDefect, replay, run_defects, run_seeds, shrink_seed};
pub use defects::Defect;
pub use report::figures::CampaignFigures;
