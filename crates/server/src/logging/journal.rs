//! The journal of systemd, by its native protocol: a datagram of fields for each line. The fields are those of etcd, so
//! that what filters etcd's journal filters this one.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use libsystemd::logging::{Priority, SD_JOURNAL_SOCK_PATH, journal_send};
use tracing::Level;

use super::queue::QueuedLine;

/// Checks that there is a journal.
///
/// # Errors
/// When its socket does not exist or takes nothing.
pub(super) fn find() -> io::Result<()> {
    UnixDatagram::unbound()?.connect(SD_JOURNAL_SOCK_PATH)
}

/// Sends a line.
///
/// # Errors
/// What the journal or the system refuses.
pub(super) fn send(line: &QueuedLine) -> io::Result<()> {
    let fields = [("PACKAGE", package(&line.caller)), ("SYSLOG_IDENTIFIER", &identifier())];
    journal_send(priority(line.level), line.text.trim_end(), fields.into_iter()).map_err(io::Error::other)
}

fn priority(level: Level) -> Priority {
    match level {
        Level::ERROR => Priority::Error,
        Level::WARN => Priority::Warning,
        Level::INFO => Priority::Info,
        Level::DEBUG | Level::TRACE => Priority::Debug,
    }
}

/// The directory of a caller.
fn package(caller: &str) -> &str {
    caller.rsplit_once('/').map_or(".", |(directory, _)| directory)
}

/// The name that this program was called by.
fn identifier() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    Path::new(&called)
        .file_name()
        .map_or_else(|| "stele".to_owned(), |name| name.to_string_lossy().into_owned())
}
