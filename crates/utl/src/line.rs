//! What a command works with: the values of its flags, its arguments, where it prints, and how it ends.

use std::io::Write;
use std::path::PathBuf;

use cli::parse::Values;
use cli::{Arg, BarKind, Program, Streams, code};
use indicatif::ProgressBar;

/// Why a command stops before its end.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u8,
    /// What was wrong, and what to do; on one line, but for the lists of `verify`.
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    /// Something failed.
    pub(crate) fn error(message: impl Into<String>) -> Refusal {
        Refusal::new(code::ERROR, message)
    }

    /// Wrong arguments.
    pub(crate) fn bad_args(message: impl Into<String>) -> Refusal {
        Refusal::new(code::BAD_ARGS, message)
    }
}

/// The end of a command.
pub(crate) type CommandEnd = Result<(), Refusal>;

/// What a command works with.
pub(crate) struct CommandLine {
    pub(crate) program: Program,
    pub(crate) values: Values,
    /// The arguments, without flags.
    pub(crate) args: Vec<Arg>,
    pub(crate) streams: Streams,
}

impl CommandLine {
    pub(crate) fn new(program: Program, line: Vec<Arg>, streams: Streams) -> CommandLine {
        CommandLine { program, values: Values::default(), args: line, streams }
    }

    /// Prints a line to standard error.
    pub(crate) fn complain(&mut self, line: &str) {
        // Where errors cannot be printed, that cannot be said either.
        let _ = writeln!(self.streams.errors, "{line}");
    }

    /// An argument as text.
    pub(crate) fn arg(&self, at: usize) -> String {
        self.args.get(at).map(|arg| String::from_utf8_lossy(arg).into_owned()).unwrap_or_default()
    }

    /// An argument as the name of a file.
    pub(crate) fn path(&self, at: usize) -> PathBuf {
        use std::os::unix::ffi::OsStringExt;
        let bytes = self.args.get(at).cloned().unwrap_or_default();
        PathBuf::from(std::ffi::OsString::from_vec(bytes))
    }

    /// Prints a line to standard output.
    ///
    /// # Errors
    /// It is closed.
    pub(crate) fn say(&mut self, text: &str) -> CommandEnd {
        let out = &mut self.streams.out;
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            // A reader that closed its end early (`| head`) is no failure.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Refusal::error(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A bar of bytes on standard error, if that is a terminal.
    pub(crate) fn bytes_bar(&self, what: &'static str, total: u64) -> ProgressBar {
        self.streams.bar(BarKind::Bytes(what), total)
    }

    /// A bar of things that are counted, on standard error, if that is a terminal.
    pub(crate) fn count_bar(&self, what: &'static str, unit: &'static str, total: u64) -> ProgressBar {
        self.streams.bar(BarKind::Count(what, unit), total)
    }

    /// A line on standard error, if that is a terminal, about a task of unknown length.
    pub(crate) fn waiting_bar(&self, what: &'static str) -> ProgressBar {
        self.streams.bar(BarKind::Waiting(what), 0)
    }
}

/// An error of the system as Go writes it, which begins in a lower-case letter: `stat x: no such file or directory`.
pub(crate) fn system_error(action: &str, path: &std::path::Path, error: &std::io::Error) -> Refusal {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Refusal::error(format!("{action} {}: {why}", path.display()))
}
