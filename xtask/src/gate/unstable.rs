//! Tests of real processes that failed and passed when they were repeated, and those that were skipped, read from the
//! events of `go test -json`.
//!
//! gotestsum repeats tests. Its list of failures does not say which passed in the end, and it takes a package as passed
//! whose process ended before all its tests had run, when those that had begun pass. Both are decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;

/// A line of `go test -json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

/// A test that failed, and passed when it was repeated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unstable {
    /// Its package and its name.
    pub(super) name: String,
    /// What it and its subtests printed when it failed.
    output: String,
}

/// One run of a package.
#[derive(Default)]
struct PackageRun {
    has_failed: bool,
    /// Tests that have begun and not ended.
    open: BTreeSet<String>,
    failed: Vec<String>,
    passed: Vec<String>,
    skipped: Vec<String>,
    /// By the test that is not a subtest.
    output: BTreeMap<String, String>,
}

impl PackageRun {
    fn note(&mut self, event: Event) {
        let Event { action, test, output, .. } = event;
        if test.is_empty() {
            self.has_failed |= action == "fail";
            return;
        }
        let root = test.split('/').next().unwrap_or_default().to_owned();
        match action.as_str() {
            "run" => drop(self.open.insert(test)),
            "output" => *self.output.entry(root).or_default() += &output,
            "pass" | "skip" | "fail" => {
                self.open.remove(&test);
                match action.as_str() {
                    "skip" => self.skipped.push(test),
                    "fail" if test == root => self.failed.push(test),
                    "pass" if test == root => self.passed.push(test),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// What a run says beside that it passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Tests that failed, and passed when they were repeated.
    unstable: Vec<Unstable>,
    /// The names of tests that have not run, since something they need is not there or not asked for.
    skipped: Vec<String>,
}

/// What is found in a run whose failed tests were repeated, each alone, and which counts as passed.
///
/// # Errors
/// A failure that no repeated test explains: a process that ended before its tests did, or after they had passed.
pub(super) fn find(events: &str) -> Result<Found, String> {
    let mut packages: BTreeMap<String, Vec<PackageRun>> = BTreeMap::new();
    for line in events.lines() {
        let event: Event = serde_json::from_str(line)
            .map_err(|error| format!("not an event of `go test -json`: {error}: {line}"))?;
        if event.package.is_empty() {
            continue;
        }
        let runs = packages.entry(event.package.clone()).or_default();
        if event.action == "start" || runs.is_empty() {
            runs.push(PackageRun::default());
        }
        if let Some(run) = runs.last_mut() {
            run.note(event);
        }
    }
    let (mut unstable, mut skipped) = (Vec::new(), Vec::new());
    for (package, runs) in packages {
        let Some((first, repeated)) = runs.split_first() else { continue };
        let folder = package.rsplit('/').next().unwrap_or_default();
        skipped.extend(first.skipped.iter().map(|test| format!("{folder}.{test}")));
        if first.has_failed {
            unstable.extend(explained(&package, first, repeated)?);
        }
    }
    Ok(Found { unstable, skipped })
}

/// The tests by which a package failed at first.
fn explained(package: &str, first: &PackageRun, repeated: &[PackageRun]) -> Result<Vec<Unstable>, String> {
    if let Some(test) = first.open.first() {
        return Err(format!(
            "the process of {package} ended during {test}; tests behind it may not have run"
        ));
    }
    if first.failed.is_empty() {
        return Err(format!("{package} failed, and none of its tests did"));
    }
    let unstable = |test: &String| {
        let name = format!("{package}.{test}");
        if !repeated.iter().any(|run| run.passed.contains(test)) {
            return Err(format!("{name} failed, and did not pass when it was repeated"));
        }
        Ok(Unstable { name, output: first.output.get(test).cloned().unwrap_or_default() })
    };
    first.failed.iter().map(unstable).collect()
}

/// What is printed at the end of the step; empty if there is nothing to say.
pub(super) fn report(Found { unstable: tests, skipped }: &Found) -> String {
    let mut report = String::new();
    if !skipped.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(report, "skipped: {} tests of processes: {}", skipped.len(), skipped.join(", "));
    }
    let frame = "!".repeat(100);
    for Unstable { name, output } in tests {
        let _ =
            writeln!(report, "{frame}\nunstable: {name} failed, and passed when it was repeated:\n{output}");
    }
    if !tests.is_empty() {
        let _ = writeln!(
            report,
            "{frame}\n{} unstable: each is a defect to correct, of the test or of what it tests",
            tests.len()
        );
        for test in tests {
            let _ = writeln!(report, "unstable: {}", test.name);
        }
        let _ = writeln!(report, "{frame}");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of runs of package `p`; `action:test` or `action` each.
    fn events(words: &str) -> String {
        let mut lines = String::new();
        for word in words.split_whitespace() {
            let (action, test) = word.split_once(':').unwrap_or((word, ""));
            let output =
                if action == "output" { format!(r#","Output":"of {test}\n""#) } else { String::new() };
            let test = if test.is_empty() { String::new() } else { format!(r#","Test":"{test}""#) };
            lines += &format!("{{\"Action\":\"{action}\",\"Package\":\"p\"{test}{output}}}\n");
        }
        lines
    }

    #[test]
    fn a_test_that_passes_when_it_is_repeated_is_found_with_what_it_printed() {
        let found =
            find(&events("start run:A run:A/1 output:A/1 fail:A/1 fail:A fail start run:A pass:A pass"))
                .unwrap();
        let report = report(&found);
        assert!(report.contains("unstable: p.A failed") && report.contains("of A/1\n"), "{report}");
        assert!(report.contains("1 unstable"), "{report}");
    }

    #[test]
    fn skipped_tests_are_named_in_one_line() {
        let found =
            find(&events("start run:A pass:A run:B skip:B run:C run:C/1 skip:C/1 pass:C pass")).unwrap();
        assert_eq!(report(&found), "skipped: 2 tests of processes: p.B, p.C/1\n");
        assert_eq!(report(&find(&events("start run:A pass:A pass")).unwrap()), "");
    }

    #[test]
    fn a_failure_that_no_repeated_test_explains_stays_one() {
        // It fails again, or was not repeated.
        assert!(find(&events("start run:A fail:A fail start run:A fail:A fail")).is_err());
        assert!(find(&events("start run:A fail:A run:B fail:B fail start run:A pass:A pass")).is_err());
        // The process ended in a test, and gotestsum repeated that test alone, or none.
        let error = find(&events("start run:A run:B fail start run:B pass:B pass")).unwrap_err();
        assert!(error.contains("ended during A"), "{error}");
        // It ended with an error after its tests.
        let error = find(&events("start run:A pass:A fail start pass")).unwrap_err();
        assert!(error.contains("none of its tests did"), "{error}");
        assert!(find("ok  p 1.0s").is_err());
    }
}
