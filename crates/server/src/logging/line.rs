//! A record as one line, in each of the forms that a line may have.

use std::fmt::Write as _;

use serde_json::Value;
use tracing::Level;

use super::record::LogRecord;

/// Form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineForm {
    /// A JSON object with etcd's keys.
    Json,
    /// etcd's columns, separated by tabs, with the fields as JSON.
    Console,
    /// Aligned columns for a person at a terminal.
    Terminal {
        /// Whether severities and names of fields have colours.
        colour: bool,
    },
}

impl LineForm {
    /// The line of a record, with its line break.
    pub(super) fn line(self, record: &LogRecord) -> String {
        let mut line = match self {
            LineForm::Json => json(record),
            LineForm::Console => console(record),
            LineForm::Terminal { colour } => terminal(record, colour),
        };
        line.push('\n');
        line
    }
}

fn json(record: &LogRecord) -> String {
    let head = [
        ("level", record.level_name()),
        ("ts", &record.time),
        ("caller", &record.caller),
        ("msg", &record.message),
    ];
    object(head, &record.fields)
}

fn console(record: &LogRecord) -> String {
    let LogRecord { time, caller, message, fields, .. } = record;
    let mut line = format!("{time}\t{}\t{caller}\t{message}", record.level_name());
    if !fields.is_empty() {
        line.push('\t');
        line.push_str(&object([], fields));
    }
    line
}

/// An object with the pairs of `head` before `fields`, in order.
fn object<const N: usize>(head: [(&str, &str); N], fields: &[(String, Value)]) -> String {
    let pair = |name: &str, value: &Value| format!("{}:{value}", Value::from(name));
    let head = head.into_iter().map(|(name, text)| pair(name, &Value::from(text)));
    let pairs: Vec<_> = head.chain(fields.iter().map(|(name, value)| pair(name, value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// Column at which fields begin at a terminal: most messages are shorter.
const MESSAGE_COLUMNS: usize = 48;

const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const GREEN: &str = "\x1b[32m";
const BLUE: &str = "\x1b[34m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

fn terminal(record: &LogRecord, colour: bool) -> String {
    let paint = |code: &'static str| if colour { code } else { "" };
    let (name, code) = match record.level {
        Level::ERROR => ("ERROR", RED),
        Level::WARN => ("WARN ", YELLOW),
        Level::INFO => ("INFO ", GREEN),
        Level::DEBUG | Level::TRACE => ("DEBUG", BLUE),
    };
    let (dim, plain) = (paint(DIM), paint(PLAIN));
    // Of `2026-11-20T11:50:12.417843Z` a person wants the time of day, to the millisecond.
    let time = record.time.get(11..23).unwrap_or(&record.time);
    let message = one_line(&record.message);
    let mut line = format!("{dim}{time}{plain} {}{name}{plain} {message}", paint(code));
    if !record.fields.is_empty() {
        let missing = MESSAGE_COLUMNS.saturating_sub(message.chars().count());
        line.extend(std::iter::repeat_n(' ', missing));
    }
    for (name, value) in &record.fields {
        let value = match value {
            Value::String(text) if is_word(text) => text.clone(),
            // JSON leaves DEL, the controls of C1 and marks of direction as they are.
            other => one_line(&other.to_string()),
        };
        // Writing to a String cannot fail.
        let _ = write!(line, " {dim}{name}={plain}{value}");
    }
    line
}

/// Whether a text needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !is_unsafe(c) && c != '"')
}

/// Whether a character could move the cursor, break the line, or change the order in which others are shown.
fn is_unsafe(c: char) -> bool {
    let is_direction_mark =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_line_break = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() || is_direction_mark || is_line_break
}

/// A message as it may stand at a terminal: what could move the cursor or break the line is escaped.
fn one_line(message: &str) -> String {
    let escape = |c: char| if is_unsafe(c) { c.escape_default().collect() } else { String::from(c) };
    message.chars().map(escape).collect()
}
