//! One run, from its seed to its report.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::plan::draw_plan;
use crate::report::trace::{RunReport, Violation};
use crate::simulation::state::{RunSettings, Simulation};

/// Runs a seed.
pub(super) fn run_seed(seed: u64, settings: &RunSettings) -> RunReport {
    catch_panic(Simulation::new(draw_plan(seed), settings), |run| run.run(settings.faults.as_deref()))
}

/// Runs a simulation. A panic of the product is a violation like any other: the trace shows what led to it.
fn catch_panic(
    mut simulation: Simulation,
    handle: impl FnOnce(&mut Simulation) -> Result<(), Violation>,
) -> RunReport {
    let outcome = catch_unwind(AssertUnwindSafe(|| handle(&mut simulation)));
    let violation = match outcome {
        Ok(outcome) => outcome.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let text = text.unwrap_or_else(|| "without a text".to_owned());
            Some(Violation { check: "no panic", text })
        }
    };
    simulation.report(violation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_shows_what_led_to_it() {
        let simulation = Simulation::new(draw_plan(1), &RunSettings::default());
        let report = catch_panic(simulation, |simulation| {
            simulation.now_ns = 7;
            simulation.trace.line(7, "m0 is about to panic");
            panic!("on purpose")
        });
        let text = report.failure_text("here").expect("it failed");
        assert!(text.contains("no panic: on purpose") && text.contains("m0 is about to panic"), "{text}");
        assert!(text.contains("BROKEN no panic") && report.faults > 0, "{text}");
    }
}
