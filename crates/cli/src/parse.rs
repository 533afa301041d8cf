//! The values of a command's flags, and its arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::find::flags_of;
use crate::table::{Arg, Command, Flag, Kind, Program};
use crate::values;

/// What the flags of a line say; flags that were not given have their defaults.
#[derive(Default)]
pub struct Values {
    given: BTreeMap<&'static str, Value>,
    defaults: BTreeMap<&'static str, &'static str>,
}

#[derive(Clone)]
struct Value {
    text: String,
    from_line: bool,
}

impl Values {
    /// The defaults of these flags.
    pub fn of(flags: impl Iterator<Item = &'static Flag>) -> Self {
        Self { given: BTreeMap::new(), defaults: flags.map(|flag| (flag.name, flag.default)).collect() }
    }

    /// Whether the line gave this flag; a variable of the environment does not count.
    pub fn on_line(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(|value| value.from_line)
    }

    /// Whether the line or the environment gave this flag.
    pub fn given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The text of a flag; empty for one that the command does not have.
    pub fn text(&self, name: &str) -> &str {
        match self.given.get(name) {
            Some(value) => &value.text,
            None => self.defaults.get(name).copied().unwrap_or_default(),
        }
    }

    /// Whether a switch is on.
    pub fn switch(&self, name: &str) -> bool {
        values::parse_bool(self.text(name)).unwrap_or(false)
    }

    /// A number; it was checked when it was set.
    pub fn int(&self, name: &str) -> i64 {
        values::parse_int(self.text(name), 0).unwrap_or_default()
    }

    /// A number without a sign; it was checked when it was set.
    pub fn uint(&self, name: &str) -> u64 {
        values::parse_uint(self.text(name), 0).unwrap_or_default()
    }

    /// A duration; it was checked when it was set.
    pub fn duration(&self, name: &str) -> Duration {
        values::parse_duration(self.text(name)).unwrap_or_default()
    }

    /// The texts of a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        match self.text(name) {
            "" => Vec::new(),
            text => text.split(',').map(|text| text.trim().to_owned()).collect(),
        }
    }

    /// Sets a flag after a check of its value.
    ///
    /// # Errors
    ///
    /// Go's message when the value does not fit.
    pub fn set(&mut self, flag: &'static Flag, text: &str, from_line: bool) -> Result<(), String> {
        values::check(flag.kind, text)?;
        match self.given.get_mut(flag.name) {
            Some(value) if flag.kind == Kind::List && value.from_line => {
                value.text.push(',');
                value.text.push_str(text);
            }
            _ => {
                self.given.insert(flag.name, Value { text: text.to_owned(), from_line });
            }
        }
        Ok(())
    }
}

/// A line as its command sees it.
pub struct Parsed {
    /// What its flags say.
    pub values: Values,
    /// What is no flag.
    pub args: Vec<Arg>,
    /// Whether `--help` or `-h` was among the flags.
    pub help: bool,
}

/// The flag of every command that asks for its page.
pub const HELP: Flag =
    Flag { name: "help", short: Some('h'), kind: Kind::Bool, default: "false", usage: "", choices: &[] };

static HELP_FLAG: Flag = HELP;

/// Reads the flags and arguments of a command.
///
/// # Errors
///
/// The first flag that does not exist, lacks its value or has a wrong one: with pflag's message.
pub fn parse(program: Program, path: &[&'static Command], line: &[Arg]) -> Result<Parsed, String> {
    let flags: Vec<&'static Flag> = flags_of(program, path).chain([&HELP_FLAG]).collect();
    let mut parsed = Parsed { values: Values::of(flags.iter().copied()), args: Vec::new(), help: false };
    let mut words = line.iter();
    while let Some(word) = words.next() {
        if word == b"--" {
            parsed.args.extend(words.cloned());
            break;
        }
        if word.len() < 2 || word[0] != b'-' {
            parsed.args.push(word.clone());
            continue;
        }
        let word = String::from_utf8_lossy(word).into_owned();
        match word.strip_prefix("--") {
            Some(long) => long_flag(&flags, long, &mut words, &mut parsed.values)?,
            None => short_flags(&flags, &word[1..], &mut words, &mut parsed.values)?,
        }
    }
    parsed.help = parsed.values.switch("help");
    Ok(parsed)
}

/// `name`, `name=value` or `name value`.
fn long_flag<'a>(
    flags: &[&'static Flag],
    word: &str,
    words: &mut impl Iterator<Item = &'a Arg>,
    values: &mut Values,
) -> Result<(), String> {
    if word.is_empty() || word.starts_with('-') || word.starts_with('=') {
        return Err(format!("bad flag syntax: --{word}"));
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    let flag =
        *flags.iter().find(|flag| flag.name == name).ok_or_else(|| format!("unknown flag: --{name}"))?;
    let value = match value {
        Some(value) => value,
        None if flag.kind == Kind::Bool => "true".to_owned(),
        None => match words.next() {
            Some(value) => String::from_utf8_lossy(value).into_owned(),
            None => return Err(format!("flag needs an argument: --{name}")),
        },
    };
    set(values, flag, &value)
}

/// `w value`, `wvalue`, `w=value`, or several switches in one word.
fn short_flags<'a>(
    flags: &[&'static Flag],
    word: &str,
    words: &mut impl Iterator<Item = &'a Arg>,
    values: &mut Values,
) -> Result<(), String> {
    let mut rest = word;
    while let Some(letter) = rest.chars().next() {
        let inside = rest;
        rest = &rest[letter.len_utf8()..];
        let flag = flags
            .iter()
            .find(|flag| flag.short == Some(letter))
            .ok_or_else(|| format!("unknown shorthand flag: '{letter}' in -{inside}"))?;
        let value = match rest.strip_prefix('=') {
            Some(value) => Some(value.to_owned()),
            None if flag.kind == Kind::Bool => {
                set(values, flag, "true")?;
                continue;
            }
            None if !rest.is_empty() => Some(rest.to_owned()),
            None => words.next().map(|value| String::from_utf8_lossy(value).into_owned()),
        };
        let value = value.ok_or_else(|| format!("flag needs an argument: '{letter}' in -{inside}"))?;
        return set(values, flag, &value);
    }
    Ok(())
}

fn set(values: &mut Values, flag: &'static Flag, value: &str) -> Result<(), String> {
    values.set(flag, value, true).map_err(|why| {
        let value = crate::text::quote::quoted(value.as_bytes());
        let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        format!("invalid argument {value} for \"{short}--{}\" flag: {why}", flag.name)
    })
}
