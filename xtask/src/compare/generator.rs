//! The load generators: etcd's own `benchmark`, and `tests/load` for what it cannot express.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::figures::Figures;

/// A load that is not through by then has collapsed; what was measured until then is lost.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// How often a generator is asked whether it has ended. It reports its own times, so this adds nothing to
/// them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Program {
    Benchmark,
    Load,
}

impl Program {
    fn binary(self) -> &'static str {
        match self {
            Self::Benchmark => "benchmark",
            Self::Load => "load",
        }
    }
}

/// A command line of a generator, without the endpoints.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) program: Program,
    /// Keys among them are any bytes.
    pub(super) arguments: Vec<OsString>,
    /// Whether the generator sends at a fixed rate; then its throughput says nothing about the system.
    pub(super) has_fixed_rate: bool,
}

impl Load {
    /// Runs it to its end and returns what the generator saw.
    pub(super) fn drive(&self, tools: &Path, folder: &Path, endpoints: &str) -> Result<Figures, String> {
        let output = folder.join("generator.out");
        let errors = folder.join("generator.err");
        let create =
            |path: &Path| File::create(path).map_err(|error| format!("cannot create a file: {error}"));
        let mut command = Command::new(tools.join(self.program.binary()));
        command.args(&self.arguments).arg(format!("--endpoints={endpoints}")).stdin(Stdio::null());
        command.stdout(create(&output)?).stderr(create(&errors)?);
        let words = self.arguments.join(OsStr::new(" "));
        let named = || format!("{} {}", self.program.binary(), words.to_string_lossy());
        let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", named()))?;
        let status = wait(child).map_err(|error| format!("{}: {error}", named()))?;
        let text = fs::read_to_string(&output).unwrap_or_default();
        if !status.success() {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            let last = said.lines().last().unwrap_or("").to_owned();
            return Err(format!("{} failed ({status}): {last}", named()));
        }
        let mut figures = match self.program {
            Program::Benchmark => read_benchmark(&text)?,
            Program::Load => read_load(&text)?,
        };
        if self.has_fixed_rate {
            figures.per_second = None;
        }
        Ok(figures)
    }
}

fn wait(mut child: Child) -> Result<ExitStatus, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begin.elapsed() < TIME_LIMIT => thread::sleep(POLL_INTERVAL),
            outcome => {
                // It is given up either way; whether it could still be killed makes no difference.
                let _ = child.kill();
                let _ = child.wait();
                return Err(outcome
                    .err()
                    .map_or("not through in time".to_owned(), |error| error.to_string()));
            }
        }
    }
}

/// Reads the last summary that `benchmark` prints (of a watch, the one about events).
pub(super) fn read_benchmark(text: &str) -> Result<Figures, String> {
    let number = |words: &str| words.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    let after =
        |name: &str| text.lines().rev().find_map(|line| line.trim().strip_prefix(name)).and_then(number);
    let latency = |percent: &str| after(&format!("{percent}% in ")).map(|seconds| seconds * 1000.0);
    let errors: Vec<(u64, &str)> = text.lines().filter_map(error_line).collect();
    let per_second = after("Requests/sec:");
    if per_second.is_none() && errors.is_empty() {
        return Err(format!("benchmark printed no summary: {text:?}"));
    }
    let seconds = after("Total:").unwrap_or(0.0);
    Ok(Figures {
        requests: (per_second.unwrap_or(0.0) * seconds).round() as u64,
        errors: errors.iter().map(|(count, _)| count).sum(),
        first_error: errors.first().map(|(_, message)| (*message).to_owned()),
        per_second,
        p50_ms: latency("50"),
        p99_ms: latency("99"),
        p999_ms: latency("99.9"),
        ..Figures::default()
    })
}

/// A line of the error distribution: `  [3]\tmessage`. Those of the histogram have a number before the
/// bracket.
fn error_line(line: &str) -> Option<(u64, &str)> {
    let (count, message) = line.trim_start().strip_prefix('[')?.split_once("]\t")?;
    Some((count.parse().ok()?, message))
}

#[derive(Deserialize)]
struct Summary {
    requests: u64,
    errors: u64,
    first_error: Option<String>,
    seconds: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
}

/// Reads the object that `load` prints.
pub(super) fn read_load(text: &str) -> Result<Figures, String> {
    let summary: Summary =
        serde_json::from_str(text).map_err(|error| format!("cannot read what load printed: {error}"))?;
    let succeeded = summary.requests > 0;
    let figure = |value: f64| succeeded.then_some(value);
    Ok(Figures {
        requests: summary.requests,
        errors: summary.errors,
        first_error: summary.first_error,
        per_second: figure(summary.requests as f64 / summary.seconds),
        p50_ms: figure(summary.p50_ms),
        p99_ms: figure(summary.p99_ms),
        p999_ms: figure(summary.p999_ms),
        ..Figures::default()
    })
}
