//! One event as plain data: what a line is made of.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogRecord {
    /// Its severity.
    pub(super) level: Level,
    /// When it happened, in RFC 3339 with microseconds, in UTC.
    pub(super) time: String,
    /// The last directory and the file of the source, with the line.
    pub(super) caller: String,
    /// What happened.
    pub(super) message: String,
    /// Details, by name, in order.
    pub(super) fields: Vec<(String, Value)>,
}

impl LogRecord {
    /// The record of an event, at the time that `clock` tells.
    pub(super) fn of(event: &Event<'_>, clock: &dyn FormatTime) -> LogRecord {
        let metadata = event.metadata();
        let mut fields = EventFields::default();
        event.record(&mut fields);
        LogRecord {
            level: *metadata.level(),
            time: timestamp(clock),
            caller: caller(metadata),
            message: fields.message,
            fields: fields.others,
        }
    }

    /// A warning of the log itself.
    pub(super) fn own_warning(
        clock: &dyn FormatTime,
        message: &str,
        fields: Vec<(String, Value)>,
    ) -> LogRecord {
        LogRecord {
            level: Level::WARN,
            time: timestamp(clock),
            caller: "logging/record.rs".to_owned(),
            message: message.to_owned(),
            fields,
        }
    }

    /// The severity in etcd's words.
    pub(super) fn level_name(&self) -> &'static str {
        match self.level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        }
    }
}

fn timestamp(clock: &dyn FormatTime) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail; a clock that cannot tell the time leaves it empty.
    let _ = clock.format_time(&mut Writer::new(&mut text));
    text
}

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
