//! Golden lines, and where they go.

use std::fmt;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::*;

#[derive(Clone, Copy)]
struct Noon;

impl FormatTime for Noon {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str("2026-11-20T12:00:00.000001Z")
    }
}

/// What `body` logs, with the numbers of source lines taken out.
fn logged(format: Format, body: impl FnOnce()) -> String {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("log");
    let outputs = Outputs::open(&[Output::File(path.clone()), Output::File(path.clone())]).expect("outputs");
    let layer = tracing_subscriber::fmt::layer().event_format(Line::new(format, Noon)).with_writer(outputs);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
    let text = std::fs::read_to_string(path).expect("log");
    let once: Vec<_> = text.lines().step_by(2).collect();
    let twice: Vec<_> = text.lines().skip(1).step_by(2).collect();
    assert_eq!(once, twice, "each output gets each line");
    let without_line = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let text = once.join("\n");
    let (first, rest) = text.split_once("tests.rs:").expect("a caller");
    first.to_owned() + &rest.split("tests.rs:").map(without_line).collect::<String>()
}

#[test]
fn json_lines_have_etcds_keys() {
    let text = logged(Format::Json, || {
        tracing::info!("ready to serve client requests");
        tracing::warn!("local-member-id" = %"8e9e", took = 1.5, count = 3u64, ok = true, error = ?Some("x"), "slow \"disk\"\n");
        tracing::error!(revision = -1i64);
        tracing::debug!(r#type = "periodic", "starting {}", "compaction");
    });
    let expected = [
        r#"{"level":"info","ts":"2026-11-20T12:00:00.000001Z","caller":"logging/","msg":"ready to serve client requests"}"#,
        r#"{"level":"warn","ts":"2026-11-20T12:00:00.000001Z","caller":"logging/","msg":"slow \"disk\"\n","local-member-id":"8e9e","took":1.5,"count":3,"ok":true,"error":"Some(\"x\")"}"#,
        r#"{"level":"error","ts":"2026-11-20T12:00:00.000001Z","caller":"logging/","msg":"","revision":-1}"#,
        r#"{"level":"debug","ts":"2026-11-20T12:00:00.000001Z","caller":"logging/","msg":"starting compaction","type":"periodic"}"#,
    ];
    assert_eq!(text, expected.join("\n"));
}

#[test]
fn console_lines_are_columns() {
    let text = logged(Format::Console, || {
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
fn outputs_are_read() {
    let read = |text: &str| Output::parse_list(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(read("default"), Ok(vec![Output::Stderr]));
    assert_eq!(
        read("stderr,stdout,/tmp/x"),
        Ok(vec![Output::Stderr, Output::Stdout, Output::File("/tmp/x".into())])
    );
    assert_eq!(read("/dev/null,stdout"), Ok(vec![]));
    assert_eq!(
        read("default,stdout"),
        Err("multi logoutput for \"default\" is not supported yet".to_owned())
    );
    assert!(read("systemd/journal").is_err());
}

#[test]
fn levels_and_formats_are_read() {
    assert_eq!(Level::parse("fatal"), Ok(Level::Error));
    assert!(Level::parse("loud").expect_err("level").starts_with("unknown log level: loud"));
    let error = "unknown log format: xml, supported values json, console";
    assert_eq!(Format::parse("xml"), Err(error.to_owned()));
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let outputs = [Output::File("/nonexistent/dir/log".into())];
    let error = Outputs::open(&outputs).err().expect("no such directory").to_string();
    assert!(error.starts_with("--log-outputs: cannot open /nonexistent/dir/log: "), "{error}");
}
