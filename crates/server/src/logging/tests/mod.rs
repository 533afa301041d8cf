//! Golden lines, and their destinations. A line names this file as its caller.

use std::fmt;
use std::io::Read;
use std::path::Path;

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::line::LineForm;
use super::*;
use crate::config::{LogFormat, LogOutput};

/// A time at which the throttle stands still.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Clone, Copy)]
struct Noon;

impl FormatTime for Noon {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str("2026-11-20T12:00:00.000001Z")
    }
}

/// What `body` logs, with the numbers of source lines taken out.
fn logged(form: LineForm, body: impl FnOnce()) -> String {
    let destination = Destination { form, queue: Arc::new(LineQueue::default()) };
    let queue = destination.queue.clone();
    let layer = LogLayer::new(vec![destination], Noon, || *START, DROPPED_LINES.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
    let taken = queue.take();
    let text: String = taken.lines.iter().map(|line| &*line.text).collect();
    let without_line = |part: &str| part.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let mut parts = text.trim_end().split("mod.rs:");
    parts.next().unwrap_or_default().to_owned() + &parts.map(without_line).collect::<String>()
}

#[test]
fn json_lines_have_etcds_keys() {
    let text = logged(LineForm::Json, || {
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
        format!(r#"{{"level":"{level}","ts":"{time}","caller":"tests/","msg":{rest}}}"#)
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
    let text = logged(LineForm::Console, || {
        tracing::info!("ready");
        tracing::info!(id = 7, "member");
    });
    let expected = [
        "2026-11-20T12:00:00.000001Z\tinfo\ttests/\tready",
        "2026-11-20T12:00:00.000001Z\tinfo\ttests/\tmember\t{\"id\":7}",
    ];
    assert_eq!(text, expected.join("\n"));
}

#[test]
fn a_terminal_has_aligned_columns_and_nothing_that_moves_its_cursor() {
    let body = || {
        tracing::info!("ready");
        tracing::warn!(id = 7, text = "two words", bad = "\x1b[2J", "slow \x1b[2J");
    };
    let expected = [
        "12:00:00.000 INFO  ready".to_owned(),
        format!("12:00:00.000 WARN  {:48} id=7 text=\"two words\" bad=\"\\u001b[2J\"", "slow \\u{1b}[2J"),
    ];
    assert_eq!(logged(LineForm::Terminal { colour: false }, body), expected.join("\n"));
    let hidden = || tracing::warn!(bad = "\u{7f}\u{9b}2J\u{202e}", "a\u{7f}\u{9b}\u{202e}");
    let text = logged(LineForm::Terminal { colour: false }, hidden);
    assert!(text.contains("a\\u{7f}\\u{9b}\\u{202e}"), "{text:?}");
    assert!(text.ends_with("bad=\"\\u{7f}\\u{9b}2J\\u{202e}\""), "{text:?}");
    let coloured = logged(LineForm::Terminal { colour: true }, body);
    assert!(coloured.contains("\x1b[32mINFO \x1b[0m ready"), "{coloured:?}");
    assert!(coloured.contains(" \x1b[2mid=\x1b[0m7"), "{coloured:?}");
}

#[test]
fn a_line_that_repeats_is_thinned_out() {
    let text = logged(LineForm::Console, || {
        (0..250).for_each(|_| tracing::info!("again"));
    });
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 101);
    assert!(lines.last().is_some_and(|line| line.ends_with("{\"suppressed\":99}")), "{lines:?}");
}

#[test]
fn different_texts_of_one_callsite_are_all_logged() {
    let text = logged(LineForm::Console, || {
        (0..150).for_each(|number| tracing::warn!("file {number} is damaged"));
    });
    assert_eq!(text.lines().count(), 150);
}

#[test]
fn the_clock_prints_microseconds_in_utc() {
    let mut text = String::new();
    SystemTime.format_time(&mut Writer::new(&mut text)).expect("time");
    assert_eq!((text.len(), &text[10..11], &text[19..20], &text[26..]), (27, "T", ".", "Z"), "{text}");
}

fn observing(outputs: &[&Path]) -> Observing {
    Observing {
        log_level: LogLevel::Info,
        log_format: Some(LogFormat::Json),
        log_outputs: outputs.iter().map(|path| LogOutput::File(path.into())).collect(),
        log_rotation: None,
        profiles: false,
        extensive_metrics: false,
        warning_apply_duration: Duration::ZERO,
        warning_unary_request_duration: Duration::ZERO,
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let error = open(&observing(&[Path::new("/nonexistent/dir/log")])).err().expect("no such directory");
    let error = error.to_string();
    assert!(error.starts_with("--log-outputs: cannot open /nonexistent/dir/log: "), "{error}");
}

/// A pipe that is not read stalls, once it is full, the thread that writes to it. Who logs goes on, the other output
/// has every line, and the pipe says what is missing as soon as it is read.
#[test]
fn an_output_that_stalls_holds_up_neither_the_caller_nor_the_other_output() {
    let dir = tempfile::tempdir().expect("directory");
    let (pipe, file) = (dir.path().join("pipe"), dir.path().join("file"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
    let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("both ends");
    let destinations = open(&observing(&[&pipe, &file])).expect("outputs");
    let dropped = IntCounter::new("dropped", "lines").expect("a name");
    let layer = LogLayer::new(destinations.clone(), Noon, || *START, dropped.clone());
    let padding = "x".repeat(16 << 10);
    let mut sent = 0;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        // Large ones: a line that repeats is thinned out after the first hundred.
        while dropped.get() == 0 {
            assert!(sent < 90, "the queue never fills");
            tracing::info!(sent, padding, "line");
            sent += 1;
            // Only the pipe may fall behind.
            assert!(destinations[1].queue.flush(Instant::now() + Duration::from_secs(60)));
        }
    });
    let text = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(text.lines().count(), sent, "the file has every line");
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !String::from_utf8_lossy(&received).contains("\"dropped\":1,\"output\":") {
        let count = reader.read(&mut buffer).expect("a pipe");
        received.extend_from_slice(&buffer[..count]);
    }
}
