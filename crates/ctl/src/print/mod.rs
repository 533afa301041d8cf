//! The forms in which answers are printed: simple, fields, json, protobuf, table.
//!
//! They are etcdctl's to the byte, because scripts read them. Not every answer has every form: what is missing ends
//! with exit code 4, after the request was carried out.

pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod messages;
pub(crate) mod simple;

use crate::exit::{Exit, code};
use crate::print::json::ToJson;

/// A form, as `--write-out` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Simple,
    Fields,
    Json,
    Protobuf,
    Table,
}

impl Format {
    /// The form of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "simple" => Self::Simple,
            "fields" => Self::Fields,
            "json" => Self::Json,
            "protobuf" => Self::Protobuf,
            "table" => Self::Table,
            _ => return None,
        })
    }
}

/// How this command prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) format: Format,
    pub(crate) hex: bool,
    pub(crate) value_only: bool,
}

/// An answer in the forms it has; each is made only if it is asked for.
pub(crate) struct Forms<S, F, J, P, T> {
    pub(crate) simple: S,
    pub(crate) fields: Option<F>,
    pub(crate) json: J,
    pub(crate) protobuf: Option<P>,
    pub(crate) table: Option<T>,
}

/// A form that an answer does not have.
pub(crate) type Missing = fn() -> Vec<u8>;

impl<S, F, J, P, T> Forms<S, F, J, P, T>
where
    S: FnOnce() -> Vec<u8>,
    F: FnOnce() -> Vec<u8>,
    J: FnOnce() -> Vec<u8>,
    P: FnOnce() -> Vec<u8>,
    T: FnOnce() -> Vec<u8>,
{
    /// The bytes of the form that was asked for.
    ///
    /// # Errors
    ///
    /// The answer has no such form.
    pub(crate) fn bytes(self, format: Format) -> Result<Vec<u8>, Exit> {
        let missing =
            |name: &str| Exit::new(code::BAD_FEATURE, format!("{name} not supported as output format"));
        match format {
            Format::Simple => Ok((self.simple)()),
            Format::Json => Ok((self.json)()),
            Format::Fields => self.fields.map(|form| form()).ok_or_else(|| missing("fields")),
            Format::Protobuf => self.protobuf.map(|form| form()).ok_or_else(|| missing("protobuf")),
            Format::Table => self.table.map(|form| form()).ok_or_else(|| missing("table")),
        }
    }
}

/// JSON and the end of its line.
pub(crate) fn json_line(value: &(impl ToJson + ?Sized)) -> Vec<u8> {
    let mut text = String::new();
    value.json(&mut text);
    text.push('\n');
    text.into_bytes()
}
