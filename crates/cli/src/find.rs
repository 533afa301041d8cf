//! Which command a line means.
//!
//! The words that are not flags, nor values of flags, walk down the table: `--endpoints a:1 mem list -w json` is
//! `member list`. A flag that is not known here may take a value, so the word after it is skipped, as cobra does.

use crate::table::{Arg, Command, Flag, Kind, PageLayout, Program};

/// A command with those above it, and the line without the words that led to it.
pub struct Found {
    /// From the root to the command; never empty.
    pub path: Vec<&'static Command>,
    /// The other words of the line.
    pub rest: Vec<Arg>,
}

impl Found {
    /// The command itself.
    ///
    /// # Panics
    /// For an empty path, which [`find`] does not make.
    pub fn command(&self) -> &'static Command {
        // A path begins with the program.
        self.path.last().expect("a path is never empty")
    }
}

/// The names of a path below the root.
pub fn words(path: &[&'static Command]) -> String {
    let names: Vec<&str> = path.iter().skip(1).map(|command| command.name()).collect();
    names.join(" ")
}

/// The flags that a command knows, those from above included.
pub fn flags_of(program: Program, path: &[&'static Command]) -> impl Iterator<Item = &'static Flag> + use<> {
    let own: Vec<&'static Flag> =
        path.last().into_iter().flat_map(|command| program.flags(command)).collect();
    let shared: Vec<&'static Flag> = path.iter().flat_map(|command| command.shared_flags).collect();
    own.into_iter().chain(shared)
}

/// Finds the command of a line.
///
/// # Errors
///
/// The first word, when it is no command: with the message that says so.
pub fn find(program: Program, line: &[Arg]) -> Result<Found, String> {
    let mut found = Found { path: vec![program.root], rest: line.to_vec() };
    while let Some(at) = first_word(program, &found.path, &found.rest) {
        let Some(child) = child_called(program, found.command(), &found.rest[at]) else {
            let word = String::from_utf8_lossy(&found.rest[at]).into_owned();
            return if found.path.len() == 1 { Err(unknown(program, &word)) } else { Ok(found) };
        };
        found.rest.remove(at);
        found.path.push(child);
    }
    Ok(found)
}

/// Where the first word stands that is neither a flag nor the value of one.
fn first_word(program: Program, path: &[&'static Command], line: &[Arg]) -> Option<usize> {
    let mut at = 0;
    while at < line.len() {
        let word = line[at].as_slice();
        if word == b"--" {
            return None;
        }
        if takes_next(program, path, word) {
            at += 2;
            continue;
        }
        if !word.is_empty() && !word.starts_with(b"-") {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Whether a word is a flag whose value is the next word.
fn takes_next(program: Program, path: &[&'static Command], word: &[u8]) -> bool {
    if word.contains(&b'=') {
        return false;
    }
    let word = String::from_utf8_lossy(word);
    // Only etcdctl knows its flag for help while it looks for the command.
    if matches!(&*word, "--help" | "-h") {
        return program.layout != PageLayout::Split;
    }
    let known = |matches: &dyn Fn(&Flag) -> bool| flags_of(program, path).find(|flag| matches(flag));
    if let Some(name) = word.strip_prefix("--") {
        return known(&|flag| flag.name == name).is_none_or(|flag| flag.kind != Kind::Bool);
    }
    match word.strip_prefix('-') {
        Some(short) if short.len() == 1 => {
            known(&|flag| flag.short == short.chars().next()).is_none_or(|flag| flag.kind != Kind::Bool)
        }
        _ => false,
    }
}

/// The child of a command with this name, or the only one whose name begins so.
pub fn child_called(program: Program, command: &'static Command, word: &[u8]) -> Option<&'static Command> {
    let mut begin = Vec::new();
    for child in command.children.iter().filter(|child| program.has(child)) {
        if child.name().as_bytes() == word {
            return Some(child);
        }
        if program.layout != PageLayout::Whole && !child.own && child.name().as_bytes().starts_with(word) {
            begin.push(child);
        }
    }
    if begin.len() == 1 { begin.pop() } else { None }
}

/// Distance in letters up to which another command's name is suggested.
const MAX_SUGGESTED_DISTANCE: usize = 2;

/// The error for a word that is no command, with those that it may have meant.
fn unknown(program: Program, word: &str) -> String {
    let mut message =
        format!("unknown command {} for \"{}\"", crate::text::quote::quoted(word.as_bytes()), program.name);
    let lower = word.to_lowercase();
    let mut near: Vec<&str> = program
        .root
        .children
        .iter()
        .filter(|child| program.has(child))
        .map(Command::name)
        .filter(|name| name.starts_with(&lower) || distance(&lower, name) <= MAX_SUGGESTED_DISTANCE)
        .collect();
    near.sort_unstable();
    if !near.is_empty() {
        message.push_str("\n\nDid you mean this?\n");
        for name in near {
            message.push('\t');
            message.push_str(name);
            message.push('\n');
        }
    }
    message
}

/// How many letters must be added, dropped or replaced to make one word of the other (Levenshtein's distance).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (at, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[right.len()]
}
