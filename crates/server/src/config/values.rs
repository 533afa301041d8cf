//! The text of each flag, where it came from, and how it becomes a typed value.

use std::fmt;
use std::time::Duration;

use super::diagnostics::UsageError;
use super::table::{self, Flag, FlagKind};
use super::types::duration;
use super::types::scalar::{parse_bool, parse_count, parse_integer};
use super::types::url::{self, Url};

/// Where the value of a flag comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSource {
    /// The flag was not set.
    Default,
    /// The command line.
    CommandLine,
    /// An environment variable.
    Environment,
    /// The configuration file.
    File,
}

struct FlagValue {
    flag: &'static Flag,
    text: String,
    origin: ValueSource,
}

/// The text of every flag. Texts that are not defaults have been checked against the kind of their flag.
pub(super) struct FlagValues {
    values: Vec<FlagValue>,
    /// `client-transport-security.allowed-cn` of the configuration file, which no flag sets: sorted, each once.
    pub(super) allowed_client_names: Vec<String>,
}

impl FlagValues {
    /// Everything at its default.
    pub(super) fn defaults() -> FlagValues {
        let value = |flag: &'static Flag| FlagValue {
            flag,
            text: flag.default.to_owned(),
            origin: ValueSource::Default,
        };
        FlagValues { values: table::flags().map(value).collect(), allowed_client_names: Vec::new() }
    }

    /// Sets a flag.
    ///
    /// # Errors
    /// Text that is not of the flag's kind, or an unknown flag.
    pub(super) fn set(&mut self, name: &str, text: &str, origin: ValueSource) -> Result<(), UsageError> {
        let Some(value) = self.values.iter_mut().find(|value| value.flag.name == name) else {
            return Err(UsageError::usage(format!("flag provided but not defined: -{name}")));
        };
        check(value.flag.kind, text).map_err(|why| invalid(value.flag, text, origin, &why))?;
        // An empty list of URLs leaves the default, as in etcd.
        if value.flag.kind != FlagKind::Urls || !text.is_empty() {
            value.text = text.to_owned();
        }
        value.origin = origin;
        Ok(())
    }

    /// Whether the flag was set.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.origin != ValueSource::Default)
    }

    /// Flags whose value is not their default, with the value.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        self.values.iter().filter(|value| differs(value)).map(|value| (value.flag, value.text.as_str()))
    }

    /// The text of a flag; empty for an unknown name.
    pub(super) fn text(&self, name: &str) -> &str {
        debug_assert!(table::flag(name).is_some(), "{name} is not in the table");
        self.value(name).map_or("", |value| &value.text)
    }

    /// A flag of kind [`FlagKind::Bool`].
    pub(super) fn bool(&self, name: &str) -> bool {
        parse_bool(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`FlagKind::Count`].
    pub(super) fn count(&self, name: &str) -> u64 {
        parse_count(self.text(name), u64::BITS).unwrap_or_default()
    }

    /// A flag of kind [`FlagKind::Integer`].
    pub(super) fn integer(&self, name: &str) -> i64 {
        parse_integer(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`FlagKind::Duration`].
    pub(super) fn duration(&self, name: &str) -> Duration {
        duration::parse(self.text(name)).unwrap_or_default()
    }

    /// A flag of kind [`FlagKind::List`]: sorted, each once.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        list_of(self.text(name))
    }

    /// A flag of kind [`FlagKind::Urls`]: sorted, each once.
    pub(super) fn urls(&self, name: &str) -> Vec<Url> {
        let text = self.text(name);
        if text.is_empty() { Vec::new() } else { url::parse_list(text).unwrap_or_default() }
    }

    /// The error for a value of the right kind that the flag does not allow; `why` names what is allowed.
    pub(super) fn refuse(&self, name: &str, why: impl fmt::Display) -> UsageError {
        UsageError::config(format!("invalid value {:?} for --{name}: {why}", self.text(name)))
    }

    /// Checks a text of which only a few are allowed.
    ///
    /// # Errors
    /// Another text.
    pub(super) fn one_of(&self, name: &str, allowed: &[&str]) -> Result<(), UsageError> {
        if allowed.contains(&self.text(name)) {
            return Ok(());
        }
        let expected = match allowed {
            [only] => format!("expected {only}"),
            _ => format!("expected one of: {}", allowed.join(", ")),
        };
        Err(self.refuse(name, expected))
    }

    fn value(&self, name: &str) -> Option<&FlagValue> {
        self.values.iter().find(|value| value.flag.name == name)
    }
}

/// The items of a text, sorted, each once.
pub(super) fn list_of(text: &str) -> Vec<String> {
    let mut items: Vec<_> = text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect();
    items.sort();
    items.dedup();
    items
}

fn differs(value: &FlagValue) -> bool {
    let (text, default) = (value.text.as_str(), value.flag.default);
    text != default
        && match value.flag.kind {
            FlagKind::Bool => parse_bool(text) != parse_bool(default),
            FlagKind::Count(_) => parse_count(text, u64::BITS) != parse_count(default, u64::BITS),
            FlagKind::Integer => parse_integer(text) != parse_integer(default),
            FlagKind::Duration => duration::parse(text).ok() != duration::parse(default).ok(),
            FlagKind::Text | FlagKind::List | FlagKind::Urls => true,
        }
}

fn check(kind: FlagKind, text: &str) -> Result<(), String> {
    match kind {
        FlagKind::Bool => parse_bool(text).map(drop).ok_or_else(|| "expected true or false".to_owned()),
        FlagKind::Count(bits) => parse_count(text, bits).map(drop).ok_or_else(|| match bits {
            u32::BITS => format!("expected a whole number from 0 to {}", u32::MAX),
            _ => "expected a whole number that is not negative".to_owned(),
        }),
        FlagKind::Integer => {
            parse_integer(text).map(drop).ok_or_else(|| "expected a whole number".to_owned())
        }
        FlagKind::Duration => duration::parse(text).map(drop),
        FlagKind::Urls if text.is_empty() => Ok(()),
        FlagKind::Urls => url::parse_list(text).map(drop),
        FlagKind::Text | FlagKind::List => Ok(()),
    }
}

fn invalid(flag: &Flag, text: &str, origin: ValueSource, why: &dyn fmt::Display) -> UsageError {
    match origin {
        ValueSource::Environment => {
            UsageError::config(format!("invalid value {text:?} for {}: {why}", flag.variable()))
        }
        ValueSource::File => UsageError::config(format!(
            "invalid value {text:?} for {} in the configuration file: {why}",
            flag.name
        )),
        ValueSource::CommandLine | ValueSource::Default if flag.kind == FlagKind::Bool => {
            UsageError::usage(format!("invalid boolean value {text:?} for -{}: {why}", flag.name))
        }
        ValueSource::CommandLine | ValueSource::Default => {
            UsageError::usage(format!("invalid value {text:?} for flag -{}: {why}", flag.name))
        }
    }
}
