//! Removes what no restore to a time that is kept needs.
//!
//! ```text
//! kept from here on:                       |
//! bases         A          B               |     C
//! log      1 2    3 4 5 6     7 8 9 10 11  |  12   13
//!
//! a restore to the first moment that is kept begins at B: A goes, then the log up to 6
//! ```
//!
//! A base goes before the entries behind it: an interruption leaves entries without a base, which nothing reads, and
//! never a base without its entries. The newest base before the moment stays, so the newest of all does.

use crate::error::ArchiveError;
use crate::names;
use crate::objects::Archive;

/// Removes bases and log objects that states before a time need alone, in milliseconds since 1970. Returns how many.
///
/// # Errors
/// The store failed.
pub(crate) async fn prune(archive: &Archive, before_ms: u64) -> Result<usize, ArchiveError> {
    let bases = archive.bases().await?;
    let Some(oldest_kept) = bases.iter().rev().find(|base| base.time_ms <= before_ms) else { return Ok(0) };
    let mut removed = 0;
    for base in bases.iter().filter(|base| *base < oldest_kept) {
        archive.remove(&base.path()).await?;
        removed += 1;
    }
    let logs = archive.logs().await?;
    // The last entry of a log object is at most the one before the next object.
    let ends = logs.iter().skip(1);
    for (first, _) in logs.iter().zip(ends).filter(|(_, next)| **next <= oldest_kept.index + 1) {
        archive.remove(&names::log_path(*first)).await?;
        removed += 1;
    }
    Ok(removed)
}
