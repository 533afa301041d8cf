//! The range and the revision that a request names.

use api::Error;

use crate::index::KeyBounds;
use crate::types::KeyRange;

impl KeyRange {
    /// The range with its end resolved. Must not be a single key.
    pub(crate) fn bounds(&self) -> KeyBounds<'_> {
        bounds(&self.start, &self.end)
    }
}

/// Resolves the special end `\0`. An empty end means a single key, which is [looked up](super::select::select_key)
/// instead.
pub(crate) fn bounds<'a>(start: &'a [u8], end: &'a [u8]) -> KeyBounds<'a> {
    debug_assert!(!end.is_empty(), "a single key is looked up, not walked to");
    KeyBounds { start, end: (end != [0]).then_some(end) }
}

/// Checks the requested revision of a range outside a transaction, and resolves 0 and below to the newest.
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`]
pub(crate) fn check_revision(asked: i64, current: i64, compacted: i64) -> Result<i64, Error> {
    if asked > current {
        return Err(Error::FutureRevision);
    }
    let revision = if asked <= 0 { current } else { asked };
    if revision < compacted {
        return Err(Error::Compacted);
    }
    Ok(revision)
}

/// Checks the requested revision of a range in a transaction. Unlike outside one, a negative revision counts as
/// compacted, except that -1 is allowed before the first compaction: etcd compares it with its mark for "never
/// compacted", which is -1. An allowed revision of 0 or below means the newest.
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`]
pub(crate) fn check_revision_in_txn(asked: i64, current: i64, compacted: i64) -> Result<(), Error> {
    if asked > current {
        return Err(Error::FutureRevision);
    }
    if asked != 0 && asked < compacted {
        return Err(Error::Compacted);
    }
    Ok(())
}
