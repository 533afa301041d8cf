//! Global options that a command would ignore: refused instead.

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Global options that commands would ignore.
const WITHOUT_EFFECT: [(&str, &[&str]); 7] = [
    ("watch", &["open_loop", "duration", "warm_up"]),
    ("watch-get", &["open_loop", "duration", "warm_up"]),
    ("watch-latency", &["open_loop", "duration", "warm_up"]),
    ("kubernetes", &["open_loop", "warm_up"]),
    // It has its own numbers of connections and clients, its own targets, and tables instead of reports.
    ("suite", &["open_loop", "conns", "clients", "target_leader", "precise", "sample", "report_perfdash"]),
    ("completion", &["open_loop", "duration", "warm_up", "json", "html"]),
    ("report", &["open_loop", "duration", "warm_up", "json"]),
];

/// Refuses global options that have no effect on the command.
///
/// # Errors
/// The first such option.
pub(super) fn refuse_without_effect(matches: &ArgMatches) -> Result<(), String> {
    let Some((task, inner)) = matches.subcommand() else { return Ok(()) };
    let names = WITHOUT_EFFECT.iter().find(|(name, _)| *name == task).map_or(&[][..], |(_, names)| names);
    let found = names.iter().find(|name| given(matches, name) || given(inner, name));
    found.map_or(Ok(()), |name| Err(format!("--{} has no effect on {task}", name.replace('_', "-"))))
}

/// Whether an option stands in the line.
pub(super) fn given(matches: &ArgMatches, name: &str) -> bool {
    matches.try_contains_id(name).is_ok() && matches.value_source(name) == Some(ValueSource::CommandLine)
}
