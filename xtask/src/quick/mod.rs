//! `cargo xtask quick`: what a change of a few crates can break, in about a minute.
//!
//! The crates that changed since the merge base with main (or those that are named) are tested together with all that
//! depend on them. Cargo is always asked for the whole workspace, so that it builds with the features of the gate and
//! finds what it built before; of the tests, only those of the chosen crates run. The tests of the simulator and of
//! power loss are left out, since they are slow without optimization; where the deterministic core is concerned, two
//! seeds run instead. What else the gate proves is not proven here.

mod choice;
mod tests_of;

use std::collections::BTreeSet;

use crate::command::Outcome;
use crate::steps::Times;
use crate::{arrows, gate, metadata, tidy};

use tests_of::Executables;

/// Crates whose behaviour the simulator's seeds show.
const SIMULATED: &[&str] = &["stele-log", "stele-store", "stele-consensus", "stele-member", "sim"];

/// Checks the crates `named`, or those that changed. A step that fails does not keep the others from running, so that
/// one run finds all that is wrong.
pub(crate) fn run(named: &[String]) -> Outcome {
    let metadata = metadata::read()?;
    let choice = choice::of(&metadata, named)?;
    eprint!("{choice}");
    let mut times = Times::default();
    let mut outcomes = vec![
        times.run("fmt", "the code is formatted", "run `cargo fmt --all`", gate::fmt),
        times.run(
            "tidy",
            "files follow the rules about text",
            "each line names file, line and rule",
            tidy::run,
        ),
        times.run(
            "arrows",
            "crates and files know what they may",
            "break the cycle or the arrow",
            arrows::run,
        ),
    ];
    if !choice.tested.is_empty() {
        outcomes.push(times.run("clippy", "no warnings", "do as clippy says", gate::clippy));
        outcomes.push(run_tests(&choice.tested, &mut times));
    }
    eprint!("{}", times.table());
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        eprintln!("quick passed; `cargo xtask ci` is the whole gate");
        return Ok(());
    }
    Err(failures.join("\n"))
}

fn run_tests(crates: &BTreeSet<String>, times: &mut Times) -> Outcome {
    let mut executables = Executables::default();
    let build = || {
        executables = tests_of::build()?;
        Ok(())
    };
    times.run("build", "the tests compile", "do as the compiler says", build)?;
    let test = || executables.run(crates);
    times.run(
        "test",
        "the tests of the chosen crates pass",
        "repeat it with `cargo test -p CRATE NAME`",
        test,
    )?;
    if crates.iter().any(|name| SIMULATED.contains(&name.as_str())) {
        let remedy = "repeat the failing seed as docs/internals/simulation.md says";
        times
            .run("seeds", "two simulated clusters keep every promise", remedy, || executables.run_seeds())?;
    }
    Ok(())
}
