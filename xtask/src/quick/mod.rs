//! `cargo xtask quick`: what a change of a few crates can break, in about a minute.
//!
//! The crates that changed since the merge base with main (or those that are named) are tested together with all that
//! depend on them. Cargo is always asked for the whole workspace, so that it builds with the features of the gate and
//! finds what it built before; of the tests, only those of the chosen crates run. The simulator's tests are left out,
//! since they are slow without optimization; where the deterministic core is concerned, a few of its seeds run
//! instead. What else the gate proves is not proven here.

mod choice;
mod tests_of;

use crate::command::Outcome;
use crate::steps::Times;
use crate::{arrows, gate, metadata, tidy};

use tests_of::Executables;

/// Crates whose behaviour the simulator's seeds show.
const SIMULATED: &[&str] = &["stele-log", "stele-store", "stele-consensus", "stele-member", "sim"];

/// Checks the crates `named`, or those that changed.
pub(crate) fn run(named: &[String]) -> Outcome {
    let metadata = metadata::read()?;
    let choice = choice::of(&metadata, named)?;
    eprint!("{choice}");
    let mut times = Times::default();
    let remedy = "`cargo fmt --all`";
    times.run("fmt", "the code is formatted", remedy, gate::fmt)?;
    times.run(
        "tidy",
        "files follow the rules about text",
        "each line names file, line and rule",
        tidy::run,
    )?;
    times.run(
        "arrows",
        "crates and files know what they may",
        "break the cycle or the arrow",
        arrows::run,
    )?;
    if !choice.tested.is_empty() {
        times.run("clippy", "no warnings", "as clippy says", gate::clippy)?;
        let mut executables = Executables::default();
        let build = || {
            executables = tests_of::build()?;
            Ok(())
        };
        times.run("build", "the tests compile", "as the compiler says", build)?;
        let run = || executables.run(&choice.tested);
        times.run("test", "the tests of the chosen crates pass", "`cargo test -p CRATE NAME`", run)?;
        if choice.tested.iter().any(|name| SIMULATED.contains(&name.as_str())) {
            let remedy = "repeat the failing seed as docs/internals/simulation.md says";
            times.run("seeds", "a few simulated clusters keep every promise", remedy, || {
                executables.run_seeds()
            })?;
        }
    }
    eprint!("{}", times.table());
    eprintln!("quick passed; `cargo xtask ci` is the whole gate");
    Ok(())
}
