//! The open destinations of log lines: what a writing thread writes to.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::journal;
use super::line::LineForm;
use super::queue::QueuedLine;
use super::rotation::RotatingFile;
use crate::config::{LogFormat, LogOutput, LogRotation};

/// A destination.
pub(super) enum OpenOutput {
    Stderr,
    Stdout,
    /// The journal of systemd.
    Journal,
    /// A file that is appended to.
    File {
        file: File,
        path: PathBuf,
    },
    /// A file that makes room for a new one.
    Rotating(RotatingFile),
}

/// A destination of log lines that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("--log-outputs: cannot open {path}: {cause}")]
pub(crate) struct OpenLogError {
    path: String,
    cause: io::Error,
}

impl OpenOutput {
    /// Opens a destination; a file that does not exist is created.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn open(
        output: &LogOutput,
        rotation: Option<&LogRotation>,
    ) -> Result<OpenOutput, OpenLogError> {
        let opened = match (output, rotation) {
            (LogOutput::Stderr, _) => Ok(OpenOutput::Stderr),
            (LogOutput::Stdout, _) => Ok(OpenOutput::Stdout),
            (LogOutput::Journal, _) => journal::find().map(|()| OpenOutput::Journal),
            (LogOutput::File(path), Some(rotation)) => {
                RotatingFile::open(path, rotation.clone()).map(OpenOutput::Rotating)
            }
            (LogOutput::File(path), None) => {
                open_for_appending(path).map(|file| OpenOutput::File { file, path: path.clone() })
            }
        };
        opened.map_err(|cause| OpenLogError { path: name(output), cause })
    }

    /// Writes a line in one write, so that lines of several writers never mix.
    ///
    /// # Errors
    /// What the system refuses; the line may have been written in part.
    pub(super) fn write(&mut self, line: &QueuedLine) -> io::Result<()> {
        let text = line.text.as_bytes();
        match self {
            OpenOutput::Stderr => io::stderr().lock().write_all(text),
            OpenOutput::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text).and_then(|()| stdout.flush())
            }
            // As in etcd, what the journal does not take goes to the standard error.
            OpenOutput::Journal => journal::send(line).or_else(|_| io::stderr().lock().write_all(text)),
            OpenOutput::File { file, .. } => file.write_all(text),
            OpenOutput::Rotating(file) => file.write(text),
        }
    }

    /// Opens a file again, under the name it was given: another program may have moved it away.
    ///
    /// # Errors
    /// What the system refuses; the file that was open stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        match self {
            OpenOutput::File { file, path } => *file = open_for_appending(path)?,
            OpenOutput::Rotating(file) => file.reopen()?,
            OpenOutput::Stderr | OpenOutput::Stdout | OpenOutput::Journal => {}
        }
        Ok(())
    }

    /// The form of its lines: the one that was asked for, or JSON, but columns at a terminal.
    pub(super) fn form(&self, asked: Option<LogFormat>) -> LineForm {
        match asked {
            Some(LogFormat::Json) => LineForm::Json,
            Some(LogFormat::Console) => LineForm::Console,
            None if self.is_terminal() => LineForm::Terminal { colour: wants_colour() },
            None => LineForm::Json,
        }
    }

    fn is_terminal(&self) -> bool {
        match self {
            OpenOutput::Stderr => io::stderr().is_terminal(),
            OpenOutput::Stdout => io::stdout().is_terminal(),
            OpenOutput::Journal | OpenOutput::File { .. } | OpenOutput::Rotating(_) => false,
        }
    }
}

/// What an output is called in `--log-outputs`.
pub(super) fn name(output: &LogOutput) -> String {
    match output {
        LogOutput::Stderr => "stderr".to_owned(),
        LogOutput::Stdout => "stdout".to_owned(),
        LogOutput::Journal => "systemd/journal".to_owned(),
        LogOutput::File(path) => path.display().to_string(),
    }
}

/// A terminal that cannot show colours, or a person who does not want them (<https://no-color.org>), has none.
fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

fn open_for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
