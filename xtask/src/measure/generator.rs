//! The load generators: etcd's own `benchmark`, Stele's in its place, and `tests/load` for what they cannot express.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::cluster::on_core;
use super::figures::Figures;

/// How long a load may take if it does not say otherwise.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// How often a generator is asked whether it has ended. It reports its own times, so this adds nothing to
/// them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
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
pub(crate) struct Load {
    pub(crate) program: Program,
    /// Stele's binary, which makes the load instead of `benchmark`.
    pub(crate) stele: Option<PathBuf>,
    /// Keys among them are any bytes.
    pub(crate) arguments: Vec<OsString>,
    /// Whether the generator sends at a fixed rate; then its throughput says nothing about the system.
    pub(crate) has_fixed_rate: bool,
    /// A load that is not through by then has collapsed; what was measured until then is lost.
    pub(crate) time_limit: Duration,
    /// The one core on which the generator runs; `None` is all of them.
    pub(crate) core: Option<usize>,
}

impl Load {
    /// A load of etcd's `benchmark`, as one would type it.
    pub(crate) fn benchmark(line: &str) -> Self {
        Self::new(Program::Benchmark, &format!("{line} --precise"))
    }

    /// A load of `tests/load`, as one would type it.
    pub(crate) fn ours(line: &str) -> Self {
        Self::new(Program::Load, line)
    }

    /// The load that puts keys 0 to `count`, each once, with values of so many bytes.
    pub(crate) fn fill(count: u64, value_size: u64) -> Self {
        let keys = format!("put --sequential-keys --key-space-size={count} --total={count}");
        Self::benchmark(&format!("{keys} --val-size={value_size} --conns=100 --clients=1000"))
    }

    /// The same load, made by Stele's generator, if one is given and `benchmark` would make it.
    pub(crate) fn made_by(self, stele: Option<&Path>) -> Self {
        let stele = stele.filter(|_| self.program == Program::Benchmark).map(Path::to_owned);
        Self { stele, ..self }
    }

    fn new(program: Program, line: &str) -> Self {
        let arguments = line.split(' ').map(OsString::from).collect();
        let (stele, core) = (None, None);
        Self { program, stele, arguments, has_fixed_rate: false, time_limit: TIME_LIMIT, core }
    }

    /// Runs it to its end and returns what the generator saw. `reach` are the flags that name the cluster.
    pub(crate) fn drive(&self, tools: &Path, folder: &Path, reach: &[String]) -> Result<Figures, String> {
        let output = folder.join("generator.out");
        let errors = folder.join("generator.err");
        let create =
            |path: &Path| File::create(path).map_err(|error| format!("cannot create a file: {error}"));
        let result = folder.join("generator.json");
        let mut line = on_core(self.core);
        match &self.stele {
            Some(stele) => {
                line.push(stele.into());
                line.extend(["bench".to_owned(), format!("--json={}", result.display())].map(OsString::from));
            }
            None => line.push(tools.join(self.program.binary()).into()),
        }
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(&self.arguments).args(reach).stdin(Stdio::null());
        command.stdout(create(&output)?).stderr(create(&errors)?);
        let words = self.arguments.join(OsStr::new(" "));
        let named = || format!("{} {}", self.program.binary(), words.to_string_lossy());
        let child = command.spawn().map_err(|error| format!("cannot run {}: {error}", named()))?;
        let status = wait(child, self.time_limit).map_err(|error| format!("{}: {error}", named()))?;
        let text = fs::read_to_string(&output).unwrap_or_default();
        if !status.success() {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            let last = said.lines().last().unwrap_or("").to_owned();
            return Err(format!("{} failed ({status}): {last}", named()));
        }
        let mut figures = match self.program {
            Program::Benchmark if self.stele.is_some() => {
                read_stele(&fs::read_to_string(&result).unwrap_or_default())?
            }
            Program::Benchmark => read_benchmark(&text)?,
            Program::Load => read_load(&text)?,
        };
        if self.has_fixed_rate {
            figures.per_second = None;
        }
        Ok(figures)
    }
}

fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus, String> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begin.elapsed() < limit => thread::sleep(POLL_INTERVAL),
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

/// The percentages that `benchmark` tells.
const PRINTED: [&str; 8] = ["10", "25", "50", "75", "90", "95", "99", "99.9"];

/// Reads the last summary that `benchmark` prints (of a watch, the one about events).
pub(crate) fn read_benchmark(text: &str) -> Result<Figures, String> {
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
        percentiles: PRINTED
            .iter()
            .filter_map(|percent| Some((percent.parse().ok()?, latency(percent)?)))
            .collect(),
        ..Figures::default()
    })
}

/// A line of the error distribution: `  [3]\tmessage`. Those of the histogram have a number before the
/// bracket.
fn error_line(line: &str) -> Option<(u64, &str)> {
    let (count, message) = line.trim_start().strip_prefix('[')?.split_once("]\t")?;
    Some((count.parse().ok()?, message))
}

