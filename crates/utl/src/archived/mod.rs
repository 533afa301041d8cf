//! Archives of continuous backups: restoring a state of one, and checking it.
//!
//! | file | holds |
//! |---|---|
//! | `target` | which state is requested, and which bases it can begin with |
//! | `restore` | `restore`: a data directory of Stele with that state |
//! | `verify` | `backup verify`: reads everything, and says what can be restored |
//!
//! The crate `archive` reads objects; what entries mean is decided by `member::restore`.

pub(crate) mod restore;
mod target;
pub(crate) mod verify;

use std::path::Path;

use archive::{ArchiveError, ArchiveReader, SecretKey};

use crate::line::{CommandLine, Refusal};

impl From<ArchiveError> for Refusal {
    fn from(error: ArchiveError) -> Refusal {
        Refusal::error(error.to_string())
    }
}

/// Opens the archive that the line names, with its key.
///
/// # Errors
/// There is none, it cannot be reached, or has another key.
fn open(line: &CommandLine) -> Result<ArchiveReader, Refusal> {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args(
            "one argument is required, the archive: file:///DIRECTORY or s3://BUCKET/PREFIX",
        ));
    }
    let key = match line.values.text("encryption-key-file") {
        "" => None,
        path => Some(SecretKey::read(Path::new(path))?),
    };
    Ok(ArchiveReader::open(&line.arg(0), key)?)
}

/// A time for people: UTC, in milliseconds.
fn shown_time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms since 1970"), |time| format!("{time:.3}"))
}
