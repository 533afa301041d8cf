//! The forms in which a status and a hash are printed: etcdutl's, to the byte.

use cli::code;
use cli::text::quote::json_quoted;
use cli::text::{human, table};

use crate::line::{CommandEnd, CommandLine, Refusal};

/// What a command prints: the same values in each form.
pub(super) struct Record {
    pub(super) fields: Vec<Field>,
}

/// One value of a record.
pub(super) struct Field {
    /// The heading in a table.
    pub(super) heading: &'static str,
    /// The name in the form `fields`.
    pub(super) label: &'static str,
    /// The name in JSON.
    pub(super) json: &'static str,
    pub(super) value: FieldValue,
}

/// A value, and how it is shown.
pub(super) enum FieldValue {
    Number(i64),
    /// In hexadecimal for people.
    Hash(u32),
    /// In units for people.
    Bytes(u64),
    Text(String),
}

impl FieldValue {
    fn for_people(&self) -> String {
        match self {
            FieldValue::Hash(hash) => format!("{hash:x}"),
            FieldValue::Bytes(bytes) => human::bytes(*bytes),
            other => other.plain(),
        }
    }

    fn plain(&self) -> String {
        match self {
            FieldValue::Number(number) => number.to_string(),
            FieldValue::Hash(hash) => hash.to_string(),
            FieldValue::Bytes(bytes) => bytes.to_string(),
            FieldValue::Text(text) => text.clone(),
        }
    }

    fn json(&self) -> String {
        match self {
            FieldValue::Text(text) => {
                let mut out = String::new();
                json_quoted(text, &mut out);
                out
            }
            other => other.plain(),
        }
    }
}

/// Checks `--write-out`, before the work.
///
/// # Errors
/// There is no such form.
pub(super) fn check(line: &CommandLine) -> CommandEnd {
    match line.values.text("write-out") {
        "simple" | "fields" | "json" | "protobuf" | "table" => Ok(()),
        _ => Err(Refusal::new(code::BAD_FEATURE, "unsupported output format")),
    }
}

/// Prints a record in the form of `--write-out`.
///
/// # Errors
/// The form is protobuf, which the record does not have.
pub(super) fn print(line: &mut CommandLine, record: &Record) -> CommandEnd {
    let fields = &record.fields;
    let people = || fields.iter().map(|field| field.value.for_people()).collect::<Vec<_>>();
    let text = match line.values.text("write-out") {
        "fields" => {
            let line = |field: &Field| format!("\"{}\" : {}\n", field.label, field.value.plain());
            fields.iter().map(line).collect()
        }
        "json" => {
            let field = |field: &Field| format!("\"{}\":{}", field.json, field.value.json());
            format!("{{{}}}\n", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        "protobuf" => {
            return Err(Refusal::new(code::BAD_FEATURE, "protobuf not supported as output format"));
        }
        "table" => {
            let headings: Vec<&str> = fields.iter().map(|field| field.heading).collect();
            table::draw(&headings, &[people()])
        }
        _ => format!("{}\n", people().join(", ")),
    };
    line.print(&text)
}
