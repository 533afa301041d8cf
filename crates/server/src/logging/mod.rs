//! The log: one line an event, in the form etcd's users and their collectors know.
//!
//! ```text
//! {"level":"info","ts":"2026-11-20T11:50:12.417843Z","caller":"src/node.rs:42","msg":"ready to serve client requests"}
//! 2026-11-20T11:50:12.417843Z  info  src/node.rs:42  ready to serve client requests  {"member":"a1"}
//! 11:50:12.417 INFO  ready to serve client requests                    member=a1
//! ```
//!
//! JSON unless `--log-format` says otherwise, and the last form at a terminal. Who logs never waits for an output, be
//! it a pipe that is not read or a disk that hangs: the raft loop logs too.
//!
//! ```text
//!  any thread: event -> throttle -> line --+-> queue of stderr -> thread stele-logger -> stderr
//!                                          '-> queue of a file -> thread stele-logger -> the file, and old files
//! ```
//!
//! A line that finds its queue full is dropped and counted; once the output takes lines again, one of them says how
//! many are missing, and `stele_log_lines_dropped_total` counts them. An output that cannot be written is skipped: a
//! full disk must not stop a member that could still serve. Before the process ends, cleanly or not, [`flush`]
//! waits a moment for the queues. Our own crates log at the level asked for, the libraries below them only warnings:
//! `debug` must not show every HTTP/2 frame.

mod journal;
mod layer;
mod line;
mod notices;
mod output;
mod queue;
mod record;
mod repeated_failures;
mod rotation;
mod throttle;
mod writer;

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use prometheus::IntCounter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Registry, reload};

use crate::config::{LogLevel, Observing};

pub(crate) use notices::NoticeLog;
pub(crate) use repeated_failures::RepeatedFailures;
pub(crate) use throttle::RateWindow;

use layer::{Destination, LogLayer};
use output::{OpenLogError, OpenOutput};
use queue::LineQueue;
use writer::LineWriter;

/// Crates whose events are ours.
const OWN_CRATES: [&str; 7] = ["consensus", "log", "member", "server", "stele", "store", "transport"];

/// Time that outputs have to take what is queued before the process ends.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that were not written.
static DROPPED_LINES: LazyLock<IntCounter> = LazyLock::new(|| {
    let help = "Lines of the log that no output took: it was too slow, or refused them";
    // The name is valid.
    IntCounter::new("stele_log_lines_dropped_total", help).expect("a valid name")
});

/// The log of this process.
static LOG: OnceLock<ProcessLog> = OnceLock::new();

struct ProcessLog {
    level: reload::Handle<Targets, Registry>,
    queues: Vec<Arc<LineQueue>>,
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoggingError {
    /// An output could not be opened.
    #[error(transparent)]
    Open(#[from] OpenLogError),
    /// The system refuses the thread of an output.
    #[error("cannot start a thread for the log: {0}")]
    Thread(#[from] std::io::Error),
    /// Another part of the process has set up logging before.
    #[error("logging is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the whole process.
///
/// # Errors
/// An output that cannot be opened, or a second call.
pub(crate) fn init(observing: &Observing) -> Result<(), LoggingError> {
    let destinations = open(observing)?;
    let queues = destinations.iter().map(|destination| destination.queue.clone()).collect();
    let (filter, level) = reload::Layer::new(targets(observing.log_level));
    let lines = LogLayer::new(destinations, SystemTime, Instant::now, DROPPED_LINES.clone());
    tracing_subscriber::registry().with(filter).with(lines).try_init()?;
    // Only the first call comes this far.
    let _ = LOG.set(ProcessLog { level, queues });
    Ok(())
}

/// Opens all outputs, each with its queue and thread.
fn open(observing: &Observing) -> Result<Vec<Destination>, LoggingError> {
    let open = |wanted| -> Result<Destination, LoggingError> {
        let output = OpenOutput::open(wanted, observing.log_rotation.as_ref())?;
        let form = output.form(observing.log_format);
        let queue = Arc::new(LineQueue::default());
        let name = output::name(wanted);
        LineWriter { queue: queue.clone(), output, name, form, dropped: DROPPED_LINES.clone() }.start()?;
        Ok(Destination { form, queue })
    };
    observing.log_outputs.iter().map(open).collect()
}

/// Changes the least severity that is logged.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(log) = LOG.get() {
        // It fails only if the subscriber is gone, which lasts as long as the process.
        let _ = log.level.reload(targets(level));
    }
}

/// Opens the files of the log again: another program may have moved them away.
pub(crate) fn reopen_files() {
    LOG.get().into_iter().flat_map(|log| &log.queues).for_each(|queue| queue.reopen());
}

/// Waits a moment until all lines are written. To be called before the process ends.
pub(crate) fn flush() {
    let deadline = Instant::now() + FLUSH_TIMEOUT;
    if let Some(log) = LOG.get() {
        for queue in &log.queues {
            // Lines of an output that does not take them in time are lost.
            let _ = queue.flush(deadline);
        }
    }
}

/// Counts lines that were not written.
pub(crate) fn dropped_lines() -> &'static IntCounter {
    &DROPPED_LINES
}

fn targets(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    let others = level.min(LevelFilter::WARN);
    Targets::new().with_default(others).with_targets(OWN_CRATES.map(|name| (name, level)))
}

#[cfg(test)]
mod tests;
