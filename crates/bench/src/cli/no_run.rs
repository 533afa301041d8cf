//! What a line comes to when it is not run: a page, or what is wrong with it.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The exit code of a line that cannot be read: cobra's, -1.
pub(crate) const WRONG_LINE: u8 = 255;

/// What a line comes to when it is not run.
#[derive(Debug)]
pub(crate) enum NoRun {
    /// A page that was asked for.
    Page(String),
    /// What is wrong, in one line.
    Wrong(String),
    /// What `benchmark` says of a line on standard error, with its exit code.
    Refused { text: String, code: u8 },
}

/// What is wrong, as clap found it, in one line; or the page that it shows.
pub(super) fn one_line(error: &clap::Error) -> NoRun {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    // The name of a flag, without how its value is written.
    let argument = context(ContextKind::InvalidArg);
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
    let said = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return NoRun::Page(error.render().to_string());
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => format!("unknown flag: {flag}"),
        ErrorKind::UnknownArgument => format!("unexpected argument \"{flag}\""),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command \"{}\"", context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingRequiredArgument => format!("missing: {argument}"),
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue).is_empty() => {
            format!("flag needs an argument: {flag}")
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    };
    NoRun::Wrong(said)
}
