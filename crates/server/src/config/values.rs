//! What was said about each flag, by whom, and how its text becomes a typed value.

use std::fmt;
use std::time::Duration;

use super::UsageError;
use super::table::{self, Flag, Kind};
use super::url::{self, Url};

/// Who set a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nobody.
    Default,
    /// The command line.
    CommandLine,
    /// An environment variable.
    Environment,
    /// The configuration file.
    File,
}

struct Value {
    flag: &'static Flag,
    text: String,
    origin: Origin,
}

/// The text of every flag. All texts that are not defaults were checked against the kind of their flag.
pub(super) struct Values(Vec<Value>);

impl Values {
    /// Everything at its default.
    pub(super) fn defaults() -> Values {
        let value =
            |flag: &'static Flag| Value { flag, text: flag.default.to_owned(), origin: Origin::Default };
        Values(table::flags().map(value).collect())
    }

    /// Sets a flag.
    ///
    /// # Errors
    /// Text that is no value of its kind, or a flag that does not exist.
    pub(super) fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), UsageError> {
        let Some(value) = self.0.iter_mut().find(|value| value.flag.name == name) else {
            return Err(UsageError::usage(format!("flag provided but not defined: -{name}")));
        };
        check(value.flag.kind, text).map_err(|why| invalid(value.flag, text, origin, &why))?;
        // An empty list of URLs leaves the default, as it does for etcd.
        if value.flag.kind != Kind::Urls || !text.is_empty() {
            value.text = text.to_owned();
        }
        value.origin = origin;
        Ok(())
    }

    /// Whether anybody set the flag.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.origin != Origin::Default)
    }

    /// Flags whose value is not their default, with it.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.0.iter().filter(|value| differs(value)).map(|value| (value.flag, value.text.as_str()))
    }

    /// The text of a flag; for names that are no flag nothing.
    pub(super) fn text(&self, name: &str) -> &str {
        debug_assert!(table::flag(name).is_some(), "{name} is not in the table");
        self.value(name).map_or("", |value| &value.text)
    }

    /// A flag of kind [`Kind::Bool`].
    pub(super) fn bool(&self, name: &str) -> bool {
        parse_bool(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`Kind::Count`].
    pub(super) fn count(&self, name: &str) -> u64 {
        parse_count(self.text(name), u64::BITS).unwrap_or_default()
    }

    /// A flag of kind [`Kind::Integer`].
    pub(super) fn integer(&self, name: &str) -> i64 {
        parse_integer(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`Kind::Duration`].
    pub(super) fn duration(&self, name: &str) -> Duration {
        super::duration::parse(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`Kind::List`]: sorted, each once.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let mut items: Vec<_> =
            self.text(name).split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect();
        items.sort();
        items.dedup();
        items
    }

    /// A flag of kind [`Kind::Urls`]: sorted, each once.
    pub(super) fn urls(&self, name: &str) -> Vec<Url> {
        let text = self.text(name);
        if text.is_empty() { Vec::new() } else { url::parse_list(text).unwrap_or_default() }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|value| value.flag.name == name)
    }
}

fn differs(value: &Value) -> bool {
    let (text, default) = (value.text.as_str(), value.flag.default);
    text != default
        && match value.flag.kind {
            Kind::Bool => parse_bool(text) != parse_bool(default),
            Kind::Count(_) => parse_count(text, u64::BITS) != parse_count(default, u64::BITS),
            Kind::Integer => parse_integer(text) != parse_integer(default),
            Kind::Duration => super::duration::parse(text).ok() != super::duration::parse(default).ok(),
            Kind::Text | Kind::List | Kind::Urls => true,
        }
}

fn check(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Bool => parse_bool(text).map(drop).ok_or_else(|| "expected true or false".to_owned()),
        Kind::Count(bits) => parse_count(text, bits).map(drop).ok_or_else(|| match bits {
            u32::BITS => format!("expected a whole number from 0 to {}", u32::MAX),
            _ => "expected a whole number that is not negative".to_owned(),
        }),
        Kind::Integer => parse_integer(text).map(drop).ok_or_else(|| "expected a whole number".to_owned()),
        Kind::Duration => super::duration::parse(text).map(drop),
        Kind::Urls if text.is_empty() => Ok(()),
        Kind::Urls => url::parse_list(text).map(drop),
        Kind::Text | Kind::List => Ok(()),
    }
}

fn invalid(flag: &Flag, text: &str, origin: Origin, why: &dyn fmt::Display) -> UsageError {
    match origin {
        Origin::Environment => {
            UsageError::config(format!("invalid value {text:?} for {}: {why}", flag.variable()))
        }
        Origin::File => UsageError::config(format!(
            "invalid value {text:?} for {} in the configuration file: {why}",
            flag.name
        )),
        Origin::CommandLine | Origin::Default if flag.kind == Kind::Bool => {
            UsageError::usage(format!("invalid boolean value {text:?} for -{}: {why}", flag.name))
        }
        Origin::CommandLine | Origin::Default => {
            UsageError::usage(format!("invalid value {text:?} for flag -{}: {why}", flag.name))
        }
    }
}

/// A truth value as Go reads it.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A number of at most `bits` bits, decimal or with Go's prefixes `0x`, `0o`, `0b`.
fn parse_count(text: &str, bits: u32) -> Option<u64> {
    let (digits, radix) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    (bits >= u64::BITS || value >> bits == 0).then_some(value)
}

fn parse_integer(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(digits) => 0i64.checked_sub_unsigned(parse_count(digits, u64::BITS)?),
        None => i64::try_from(parse_count(text.strip_prefix('+').unwrap_or(text), u64::BITS)?).ok(),
    }
}
