//! The pages: what a program or a command does, as cobra lays them out.

use crate::find::words;
use crate::parse::HELP;
use crate::table::{Arg, Command, Flag, Group, Kind, PageLayout, Program};

/// The last line of each page.
const OPTIONS_HINT: &str = "options\" for a list of global command-line options (applies to all commands).\n";

/// Width to which names of commands are filled up, at least.
const MIN_NAME_WIDTH: usize = 11;

/// The page of a command: `--help`.
pub fn page(program: Program, path: &[&'static Command]) -> String {
    if program.layout == PageLayout::Terse {
        return usage(program, path);
    }
    let command = path.last().copied().unwrap_or(program.root);
    let about = if command.long.is_empty() { command.short } else { command.long };
    let mut page = String::new();
    if !about.is_empty() {
        page.push_str(about.trim_end());
        page.push_str("\n\n");
    }
    page.push_str(&usage(program, path));
    if program.layout == PageLayout::Split {
        page.push_str(&format!("Use \"{} {OPTIONS_HINT}", program.original));
    }
    program.named(page)
}

/// How a command is called: the lower part of its page, shown alone after an error.
pub fn usage(program: Program, path: &[&'static Command]) -> String {
    let command = path.last().copied().unwrap_or(program.root);
    let mut page = "Usage:\n  ".to_owned();
    let name = [program.original, &words(path)].join(" ").trim_end().to_owned();
    if command.runs() {
        page.push_str(name.strip_suffix(command.name()).unwrap_or(&name));
        page.push_str(command.usage);
        // etcd's programs show the lines of these commands without the word.
        if !["completion", "bash"].contains(&command.name()) {
            page.push_str(" [flags]");
        }
    } else {
        page.push_str(&name);
        page.push_str(" [command]");
    }
    if !command.example.is_empty() {
        page.push_str("\n\nExamples:\n");
        page.push_str(command.example);
    }
    if !command.runs() {
        children(program, command, &mut page);
    }
    // etcdctl has too many global flags to show them everywhere.
    let hides_global = usize::from(program.layout == PageLayout::Split);
    let shows_own = path.len() > hides_global;
    let own: Vec<&Flag> =
        program.flags(command).chain(if shows_own { command.shared_flags } else { &[] }).collect();
    if shows_own {
        page.push_str("\n\nFlags:\n");
        page.push_str(flag_lines(&own, Some(command.name())).trim_end());
    }
    let above: Vec<&Flag> = path
        .iter()
        .skip(hides_global)
        .rev()
        .skip(1)
        .flat_map(|command| command.shared_flags.iter())
        .collect();
    if !above.is_empty() {
        page.push_str("\n\nGlobal Flags:\n");
        page.push_str(flag_lines(&above, None).trim_end());
    }
    if !command.runs() {
        page.push_str(&format!("\n\nUse \"{name} [command] --help\" for more information about a command."));
    }
    page.push('\n');
    program.named(page)
}

/// The global flags: what `options` prints.
pub fn options(program: Program) -> String {
    let flags: Vec<&Flag> = program.root.shared_flags.iter().collect();
    let lines = flag_lines(&flags, None);
    program.named(format!("The following options can be passed to any command:\n\n{lines}"))
}

/// What `help` says of words that are no command. cobra gives a program its flag `--help` only when it runs a command
/// itself, so this page is without it.
pub fn unknown_topic(program: Program, words: &[Arg]) -> String {
    let words: Vec<String> =
        words.iter().map(|word| format!("`{}`", String::from_utf8_lossy(word))).collect();
    let usage = usage(program, &[program.root]);
    let lines = usage.split_inclusive('\n').filter(|line| !line.starts_with("  -h, --help "));
    format!("Unknown help topic [{}]\n{}", words.join(" "), lines.collect::<String>())
}

/// The commands below one, in groups if they have any.
fn children(program: Program, command: &Command, page: &mut String) {
    let mut all: Vec<&Command> = command.children.iter().filter(|child| program.has(child)).collect();
    all.sort_unstable_by_key(|child| child.name());
    let width = all.iter().map(|child| child.name().len()).max().unwrap_or(0).max(MIN_NAME_WIDTH);
    let line = |child: &Command| format!("\n  {:width$} {}", child.name(), child.short);
    if all.iter().all(|child| child.group.is_none()) {
        page.push_str("\n\nAvailable Commands:");
        page.extend(all.iter().map(|child| line(child)));
        return;
    }
    for (group, title) in Group::ALL {
        page.push_str("\n\n");
        page.push_str(title);
        page.extend(all.iter().filter(|child| child.group == Some(group)).map(|child| line(child)));
    }
}

/// One line for each flag, sorted, with their texts below each other.
fn flag_lines(flags: &[&Flag], help_for: Option<&str>) -> String {
    let mut lines: Vec<(&str, String, String)> =
        flags.iter().map(|flag| (flag.name, left(flag), right(flag))).collect();
    if let Some(name) = help_for {
        lines.push((HELP.name, left(&HELP), format!("help for {name}")));
    }
    lines.sort_unstable();
    let width = lines.iter().map(|(_, left, _)| left.len()).max().unwrap_or(0);
    lines.into_iter().map(|(_, left, right)| format!("{left:width$}   {right}\n")).collect()
}

/// The flag and the kind of its value.
fn left(flag: &Flag) -> String {
    let short = flag.short.map_or("      ".to_owned(), |short| format!("  -{short}, "));
    let kind = match flag.kind {
        Kind::Bool => "",
        Kind::Int => " int",
        Kind::Uint => " uint",
        Kind::Float => " float",
        Kind::Text => " string",
        Kind::List => " strings",
        Kind::Duration => " duration",
    };
    format!("{short}--{}{kind}", flag.name)
}

/// What the flag is for, and its default unless that is nothing.
fn right(flag: &Flag) -> String {
    let default = match flag.kind {
        _ if flag.default.is_empty()
            || flag.default == "0" && flag.kind != Kind::Text
            || flag.default == "false" =>
        {
            return flag.usage.to_owned();
        }
        Kind::Text => format!("\"{}\"", flag.default),
        Kind::List => format!("[{}]", flag.default),
        _ => flag.default.to_owned(),
    };
    format!("{} (default {default})", flag.usage)
}
