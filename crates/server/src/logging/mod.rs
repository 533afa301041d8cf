//! The log: one line an event, in the form etcd's users and their collectors know.
//!
//! ```text
//! {"level":"info","ts":"2026-11-20T11:50:12.417843Z","caller":"src/node.rs:42","msg":"ready to serve client requests"}
//! 2026-11-20T11:50:12.417843Z  info  src/node.rs:42  ready to serve client requests  {"member":"a1"}
//! ```
//!
//! A line is handed to each output in one write, so lines of several threads never mix. An output that cannot be
//! written is skipped: a full disk must not stop a member that could still serve. Our own crates log at the level
//! asked for, the libraries below them only warnings: `debug` must not show every HTTP/2 frame.

mod line;
mod notices;
mod output;
mod repeated_failures;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::config::{LogLevel, Observing};

pub(crate) use notices::NoticeLog;
pub(crate) use repeated_failures::RepeatedFailures;

use line::LineFormat;
use output::{LogOutputs, OpenLogError};

/// Crates whose events are ours.
const OWN_CRATES: [&str; 7] = ["consensus", "log", "member", "server", "stele", "store", "transport"];

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoggingError {
    /// A file could not be opened.
    #[error(transparent)]
    Open(#[from] OpenLogError),
    /// Another part of the process has set up logging before.
    #[error("logging is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the whole process.
///
/// # Errors
/// A file that cannot be opened, or a second call.
pub(crate) fn init(observing: &Observing) -> Result<(), LoggingError> {
    let outputs = LogOutputs::open(&observing.log_outputs)?;
    let lines = tracing_subscriber::fmt::layer()
        .event_format(LineFormat::new(observing.log_format, SystemTime))
        .with_ansi(false)
        .with_writer(outputs);
    let level = filter(observing.log_level);
    let others = level.min(LevelFilter::WARN);
    let targets = Targets::new().with_default(others).with_targets(OWN_CRATES.map(|name| (name, level)));
    tracing_subscriber::registry().with(targets).with(lines).try_init()?;
    Ok(())
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

#[cfg(test)]
mod tests {
    //! Golden lines, and their destinations. A line names this file as its caller.

    use std::fmt;

    use tracing_subscriber::fmt::format::Writer;
    use tracing_subscriber::fmt::time::FormatTime;

    use super::*;
    use crate::config::{LogFormat, LogOutput};

    #[derive(Clone, Copy)]
    struct Noon;

    impl FormatTime for Noon {
        fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
            writer.write_str("2026-11-20T12:00:00.000001Z")
        }
    }

    /// What `body` logs, with the numbers of source lines taken out.
    fn logged(format: LogFormat, body: impl FnOnce()) -> String {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("log");
        let outputs = LogOutputs::open(&[LogOutput::File(path.clone()), LogOutput::File(path.clone())])
            .expect("outputs");
        let layer =
            tracing_subscriber::fmt::layer().event_format(LineFormat::new(format, Noon)).with_writer(outputs);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
        let text = std::fs::read_to_string(path).expect("log");
        let once: Vec<_> = text.lines().step_by(2).collect();
        let twice: Vec<_> = text.lines().skip(1).step_by(2).collect();
        assert_eq!(once, twice, "each output gets each line");
        let without_line = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
        let text = once.join("\n");
        let (first, rest) = text.split_once("mod.rs:").expect("a caller");
        first.to_owned() + &rest.split("mod.rs:").map(without_line).collect::<String>()
    }

    #[test]
    fn json_lines_have_etcds_keys() {
        let text = logged(LogFormat::Json, || {
            tracing::info!("ready to serve client requests");
            tracing::warn!(
                "local-member-id" = %"8e9e",
                took = 1.5,
                count = 3u64,
                ok = true,
                error = ?Some("x"),
                "slow \"disk\"\n"
            );
            tracing::error!(revision = -1i64);
            tracing::debug!(r#type = "periodic", "starting {}", "compaction");
        });
        let line = |level: &str, rest: &str| {
            let time = "2026-11-20T12:00:00.000001Z";
            format!(r#"{{"level":"{level}","ts":"{time}","caller":"logging/","msg":{rest}}}"#)
        };
        let fields = r#""local-member-id":"8e9e","took":1.5,"count":3,"ok":true,"error":"Some(\"x\")""#;
        let expected = [
            line("info", r#""ready to serve client requests""#),
            line("warn", &format!(r#""slow \"disk\"\n",{fields}"#)),
            line("error", r#""","revision":-1"#),
            line("debug", r#""starting compaction","type":"periodic""#),
        ];
        assert_eq!(text, expected.join("\n"));
    }

    #[test]
    fn console_lines_are_columns() {
        let text = logged(LogFormat::Console, || {
            tracing::info!("ready");
            tracing::info!(id = 7, "member");
        });
        let expected = [
            "2026-11-20T12:00:00.000001Z\tinfo\tlogging/\tready",
            "2026-11-20T12:00:00.000001Z\tinfo\tlogging/\tmember\t{\"id\":7}",
        ];
        assert_eq!(text, expected.join("\n"));
    }

    #[test]
    fn the_clock_prints_microseconds_in_utc() {
        let mut text = String::new();
        SystemTime.format_time(&mut Writer::new(&mut text)).expect("time");
        assert_eq!((text.len(), &text[10..11], &text[19..20], &text[26..]), (27, "T", ".", "Z"), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let outputs = [LogOutput::File("/nonexistent/dir/log".into())];
        let error = LogOutputs::open(&outputs).err().expect("no such directory").to_string();
        assert!(error.starts_with("--log-outputs: cannot open /nonexistent/dir/log: "), "{error}");
    }
}
