//! The log: one line an event, in the form etcd's users and their collectors know.
//!
//! ```text
//! {"level":"info","ts":"2026-11-20T11:50:12.417843Z","caller":"src/node.rs:42","msg":"ready to serve client requests"}
//! 2026-11-20T11:50:12.417843Z  info  src/node.rs:42  ready to serve client requests  {"member":"a1"}
//! ```
//!
//! A line is handed to each output in one write, so lines of several threads never mix. An output that cannot be
//! written is skipped: a full disk must not stop a member that could still serve. Our own crates log at the level
//! asked for, the libraries below them only warnings: nobody who sets `debug` wants every HTTP/2 frame.

mod line;
mod output;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::Observing;

pub use line::Line;
pub use output::{Output, Outputs};

/// Crates whose events are ours.
const OWN_CRATES: [&str; 7] = ["consensus", "log", "member", "server", "stele", "store", "transport"];

/// Least severity that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What deserves attention.
    Warn,
    /// What failed. etcd's `panic` and `fatal` mean this as well: both are written as errors here.
    Error,
}

impl Level {
    /// Reads `--log-level`.
    ///
    /// # Errors
    /// A level etcd does not know.
    pub fn parse(text: &str) -> Result<Level, String> {
        match text {
            "debug" => Ok(Level::Debug),
            "info" | "" => Ok(Level::Info),
            "warn" => Ok(Level::Warn),
            "error" | "dpanic" | "panic" | "fatal" => Ok(Level::Error),
            _ => Err(format!(
                "unknown log level: {text}, supported values debug, info, warn, error, panic, fatal"
            )),
        }
    }

    fn filter(self) -> LevelFilter {
        match self {
            Level::Debug => LevelFilter::DEBUG,
            Level::Info => LevelFilter::INFO,
            Level::Warn => LevelFilter::WARN,
            Level::Error => LevelFilter::ERROR,
        }
    }
}

/// Form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    Json,
    /// Columns separated by tabs, for people.
    Console,
}

impl Format {
    /// Reads `--log-format`.
    ///
    /// # Errors
    /// A format etcd does not know.
    pub fn parse(text: &str) -> Result<Format, String> {
        match text {
            "json" | "" => Ok(Format::Json),
            "console" => Ok(Format::Console),
            _ => Err(format!("unknown log format: {text}, supported values json, console")),
        }
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// A file could not be opened.
    #[error("--log-outputs: cannot open {path}: {cause}")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Somebody set up logging before.
    #[error("logging is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the whole process.
///
/// # Errors
/// A file that cannot be opened, or a second call.
pub fn init(observing: &Observing) -> Result<(), LoggingError> {
    let outputs = Outputs::open(&observing.log_outputs)?;
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Line::new(observing.log_format, SystemTime))
        .with_ansi(false)
        .with_writer(outputs);
    let level = observing.log_level.filter();
    let others = level.min(LevelFilter::WARN);
    let targets = Targets::new().with_default(others).with_targets(OWN_CRATES.map(|name| (name, level)));
    tracing_subscriber::registry().with(targets).with(lines).try_init()?;
    Ok(())
}

#[cfg(test)]
mod tests;
