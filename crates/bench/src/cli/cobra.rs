//! Lines of etcd's `benchmark`, read as it reads them: what exists, its pages, and what it says of a wrong line.
//!
//! A line that may run comes out in one form: the command, `--option=value` for each option that was given, and behind
//! `--` the keys of `range`; all else that is no option has no effect, as in etcd's program.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ::cli::find::{Found, find, flags_of, words};
use ::cli::parse::{Parsed, parse};
use ::cli::text::quote::quoted;
use ::cli::{Arg, Kind, code, help};

use super::benchmark::BENCHMARK;
use super::no_run::{NoRun, WRONG_LINE};

/// Reads a line; returns the words of the same line in one form.
///
/// # Errors
/// A page that was asked for, or what etcd's program says of the line.
pub(super) fn read(line: &[OsString]) -> Result<Vec<OsString>, NoRun> {
    let line: Vec<Arg> = line.iter().map(|word| word.as_bytes().to_vec()).collect();
    let found = find(BENCHMARK, &line).map_err(|message| {
        refused(format!("Error: {message}\nRun 'benchmark --help' for usage.\n{message}"), WRONG_LINE)
    })?;
    let parsed =
        parse(BENCHMARK, &found.path, &found.rest).map_err(|message| wrong_usage(&found, &message))?;
    if parsed.help || !found.command().runs() {
        return Err(NoRun::Page(help::page(BENCHMARK, &found.path)));
    }
    match words(&found.path).as_str() {
        "help" => Err(help_page(&parsed.args)),
        path if !has_known_values(path, &parsed) => {
            Err(refused(format!("{}<nil>", help::usage(BENCHMARK, &found.path)), code::ERROR))
        }
        path if path.starts_with("completion ") && !parsed.args.is_empty() => {
            let message = format!("unknown command {} for \"benchmark {path}\"", quoted(&parsed.args[0]));
            Err(wrong_usage(&found, &message))
        }
        _ => Ok(in_one_form(&found, parsed)),
    }
}

fn refused(text: String, code: u8) -> NoRun {
    NoRun::Refused { text, code }
}

/// cobra and the program both print the message.
fn wrong_usage(found: &Found, message: &str) -> NoRun {
    refused(format!("Error: {message}\n{}\n{message}", help::usage(BENCHMARK, &found.path)), WRONG_LINE)
}

/// The page of the command that the arguments of `help` name.
fn help_page(args: &[Arg]) -> NoRun {
    match find(BENCHMARK, args) {
        Ok(found) if found.rest.is_empty() || found.path.len() > 1 => {
            NoRun::Page(help::page(BENCHMARK, &found.path))
        }
        _ => refused(help::unknown_topic(BENCHMARK, args).trim_end().to_owned(), 0),
    }
}

/// Whether a command knows the values of its options, and has its keys. For others etcd's program prints how the
/// command is called, and an error that is none.
fn has_known_values(command: &str, parsed: &Parsed) -> bool {
    let is_known = |option: &str, known: &[&str]| {
        let value = parsed.values.text(option);
        value.is_empty() || known.contains(&value)
    };
    is_known("consistency", &["l", "s"])
        && is_known("isolation", &["c", "r", "s", "ss"])
        && (command != "range" || (1..=2).contains(&parsed.args.len()))
}

fn in_one_form(found: &Found, parsed: Parsed) -> Vec<OsString> {
    let mut line: Vec<OsString> = found.path.iter().skip(1).map(|command| command.name().into()).collect();
    let values = parsed.values;
    for flag in flags_of(BENCHMARK, &found.path).filter(|flag| values.on_line(flag.name)) {
        let value = match flag.kind {
            Kind::Bool => values.switch(flag.name).to_string(),
            Kind::Int => values.int(flag.name).to_string(),
            Kind::Uint => values.uint(flag.name).to_string(),
            _ => values.text(flag.name).to_owned(),
        };
        line.push(format!("--{}={value}", flag.name).into());
    }
    if found.command().name() == "range" {
        line.push("--".into());
        line.extend(parsed.args.into_iter().map(OsString::from_vec));
    }
    line
}
