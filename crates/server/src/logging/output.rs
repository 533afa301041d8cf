//! Where lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tracing_subscriber::fmt::MakeWriter;

use super::LoggingError;

/// One place for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard error, also etcd's `default`.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file that lines are appended to.
    File(PathBuf),
}

impl Output {
    /// Reads `--log-outputs`: each place once; `/dev/null` outranks all others.
    ///
    /// # Errors
    /// `default` beside others, or the systemd journal.
    pub fn parse_list(items: &[String]) -> Result<Vec<Output>, String> {
        if items.is_empty() {
            return Ok(vec![Output::Stderr]);
        }
        if items.len() > 1 && items.iter().any(|item| item == "default") {
            return Err("multi logoutput for \"default\" is not supported yet".to_owned());
        }
        if items.iter().any(|item| item == "/dev/null") {
            return Ok(Vec::new());
        }
        let mut outputs = Vec::new();
        for item in items {
            let output = match item.as_str() {
                "default" | "stderr" => Output::Stderr,
                "stdout" => Output::Stdout,
                "systemd/journal" => {
                    let hint = "log to stderr and let systemd collect it";
                    return Err(format!("--log-outputs: {item} is not supported yet; {hint}"));
                }
                path => Output::File(path.into()),
            };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        Ok(outputs)
    }
}

enum Sink {
    Stderr,
    Stdout,
    File(File),
}

impl Sink {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stderr => io::stderr().lock().write_all(line),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line).and_then(|()| stdout.flush())
            }
            // Opened for appending: one write lands whole, whoever else appends.
            Sink::File(file) => (&*file).write_all(line),
        }
    }
}

/// All places, open.
#[derive(Clone)]
pub struct Outputs(Arc<[Sink]>);

impl Outputs {
    /// Opens files, creating those that do not exist.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn open(outputs: &[Output]) -> Result<Outputs, LoggingError> {
        let open = |output: &Output| match output {
            Output::Stderr => Ok(Sink::Stderr),
            Output::Stdout => Ok(Sink::Stdout),
            Output::File(path) => match OpenOptions::new().append(true).create(true).open(path) {
                Ok(file) => Ok(Sink::File(file)),
                Err(cause) => Err(LoggingError::Open { path: path.display().to_string(), cause }),
            },
        };
        Ok(Outputs(outputs.iter().map(open).collect::<Result<_, _>>()?))
    }
}

impl Write for Outputs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for sink in self.0.iter() {
            // Nobody could be told; the other outputs may still work.
            let _ = sink.write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Outputs {
    type Writer = Outputs;

    fn make_writer(&'a self) -> Outputs {
        self.clone()
    }
}
