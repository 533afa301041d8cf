//! What is logged, in which form, and to which destinations.

use std::path::PathBuf;

use serde::Deserialize;

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
    /// The journal of systemd.
    Journal,
    /// A file, opened for appending.
    File(PathBuf),
}

impl LogOutput {
    /// Reads `--log-outputs`: each destination once; `/dev/null` outranks all others.
    ///
    /// # Errors
    /// `default` beside others.
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
                "systemd/journal" => LogOutput::Journal,
                path => LogOutput::File(path.into()),
            };
            if !outputs.contains(&output) {
                outputs.push(output);
            }
        }
        Ok(outputs)
    }
}

/// Days after which, size at which, and how often a log file makes room for a new one; as etcd's library for it,
/// lumberjack, reads its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LogRotation {
    /// Size of a file in MiB; 0 for `DEFAULT_LOG_FILE_MIB`.
    #[serde(rename = "maxsize")]
    pub max_size_mib: u32,
    /// Days for which old files are kept; 0 means forever.
    #[serde(rename = "maxage")]
    pub max_age_days: u32,
    /// Old files that are kept; 0 for all.
    #[serde(rename = "maxbackups")]
    pub max_backups: u32,
    /// Whether the names of old files have the local time instead of UTC.
    #[serde(rename = "localtime")]
    pub local_time: bool,
    /// Whether old files are compressed with gzip.
    pub compress: bool,
}

/// Size of a log file unless it is set; lumberjack's.
const DEFAULT_LOG_FILE_MIB: u32 = 100;

impl LogRotation {
    /// Reads `--log-rotation-config-json`, which `--enable-log-rotation` makes take effect for `outputs`.
    ///
    /// # Errors
    /// Text that is not such an object, and outputs that are not exactly one file beside others.
    pub(crate) fn parse(text: &str, outputs: &[LogOutput]) -> Result<LogRotation, String> {
        let files = outputs.iter().filter(|output| matches!(output, LogOutput::File(_))).count();
        if files != 1 {
            let message = "--log-outputs requires a single file path when --enable-log-rotation is set";
            return Err(format!("{message} (found {files})"));
        }
        let rotation: LogRotation = serde_json::from_str(text).map_err(|error| {
            let kind = if error.is_data() { "invalid" } else { "improperly formatted" };
            let allowed = "expected {\"maxsize\": MiB, \"maxage\": days, \"maxbackups\": count, \"localtime\": bool, \
                           \"compress\": bool}";
            format!("{kind} log rotation config: {error} in --log-rotation-config-json {text:?}; {allowed}")
        })?;
        Ok(rotation)
    }

    /// Bytes of a file.
    pub(crate) fn max_file_bytes(&self) -> u64 {
        let mib = if self.max_size_mib == 0 { DEFAULT_LOG_FILE_MIB } else { self.max_size_mib };
        u64::from(mib) << 20
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
        assert_eq!(read("stderr,systemd/journal"), Ok(vec![LogOutput::Stderr, LogOutput::Journal]));
    }

    #[test]
    fn rotation_is_read_as_lumberjack_does() {
        let file = [LogOutput::Stderr, LogOutput::File("/tmp/x".into())];
        let read = |text| LogRotation::parse(text, &file);
        let rotation =
            read(r#"{"maxsize": 1, "maxage": 2, "maxbackups": 3, "compress": true}"#).expect("good");
        let expected = LogRotation {
            max_size_mib: 1,
            max_age_days: 2,
            max_backups: 3,
            local_time: false,
            compress: true,
        };
        assert_eq!((rotation.max_file_bytes(), rotation), (1 << 20, expected));
        assert_eq!(read("{}").expect("good").max_file_bytes(), 100 << 20);
        assert!(read("{").expect_err("text").starts_with("improperly formatted log rotation config: "));
        assert!(read(r#"{"maxsize": "x"}"#).expect_err("type").starts_with("invalid log rotation config: "));
        for outputs in [&[LogOutput::Stderr][..], &[LogOutput::File("a".into()), LogOutput::File("b".into())]]
        {
            assert!(LogRotation::parse("{}", outputs).is_err(), "{outputs:?}");
        }
    }

    #[test]
    fn levels_and_formats_are_read() {
        assert_eq!(LogLevel::parse("fatal"), Ok(LogLevel::Error));
        assert!(LogLevel::parse("loud").expect_err("level").starts_with("unknown log level: loud"));
        let error = "unknown log format: xml, supported values json, console";
        assert_eq!(LogFormat::parse("xml"), Err(error.to_owned()));
    }
}
