//! One event as one line.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, time::FormatTime};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// Formats events as etcd's logger does.
#[derive(Clone, Debug)]
pub(super) struct LineFormat<T> {
    format: LogFormat,
    time: T,
}

impl<T: FormatTime> LineFormat<T> {
    /// Lines of this form, with the time by `time`: RFC 3339 with microseconds is expected.
    pub(super) fn new(format: LogFormat, time: T) -> LineFormat<T> {
        LineFormat { format, time }
    }

    fn timestamp(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.time.format_time(&mut Writer::new(&mut text))?;
        Ok(text)
    }
}

impl<S, N, T> FormatEvent<S, N> for LineFormat<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    T: FormatTime,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let (level, time, caller) = (level(metadata), self.timestamp()?, caller(metadata));
        let mut fields = EventFields::default();
        event.record(&mut fields);
        match self.format {
            LogFormat::Json => {
                let head =
                    [("level", level.to_owned()), ("ts", time), ("caller", caller), ("msg", fields.message)];
                writeln!(writer, "{}", json_line(head, &fields.others))
            }
            LogFormat::Console => {
                write!(writer, "{time}\t{level}\t{caller}\t{}", fields.message)?;
                if !fields.others.is_empty() {
                    write!(writer, "\t{}", json_line([], &fields.others))?;
                }
                writeln!(writer)
            }
        }
    }
}

/// An object with the pairs of `head` before `fields`, in order.
fn json_line<const N: usize>(head: [(&str, String); N], fields: &[(String, Value)]) -> String {
    let pair = |name: &str, value: &Value| format!("{}:{value}", Value::from(name));
    let head = head.into_iter().map(|(name, text)| pair(name, &Value::String(text)));
    let pairs: Vec<_> = head.chain(fields.iter().map(|(name, value)| pair(name, value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn level(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// The last directory and the file, with the line.
fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or("unknown");
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
    format!("{}:{}", &file[start..], metadata.line().unwrap_or_default())
}

#[derive(Default)]
struct EventFields {
    message: String,
    others: Vec<(String, Value)>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        let (name, value) = (field.name().trim_start_matches("r#"), value.into());
        match (name, value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", value) => self.message = value.to_string(),
            (name, value) => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Visit for EventFields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.add(field, value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}
