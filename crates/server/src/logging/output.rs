//! The open destinations of log lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;

use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogOutput;

enum OpenOutput {
    Stderr,
    Stdout,
    File(File),
}

impl OpenOutput {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        match self {
            OpenOutput::Stderr => io::stderr().lock().write_all(line),
            OpenOutput::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line).and_then(|()| stdout.flush())
            }
            // Opened for appending: a line is one write, which no other writer can split.
            OpenOutput::File(file) => (&*file).write_all(line),
        }
    }
}

/// A file for log lines that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("--log-outputs: cannot open {path}: {cause}")]
pub(crate) struct OpenLogError {
    path: String,
    cause: std::io::Error,
}

/// All destinations.
#[derive(Clone)]
pub(super) struct LogOutputs(Arc<[OpenOutput]>);

impl LogOutputs {
    /// Opens files, creating those that do not exist.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub(super) fn open(outputs: &[LogOutput]) -> Result<LogOutputs, OpenLogError> {
        let open = |output: &LogOutput| match output {
            LogOutput::Stderr => Ok(OpenOutput::Stderr),
            LogOutput::Stdout => Ok(OpenOutput::Stdout),
            LogOutput::File(path) => match OpenOptions::new().append(true).create(true).open(path) {
                Ok(file) => Ok(OpenOutput::File(file)),
                Err(cause) => Err(OpenLogError { path: path.display().to_string(), cause }),
            },
        };
        Ok(LogOutputs(outputs.iter().map(open).collect::<Result<_, _>>()?))
    }
}

impl Write for LogOutputs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for sink in self.0.iter() {
            // There is nowhere to report the failure; the other outputs may still work.
            let _ = sink.write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogOutputs {
    type Writer = LogOutputs;

    fn make_writer(&'a self) -> LogOutputs {
        self.clone()
    }
}
