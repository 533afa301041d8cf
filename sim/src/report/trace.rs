//! The trace of a run, and its report.
//!
//! Every event adds a few numbers to the trace hash: its kind, its time, members, lengths. So two runs that differ in
//! one event have different hashes, and a change that claims to change no behaviour keeps the hash of every seed. Text
//! is not part of the hash: messages may be reworded.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::coverage::Coverage;

/// Last lines that a report shows: the cause of a failure is rarely further back.
const MAX_TRACE_LINES: usize = 120;

/// A check that failed.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Name of the check.
    pub(crate) check: &'static str,
    /// What it found.
    pub(crate) text: String,
}

impl Violation {
    /// A failed check, as a result.
    pub(crate) fn err<T>(check: &'static str, text: impl Into<String>) -> Result<T, Violation> {
        Err(Violation { check, text: text.into() })
    }
}

/// The events of a run.
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    lines: VecDeque<String>,
    /// Print every line as it is written.
    verbose: bool,
}

impl Trace {
    /// An empty trace.
    pub(crate) fn new(verbose: bool) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, events: 0, lines: VecDeque::new(), verbose }
    }

    /// Adds an event to the hash, as numbers that describe it.
    pub(crate) fn mix(&mut self, numbers: &[u64]) {
        self.events += 1;
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// Adds an event with a line of text. Its time alone goes into the hash.
    pub(crate) fn line(&mut self, at_ns: u64, text: impl Into<String>) {
        let text = text.into();
        let line = format!("{:>10.4} s  {text}", at_ns as f64 / 1e9);
        self.mix(&[at_ns]);
        if self.verbose {
            println!("{line}");
        }
        if self.lines.len() == MAX_TRACE_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The hash over everything so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "  {line}");
            text
        })
    }
}

/// The report of one run.
pub(crate) struct RunReport {
    /// The seed.
    pub(crate) seed: u64,
    /// Hash over all events: equal for equal seeds.
    pub(crate) trace_hash: u64,
    /// Events.
    pub(crate) events: u64,
    /// Simulated time.
    pub(crate) simulated_ns: u64,
    /// Answers that were checked.
    pub(crate) checked: u64,
    /// Which fault struck during which operation.
    pub(crate) coverage: Coverage,
    /// Number of planned faults.
    pub(crate) faults: usize,
    /// Whether it was a long run.
    pub(crate) long: bool,
    /// The check that failed, if one did.
    pub(crate) violation: Option<Violation>,
    /// The last events as text.
    pub(crate) trace: String,
}

impl RunReport {
    /// Takes the numbers of a finished run.
    pub(crate) fn new(seed: u64, trace: &Trace, simulated_ns: u64) -> RunReport {
        RunReport {
            seed,
            trace_hash: trace.hash(),
            events: trace.events(),
            simulated_ns,
            checked: 0,
            coverage: Coverage::default(),
            faults: 0,
            long: false,
            violation: None,
            trace: trace.text(),
        }
    }

    /// The failure as text: seed, commit, violation, and the end of the trace.
    pub(crate) fn failure_text(&self, commit: &str) -> Option<String> {
        let violation = self.violation.as_ref()?;
        Some(format!(
            "FAILED seed {} at commit {commit}\n{}: {}\nthe last events:\n{}repeat it with: cargo run -p sim -- \
             --seed {}\ncut it down with: cargo run -p sim -- --seed {} --shrink\n",
            self.seed, violation.check, violation.text, self.trace, self.seed, self.seed
        ))
    }
}