/// What `stele bench --json` writes, as far as it is shown.
#[derive(Deserialize)]
struct BenchResult {
    phases: Vec<BenchPhase>,
}

#[derive(Deserialize)]
struct BenchPhase {
    requests: u64,
    errors: BTreeMap<String, u64>,
    per_second: f64,
    slowest_ms: f64,
    percentiles: Vec<(f64, f64)>,
    #[serde(default)]
    since_taken: Vec<(f64, f64)>,
    #[serde(default)]
    missed: u64,
}

/// Reads the last phase of a result of Stele's generator.
pub(crate) fn read_stele(text: &str) -> Result<Figures, String> {
    let result: BenchResult =
        serde_json::from_str(text).map_err(|error| format!("cannot read what stele bench wrote: {error}"))?;
    let phase = result.phases.into_iter().last().ok_or("stele bench measured nothing")?;
    let succeeded = phase.requests > 0;
    let of = |percentiles: &[(f64, f64)], wanted: f64| {
        percentiles.iter().find(|(percent, _)| *percent == wanted).map(|(_, ms)| *ms)
    };
    let latency = |percent: f64| of(&phase.percentiles, percent).filter(|_| succeeded);
    Ok(Figures {
        requests: phase.requests,
        errors: phase.errors.values().sum(),
        first_error: phase.errors.keys().next().cloned(),
        per_second: succeeded.then_some(phase.per_second),
        p50_ms: latency(50.0),
        p99_ms: latency(99.0),
        p999_ms: latency(99.9),
        free_p99_ms: of(&phase.since_taken, 99.0).filter(|_| succeeded),
        missed: (!phase.since_taken.is_empty()).then_some(phase.missed),
        worst_ms: succeeded.then_some(phase.slowest_ms),
        percentiles: if succeeded { phase.percentiles } else { Vec::new() },
        ..Figures::default()
    })
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
    worst_ms: f64,
}

/// Reads the object that `load` prints.
pub(crate) fn read_load(text: &str) -> Result<Figures, String> {
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
        worst_ms: figure(summary.worst_ms),
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCHMARK: &str = "
Summary:
  Total:\t2.5 secs.
  Slowest:\t0.04 secs.
  Requests/sec:\t400

Response time histogram:
  0.0012 [1]\t|
  0.0023 [999]\t|****

Latency distribution:
  50% in 0.0015 secs.
  99% in 0.02 secs.
  99.9% in 0.04 secs.

Error distribution:
  [3]\tetcdserver: request timed out
  [2]\tetcdserver: too many requests
";

    #[test]
    fn a_summary_of_benchmark_is_read() {
        let figures = read_benchmark(BENCHMARK).unwrap();
        assert_eq!((figures.requests, figures.errors), (1000, 5));
        assert_eq!(figures.first_error.as_deref(), Some("etcdserver: request timed out"));
        assert_eq!(figures.per_second, Some(400.0));
        assert_eq!((figures.p50_ms, figures.p99_ms, figures.p999_ms), (Some(1.5), Some(20.0), Some(40.0)));
    }

    #[test]
    fn a_result_of_our_generator_is_read() {
        let phase = r#"{"requests":4,"errors":{"gone":2},"per_second":8.0,"slowest_ms":3.0,
            "percentiles":[[50.0,1.0],[99.0,2.0],[99.9,3.0]],"more":1}"#;
        let figures = read_stele(&format!("{{\"format\":1,\"phases\":[{phase}]}}")).unwrap();
        assert_eq!((figures.requests, figures.errors, figures.per_second), (4, 2, Some(8.0)));
        assert_eq!((figures.p50_ms, figures.p999_ms, figures.percentiles.len()), (Some(1.0), Some(3.0), 3));
        assert_eq!((figures.free_p99_ms, figures.missed), (None, None), "not of an open loop");
        let open = phase.replace("\"more\":1", "\"since_taken\":[[99.0,1.5]],\"missed\":7");
        let figures = read_stele(&format!("{{\"format\":1,\"phases\":[{open}]}}")).unwrap();
        assert_eq!((figures.p99_ms, figures.free_p99_ms, figures.missed), (Some(2.0), Some(1.5), Some(7)));
        assert!(read_stele("{}").is_err());
    }

    #[test]
    fn a_load_that_failed_wholly_has_errors_and_no_figures() {
        let figures = read_benchmark("Error distribution:\n  [7]\tgone\n").unwrap();
        assert_eq!((figures.requests, figures.errors, figures.per_second), (0, 7, None));
        assert!(read_benchmark("panic").is_err());
        let none = r#"{"requests":0,"errors":2,"first_error":"gone","seconds":1,"p50_ms":0,"p99_ms":0,
            "p999_ms":0,"worst_ms":0}"#;
        let figures = read_load(none).unwrap();
        assert_eq!((figures.errors, figures.per_second, figures.p50_ms), (2, None, None));
    }
}
