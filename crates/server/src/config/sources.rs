//! The sources of values: the command line in Go's style, `ETCD_` variables, the configuration file.

use std::collections::BTreeMap;

use super::diagnostics::{Note, UsageError};
use super::table::{self, FlagKind, OBSOLETE};
use super::types::scalar::parse_bool;
use super::values::{FlagValues, ValueSource};

/// What a command line contains beside flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) file: Option<String>,
}

/// Reads `-name value`, `--name=value` and bare `--switch` into `values`, as Go's flag package does.
///
/// # Errors
/// An unknown flag, a flag without its value, or an argument that is not a flag.
pub(super) fn command_line(
    args: &[String],
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<CommandLine, UsageError> {
    let mut request = CommandLine::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(body) = arg.strip_prefix('-').filter(|body| !body.is_empty()) else {
            return Err(UsageError::config(format!("{arg:?} is not a valid flag")));
        };
        let body = body.strip_prefix('-').unwrap_or(body);
        if body.is_empty() {
            return match args.next() {
                Some(rest) => Err(UsageError::config(format!("{rest:?} is not a valid flag"))),
                None => Ok(request),
            };
        }
        if body.starts_with(['-', '=']) {
            return Err(UsageError::usage(format!("bad flag syntax: {arg}")));
        }
        let (name, inline) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        match name {
            "h" | "help" => request.help = true,
            "version" => request.version = truth(name, inline)?,
            _ => {
                let needed = |args: &mut std::slice::Iter<'_, String>| {
                    let value = inline.map(str::to_owned).or_else(|| args.next().cloned());
                    value.ok_or_else(|| UsageError::usage(format!("flag needs an argument: -{name}")))
                };
                match table::flag(name).map(|flag| flag.kind) {
                    Some(FlagKind::Bool) => {
                        values.set(name, inline.unwrap_or("true"), ValueSource::CommandLine)?
                    }
                    Some(_) => values.set(name, &needed(&mut args)?, ValueSource::CommandLine)?,
                    None if name == "config-file" => request.file = Some(needed(&mut args)?),
                    None if OBSOLETE.contains(&name) => {
                        needed(&mut args)?;
                        notes
                            .push(Note::warning("flag is no longer supported and ignored", [("flag", name)]));
                    }
                    None => return Err(UsageError::usage(format!("flag provided but not defined: -{name}"))),
                }
            }
        }
    }
    Ok(request)
}

fn truth(name: &str, value: Option<&str>) -> Result<bool, UsageError> {
    parse_bool(value.unwrap_or("true")).ok_or_else(|| {
        let value = value.unwrap_or_default();
        UsageError::usage(format!("invalid boolean value {value:?} for -{name}: expected true or false"))
    })
}

/// Name of the variable that stands for `--config-file`.
pub(super) const FILE_VARIABLE: &str = "ETCD_CONFIG_FILE";

/// Takes flags that the command line did not set from `variables`. Empty variables count as unset.
///
/// # Errors
/// A value that is not of its flag's kind.
pub(super) fn environment(
    variables: &BTreeMap<String, String>,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    for (variable, text) in variables.iter().filter(|(variable, _)| variable.starts_with("ETCD_")) {
        let Some(flag) = table::flags().find(|flag| flag.variable() == *variable) else {
            if variable != FILE_VARIABLE {
                let pair = format!("{variable}={text}");
                notes.push(Note::warning(
                    "unrecognized environment variable",
                    [("environment-variable", &pair)],
                ));
            }
            continue;
        };
        if values.is_set(flag.name) {
            let message = "environment variable is overruled by the command-line flag of the same meaning";
            notes.push(Note::warning(message, [("environment-variable", variable)]));
        } else if !text.is_empty() {
            values.set(flag.name, text, ValueSource::Environment)?;
            let fields = [("variable-name", variable.as_str()), ("variable-value", text)];
            notes.push(Note::info("recognized and used environment variable", fields));
        }
    }
    Ok(())
}

/// Takes flags from the text of a configuration file: YAML (or JSON) with the names of flags as keys.
///
/// Durations are whole nanoseconds there, as for etcd; Go's style is read as well. TLS settings may stand in the maps
/// `client-transport-security` and `peer-transport-security`.
///
/// # Errors
/// Text that is not a YAML map, or a value that is not of its flag's kind.
pub(super) fn file(text: &str, values: &mut FlagValues, notes: &mut Vec<Note>) -> Result<(), UsageError> {
    let parsed: Option<serde_json::Map<String, serde_json::Value>> = yaml_serde::from_str(text)
        .map_err(|e| UsageError::config(format!("error parsing configuration file: {e}")))?;
    for (key, value) in parsed.unwrap_or_default() {
        let key = key.to_ascii_lowercase();
        match (key.as_str(), value) {
            ("client-transport-security", value) => transport_security("", &key, value, values, notes)?,
            ("peer-transport-security", value) => transport_security("peer-", &key, value, values, notes)?,
            (_, value) => file_value(&key, &key, &value, values, notes)?,
        }
    }
    Ok(())
}

fn transport_security(
    prefix: &str,
    key: &str,
    value: serde_json::Value,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let serde_json::Value::Object(settings) = value else {
        return Err(UsageError::config(format!("invalid {key} in the configuration file: expected a map")));
    };
    for (setting, value) in settings {
        let name = match setting.as_str() {
            "allowed-cn" => "peer-cert-allowed-cn".to_owned(),
            "allowed-hostname" if prefix.is_empty() => "client-cert-allowed-hostname".to_owned(),
            "allowed-hostname" => "peer-cert-allowed-hostname".to_owned(),
            _ => format!("{prefix}{setting}"),
        };
        file_value(&name, &format!("{key}.{setting}"), &value, values, notes)?;
    }
    Ok(())
}

fn file_value(
    name: &str,
    key: &str,
    value: &serde_json::Value,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    let Some(flag) = table::flag(name) else {
        notes.push(Note::warning("unrecognized key in the configuration file", [("key", key)]));
        return Ok(());
    };
    let text = match value {
        serde_json::Value::Null => return Ok(()),
        serde_json::Value::Number(number) if flag.kind == FlagKind::Duration => format!("{number}ns"),
        value => scalar(value).ok_or_else(|| {
            UsageError::config(format!("invalid value for {key} in the configuration file: expected no map"))
        })?,
    };
    // An empty text leaves the default, as an absent key does.
    if text.is_empty() && flag.kind != FlagKind::Text {
        Ok(())
    } else {
        values.set(name, &text, ValueSource::File)
    }
}

fn scalar(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Array(items) => {
            Some(items.iter().map(scalar).collect::<Option<Vec<_>>>()?.join(","))
        }
        serde_json::Value::Object(_) => None,
        plain => Some(plain.to_string()),
    }
}
