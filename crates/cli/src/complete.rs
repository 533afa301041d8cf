//! What could come next on a line, for shells: cobra's hidden command `__complete`.
//!
//! A shell's script calls the program with the words so far, the last one unfinished, and reads one proposal on each
//! line: the word, a tab, its description. The last line is `:` and a number that says what else to offer.

use crate::find::{find, flags_of};
use crate::table::{Arg, Flag, Kind, Program};

/// The names of the shells, for `completion`.
pub const SHELLS: [&str; 4] = ["bash", "zsh", "fish", "powershell"];

/// The shell should offer names of files too.
const OFFER_FILES: u8 = 0;

/// The shell should offer no names of files.
const NO_FILES: u8 = 4;

/// The answer to `__complete words… unfinished`.
pub fn proposals(program: Program, line: &[Arg], descriptions: bool) -> String {
    let Some((unfinished, before)) = line.split_last() else { return format!(":{NO_FILES}\n") };
    let unfinished = String::from_utf8_lossy(unfinished).into_owned();
    let (proposed, files) = match find(program, before) {
        Ok(found) => {
            let flags: Vec<&'static Flag> = flags_of(program, &found.path).collect();
            match value_of(&flags, before, &unfinished) {
                Some((flag, begin, prefix)) => values(flag, begin, prefix),
                None => words(program, &found, &flags, &unfinished),
            }
        }
        Err(_) => (Vec::new(), NO_FILES),
    };
    let mut text = String::new();
    for (word, description) in proposed {
        text.push_str(&word);
        if descriptions && !description.is_empty() {
            text.push('\t');
            text.push_str(&program.named(description));
        }
        text.push('\n');
    }
    text.push_str(&format!(":{files}\n"));
    text
}

/// The flag whose value is being written, what of the value stands there, and what stands before it in the same word.
fn value_of<'a>(
    flags: &[&'static Flag],
    before: &[Arg],
    unfinished: &'a str,
) -> Option<(&'static Flag, &'a str, &'a str)> {
    let named = |name: &str| -> Option<&'static Flag> {
        let matches: &dyn Fn(&Flag) -> bool = match name.strip_prefix("--") {
            Some(long) => &move |flag| flag.name == long,
            None => &move |flag| name.strip_prefix('-').is_some_and(|short| short.chars().eq(flag.short)),
        };
        flags.iter().copied().find(|flag| matches(flag))
    };
    if let Some((name, value)) = unfinished.split_once('=').filter(|_| unfinished.starts_with('-')) {
        return Some((named(name)?, value, &unfinished[..=name.len()]));
    }
    let flag = named(std::str::from_utf8(before.last()?).ok()?).filter(|flag| flag.kind != Kind::Bool)?;
    Some((flag, unfinished, ""))
}

type Proposed = (Vec<(String, String)>, u8);

fn values(flag: &Flag, begin: &str, prefix: &str) -> Proposed {
    let matching = flag.choices.iter().filter(|choice| choice.starts_with(begin));
    (matching.map(|choice| (format!("{prefix}{choice}"), String::new())).collect(), OFFER_FILES)
}

/// Commands, or flags if the word begins like one.
fn words(
    program: Program,
    found: &crate::find::Found,
    flags: &[&'static Flag],
    unfinished: &str,
) -> Proposed {
    if unfinished.starts_with('-') {
        let mut names: Vec<(String, String)> = flags
            .iter()
            // Global flags are many, and the same everywhere: they are offered once a letter of their names is there.
            .filter(|flag| {
                unfinished.len() > 2
                    || !program.root.shared_flags.iter().any(|global| global.name == flag.name)
            })
            .map(|flag| (format!("--{}", flag.name), flag.usage.to_owned()))
            .filter(|(name, _)| name.starts_with(unfinished))
            .collect();
        names.sort();
        return (names, NO_FILES);
    }
    let command = found.command();
    if command.name() == "completion" {
        let shells = SHELLS.iter().filter(|shell| shell.starts_with(unfinished));
        return (shells.map(|shell| ((*shell).to_owned(), String::new())).collect(), NO_FILES);
    }
    let mut names: Vec<(String, String)> = command
        .children
        .iter()
        .filter(|child| program.has(child) && child.name().starts_with(unfinished))
        .map(|child| (child.name().to_owned(), child.short.to_owned()))
        .collect();
    names.sort();
    (names, if command.runs() { OFFER_FILES } else { NO_FILES })
}
