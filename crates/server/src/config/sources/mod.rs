//! The sources of values: the command line in Go's style, `ETCD_` variables, and the configuration file ([`mod@file`]).

pub(super) mod file;
mod suggestion;

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
    pub(super) check: bool,
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
            "check" => request.check = truth(name, inline)?,
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
                    None => {
                        let hint = suggestion::of_flag(name);
                        let message = format!("flag provided but not defined: -{name}{hint}");
                        return Err(UsageError::usage(message));
                    }
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
/// A value that is not of its flag's kind; a variable beside the flag of the same meaning, as in etcd.
pub(super) fn environment(
    variables: &BTreeMap<String, String>,
    values: &mut FlagValues,
    notes: &mut Vec<Note>,
) -> Result<(), UsageError> {
    for (variable, text) in variables.iter().filter(|(variable, _)| variable.starts_with("ETCD_")) {
        let Some(flag) = table::flags().find(|flag| flag.variable() == *variable) else {
            if variable != FILE_VARIABLE {
                let pair = format!("{variable}={text}{}", suggestion::of_variable(variable));
                notes.push(Note::warning(
                    "unrecognized environment variable",
                    [("environment-variable", &pair)],
                ));
            }
            continue;
        };
        if values.is_set(flag.name) {
            return Err(UsageError::config(format!(
                "environment variable {variable} conflicts with the command-line flag --{} of the same meaning: unset \
                 the variable, or leave out the flag",
                flag.name
            )));
        } else if !text.is_empty() {
            values.set(flag.name, text, ValueSource::Environment)?;
            let fields = [("variable-name", variable.as_str()), ("variable-value", text)];
            notes.push(Note::info("recognized and used environment variable", fields));
        }
    }
    Ok(())
}
