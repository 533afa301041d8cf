//! What is logged, in which form, and to which destinations.

use std::path::PathBuf;

/// Least severity that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Events of normal operation.
    Info,
    /// Events that deserve attention.
    Warn,
    /// Failures. etcd's `panic` and `fatal` select this level too.
    Error,
}

impl LogLevel {
    /// Reads `--log-level`.
    ///
    /// # Errors
    /// An unknown level.
    pub fn parse(text: &str) -> Result<LogLevel, String> {
        match text {
            "debug" => Ok(LogLevel::Debug),
            "info" | "" => Ok(LogLevel::Info),
            "warn" => Ok(LogLevel::Warn),
            "error" | "dpanic" | "panic" | "fatal" => Ok(LogLevel::Error),
            _ => Err(format!(
                "unknown log level: {text}, supported values debug, info, warn, error, panic, fatal"
            )),
        }
    }
}

/// Form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object.
    Json,
    /// Columns separated by tabs, for people.
    Console,
}

impl LogFormat {
    /// Reads `--log-format`.
    ///
    /// # Errors
    /// An unknown format.
    pub fn parse(text: &str) -> Result<LogFormat, String> {
        match text {
            "json" | "" => Ok(LogFormat::Json),
            "console" => Ok(LogFormat::Console),
            _ => Err(format!("unknown log format: {text}, supported values json, console")),
        }
    }
}

/// One destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard error, also etcd's `default`.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, opened for appending.
    File(PathBuf),
}

impl LogOutput {
    /// Reads `--log-outputs`: each destination once; `/dev/null` outranks all others.
    ///
    /// # Errors
    /// `default` beside others, or the systemd journal.
    pub fn parse_list(items: &[String]) -> Result<Vec<LogOutput>, String> {
        if items.is_empty() {
            return Ok(vec![LogOutput::Stderr]);
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
                "default" | "stderr" => LogOutput::Stderr,
                "stdout" => LogOutput::Stdout,
                "systemd/journal" => {
                    let hint = "log to stderr and let systemd collect it";
                    return Err(format!("--log-outputs: {item} is not supported yet; {hint}"));
                }
                path => LogOutput::File(path.into()),
            };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    //! The values of the flags, as etcd reads them.

    use super::*;

    #[test]
    fn outputs_are_read() {
        let read =
            |text: &str| LogOutput::parse_list(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("default"), Ok(vec![LogOutput::Stderr]));
        assert_eq!(
            read("stderr,stdout,/tmp/x"),
            Ok(vec![LogOutput::Stderr, LogOutput::Stdout, LogOutput::File("/tmp/x".into())])
        );
        assert_eq!(read("/dev/null,stdout"), Ok(vec![]));
        assert_eq!(
            read("default,stdout"),
            Err("multi logoutput for \"default\" is not supported yet".to_owned())
        );
        assert!(read("systemd/journal").is_err());
    }

    #[test]
    fn levels_and_formats_are_read() {
        assert_eq!(LogLevel::parse("fatal"), Ok(LogLevel::Error));
        assert!(LogLevel::parse("loud").expect_err("level").starts_with("unknown log level: loud"));
        let error = "unknown log format: xml, supported values json, console";
        assert_eq!(LogFormat::parse("xml"), Err(error.to_owned()));
    }
}
