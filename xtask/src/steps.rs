//! Steps of a task: what each proves, what to do when it fails, and how long it took.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::command::Outcome;

/// How long each step of a run took.
#[derive(Default)]
pub(crate) struct Times {
    steps: Vec<(String, Duration)>,
}

impl Times {
    /// Runs a step, with a line before and after it.
    ///
    /// # Errors
    /// The step's own, with its `remedy`.
    pub(crate) fn run(
        &mut self,
        name: &str,
        proves: &str,
        remedy: &str,
        step: impl FnOnce() -> Outcome,
    ) -> Outcome {
        eprintln!("[{name}] {proves}");
        let begin = Instant::now();
        let outcome = step();
        let took = begin.elapsed();
        self.steps.push((name.to_owned(), took));
        let seconds = took.as_secs_f64();
        match outcome {
            Ok(()) => {
                eprintln!("[{name}] ok in {seconds:.1} s");
                Ok(())
            }
            Err(reason) => {
                Err(format!("step {name} failed after {seconds:.1} s: {reason}\nwhat to do: {remedy}"))
            }
        }
    }

    /// One line for each step, the slowest first, and the sum.
    pub(crate) fn table(&self) -> String {
        let mut steps: Vec<&(String, Duration)> = self.steps.iter().collect();
        steps.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let sum: Duration = steps.iter().map(|(_, took)| *took).sum();
        let mut table = String::new();
        let all = ("all".to_owned(), sum);
        for (name, took) in steps.into_iter().chain([&all]) {
            // Writing to a string does not fail.
            let _ = writeln!(table, "{name:12} {:>7.1} s", took.as_secs_f64());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_step_comes_first_and_the_sum_last() {
        let step = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
        let times = Times { steps: vec![step("fmt", 1), step("test", 60), step("docs", 20)] };
        let names: Vec<String> = times.table().lines().map(|line| line[..5].trim().to_owned()).collect();
        assert_eq!(names, ["test", "docs", "fmt", "all"]);
        assert!(times.table().ends_with("   81.0 s\n"));
    }

    #[test]
    fn a_failure_names_the_step_and_the_remedy() {
        let mut times = Times::default();
        let error = times.run("fmt", "it is formatted", "format it", || Err("no".to_owned())).unwrap_err();
        assert!(error.starts_with("step fmt failed after") && error.ends_with("no\nwhat to do: format it"));
    }
}
