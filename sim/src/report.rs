//! What a person reads: the trace of a run, its failure, its numbers.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::coverage::Coverage;

/// Lines of a failing run that are shown: what led to it is rarely further back.
const TRACE_LINES: usize = 120;

/// What broke.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// The check that noticed.
    pub(crate) check: &'static str,
    /// What it saw.
    pub(crate) text: String,
}

impl Violation {
    /// An error result, for the end of a check.
    pub(crate) fn err<T>(check: &'static str, text: impl Into<String>) -> Result<T, Violation> {
        Err(Violation { check, text: text.into() })
    }
}

/// The events of a run: a hash over all, and the last ones as text.
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    lines: VecDeque<String>,
    /// Print every line as it comes.
    pub(crate) verbose: bool,
}

impl Trace {
    /// An empty trace.
    pub(crate) fn new() -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, events: 0, lines: VecDeque::new(), verbose: false }
    }

    /// Adds numbers that describe an event to the hash.
    pub(crate) fn mix(&mut self, numbers: &[u64]) {
        self.events += 1;
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    /// Adds a line worth reading.
    pub(crate) fn line(&mut self, at_ns: u64, text: impl Into<String>) {
        let text = text.into();
        let line = format!("{:>10.4} s  {text}", at_ns as f64 / 1e9);
        self.mix(&[u64::from(crc32c::crc32c(line.as_bytes()))]);
        if self.verbose {
            println!("{line}");
        }
        if self.lines.len() == TRACE_LINES {
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

/// How one run went.
pub(crate) struct RunReport {
    /// The seed.
    pub(crate) seed: u64,
    /// Hash over all events: equal for equal seeds.
    pub(crate) trace_hash: u64,
    /// Events.
    pub(crate) events: u64,
    /// Nanoseconds simulated.
    pub(crate) simulated_ns: u64,
    /// Answers that were checked.
    pub(crate) checked: u64,
    /// Faults and what they met.
    pub(crate) coverage: Coverage,
    /// Planned faults, of which a shrunk run keeps some.
    pub(crate) faults: usize,
    /// Whether it is one of the long runs.
    pub(crate) long: bool,
    /// What broke, if anything did.
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

    /// The failure as a person wants it: seed, commit, what broke, the end of the trace.
    pub(crate) fn failure_text(&self, commit: &str) -> Option<String> {
        let violation = self.violation.as_ref()?;
        Some(format!(
            "FAILED seed {} at commit {commit}\n{}: {}\nthe last events:\n{}repeat it with: cargo run -p sim -- \
             --seed {}\ncut it down with: cargo run -p sim -- --seed {} --shrink\n",
            self.seed, violation.check, violation.text, self.trace, self.seed, self.seed
        ))
    }
}
