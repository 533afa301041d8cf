//! The gate: every rule of this repository that a machine can check, in the order of what fails cheapest.
//!
//! A step is a name, a sentence on what it proves, a function, and what to do when it fails. The first failure ends
//! the run. The background builds what later steps compile, see [`ahead`]:
//!
//! ```text
//! steps       fmt tidy ... clippy | docs | test ........ | simulation | parallel | processes
//! background              builds of simulation, parallel, processes
//! ```

mod ahead;
mod checks;
mod licences;
mod outside;
mod processes;
mod releases;
mod table;
mod unstable;

use crate::command::Outcome;
use crate::steps::Times;
use ahead::Ahead;
pub(crate) use checks::{clippy, fmt};
use table::{LONG_STEPS, STEPS, Step};

/// The first step that compiles. What is wrong before it is found in seconds, and not worth a build.
const FIRST_BUILD: &str = "clippy";

/// Runs the steps named in `only` (all when it is empty), and with `long` those that a change need not wait
/// for.
pub(crate) fn run(only: &[String], long: bool) -> Outcome {
    let steps = chosen(only, long)?;
    let mut times = Times::default();
    let mut ahead: Option<Ahead> = None;
    for (index, step) in steps.iter().enumerate() {
        if step.name == FIRST_BUILD {
            ahead = Some(Ahead::start(&steps[index..])?);
        }
        let build_and_run = || {
            if let Some(ahead) = ahead.as_mut() {
                ahead.wait_for(step.name);
            }
            (step.run)()
        };
        times.run(step.name, step.proves, step.remedy, build_and_run)?;
    }
    eprint!("{}", times.table());
    eprintln!("gate passed: {} steps", steps.len());
    Ok(())
}

fn chosen(only: &[String], long: bool) -> Result<Vec<&'static Step>, String> {
    let all = || STEPS.iter().chain(LONG_STEPS.iter());
    if let Some(unknown) = only.iter().find(|name| all().all(|step| step.name != **name)) {
        let names = all().map(|step| step.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no step {unknown:?}; there are: {names}"));
    }
    let asked = |step: &&Step| only.iter().any(|name| name == step.name);
    Ok(match (only.is_empty(), long) {
        (true, true) => all().collect(),
        (true, false) => STEPS.iter().collect(),
        (false, _) => all().filter(asked).collect(),
    })
}
