//! The third source of values: the configuration file, YAML (or JSON) with the names of flags as keys.

use serde_json::Value;

use super::suggestion;
use crate::config::diagnostics::{Note, UsageError};
use crate::config::table::{self, FlagKind};
use crate::config::values::{FlagValues, ValueSource, list_of};

/// The maps that may stand in a file, with the flags that their keys stand for; etcd's. TLS has two more.
const MAPS: [(&str, &[(&str, &str)]); 3] = [
    ("socket-options", &[("reuse-port", "socket-reuse-port"), ("reuse-address", "socket-reuse-address")]),
    ("discovery-config", &[("token", "discovery-token")]),
    (
        "discovery-config.client",
        &[
            ("endpoints", "discovery-endpoints"),
            ("request-timeout", "discovery-request-timeout"),
            ("dial-timeout", "discovery-dial-timeout"),
            ("keepalive-time", "discovery-keepalive-time"),
            ("keepalive-timeout", "discovery-keepalive-timeout"),
        ],
    ),
];

/// Flags that etcd does not read from a file: they stand in its sample, with values that the flags would refuse.
const FLAGS_ONLY: [&str; 1] = ["discovery-fallback"];

/// Takes flags from the text of a configuration file: YAML (or JSON) with the names of flags as keys.
///
/// Durations are whole nanoseconds there, as for etcd; Go's style is read as well. TLS settings may stand in the maps
/// `client-transport-security` and `peer-transport-security`.
///
/// # Errors
/// Text that is not a YAML map, or a value that is not of its flag's kind.
pub(in crate::config) fn read(
    text: &str,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let parsed: Option<serde_json::Map<String, Value>> = yaml_serde::from_str(text)
        .map_err(|e| UsageError::config(format!("error parsing configuration file: {e}")))?;
    for (key, value) in parsed.unwrap_or_default() {
        let key = key.to_ascii_lowercase();
        match (key.as_str(), value) {
            ("client-transport-security", value) => transport_security("", &key, value, values, notes)?,
            ("peer-transport-security", value) => transport_security("peer-", &key, value, values, notes)?,
            (name, Value::Object(settings)) if MAPS.iter().any(|(map, _)| *map == name) => {
                map(name, settings, values, notes)?;
            }
            (_, value) => file_value(&key, &key, &value, values, notes)?,
        }
    }
    Ok(())
}

/// Reads one of [`MAPS`].
fn map(
    map: &str,
    settings: serde_json::Map<String, Value>,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let keys = MAPS.iter().find(|(name, _)| *name == map).map_or(&[][..], |(_, keys)| keys);
    for (setting, value) in settings {
        let key = format!("{map}.{setting}");
        let value = match value {
            Value::Object(inner) if MAPS.iter().any(|(map, _)| *map == key) => {
                self::map(&key, inner, values, notes)?;
                continue;
            }
            value => value,
        };
        // To ignore TLS or a password would weaken what was asked for.
        if value.is_object() {
            return Err(UsageError::config(format!("{key} is not supported in the configuration file")));
        }
        let flag = keys.iter().find(|(name, _)| *name == setting).map(|(_, flag)| *flag);
        file_value(flag.unwrap_or(&key), &key, &value, values, notes)?;
    }
    Ok(())
}

fn transport_security(
    prefix: &str,
    key: &str,
    value: Value,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let Value::Object(settings) = value else {
        return Err(UsageError::config(format!("invalid {key} in the configuration file: expected a map")));
    };
    for (setting, value) in settings {
        let name = match setting.as_str() {
            // As in etcd, no flag sets it.
            "allowed-cn" if prefix.is_empty() => {
                values.allowed_client_names = allowed_names(&value, &format!("{key}.{setting}"))?;
                continue;
            }
            "crl-file" if prefix.is_empty() => "client-crl-file".to_owned(),
            "allowed-cn" => "peer-cert-allowed-cn".to_owned(),
            "allowed-hostname" if prefix.is_empty() => "client-cert-allowed-hostname".to_owned(),
            "allowed-hostname" => "peer-cert-allowed-hostname".to_owned(),
            _ => format!("{prefix}{setting}"),
        };
        file_value(&name, &format!("{key}.{setting}"), &value, values, notes)?;
    }
    Ok(())
}

/// The names of an array as they are, which may have commas, or of a text that separates them by commas. None at all
/// would be no restriction, so an empty name is refused.
fn allowed_names(value: &Value, key: &str) -> Result<Vec<String>, UsageError> {
    let names = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items.iter().map(scalar).collect::<Option<Vec<_>>>(),
        Value::String(text) if text.is_empty() => Some(vec![String::new()]),
        value => scalar(value).map(|text| list_of(&text)),
    };
    let mut names = names.ok_or_else(|| no_map(key))?;
    if names.is_empty() || names.iter().any(String::is_empty) {
        return Err(UsageError::config(format!(
            "invalid value for {key} in the configuration file: an empty name; leave the key out to allow every name"
        )));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn file_value(
    name: &str,
    key: &str,
    value: &Value,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let Some(flag) = table::flag(name).filter(|flag| !FLAGS_ONLY.contains(&flag.name)) else {
        let hint = if table::flag(name).is_some() { String::new() } else { suggestion::of_key(key) };
        let text = format!("{key}{hint}");
        notes.push(Note::warning("unrecognized key in the configuration file", [("key", &text)]));
        return Ok(());
    };
    let text = match value {
        Value::Null => return Ok(()),
        Value::Number(number) if flag.kind == FlagKind::Duration => format!("{number}ns"),
        value => scalar(value).ok_or_else(|| no_map(key))?,
    };
    // An empty text leaves the default, as an absent key does.
    if text.is_empty() && flag.kind != FlagKind::Text {
        Ok(())
    } else {
        values.set(name, &text, ValueSource::File)
    }
}

fn no_map(key: &str) -> UsageError {
    UsageError::config(format!("invalid value for {key} in the configuration file: expected no map"))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().map(scalar).collect::<Option<Vec<_>>>()?.join(",")),
        Value::Object(_) => None,
        plain => Some(plain.to_string()),
    }
}
