//! How far a backup has read the log: what it has still to read stays there for a while.
//!
//! ```text
//! a backup asks for entries from 900 on     entries up to 899 may go
//! it does not ask again for ten minutes     nothing is kept for it any more
//! it asks again later                       900 may be gone: it begins with a new base
//! ```
//!
//! There is one position, that of the backup that asked last. A second backup of the same member is served, but nothing
//! is kept for the slower of the two.

/// How long entries are kept for a backup that does not ask: longer than the restart of its process takes, and short
/// beside the time that 256 MiB of log last under load.
const MAX_IDLE_NS: u64 = 600_000_000_000;

/// Bytes of payload that are kept at most: four segments.
const MAX_KEPT_BYTES: u64 = 256 << 20;

/// Entries that are kept at most: counting them takes about a millisecond, with each checkpoint.
const MAX_KEPT_ENTRIES: u64 = 1_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BackupReads {
    /// The next entry that is wanted, and when that was said.
    position: Option<(u64, u64)>,
}

impl BackupReads {
    /// A backup has everything before `next`.
    pub(crate) fn asked(&mut self, now_ns: u64, next: u64) {
        self.position = Some((next, now_ns));
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.position.take_if(|(_, asked_ns)| now_ns.saturating_sub(*asked_ns) > MAX_IDLE_NS);
    }

    /// Entries up to this index need not be kept for a backup. `index_before_last` returns the index of the log's entry
    /// before the last ones: at most so many, with so many bytes.
    pub(crate) fn forgettable(&self, index_before_last: impl FnOnce(u64, u64) -> u64) -> u64 {
        self.position.map_or(u64::MAX, |(next, _)| {
            next.saturating_sub(1).max(index_before_last(MAX_KEPT_ENTRIES, MAX_KEPT_BYTES))
        })
    }
}

#[cfg(test)]
mod tests {
    //! For how long entries are kept, and how many.
    use super::*;

    #[test]
    fn what_a_backup_has_not_read_is_kept_until_it_stays_away() {
        let mut reads = BackupReads::default();
        assert_eq!(reads.forgettable(|_, _| 0), u64::MAX);
        reads.asked(5, 900);
        assert_eq!(reads.forgettable(|_, _| 0), 899);
        reads.tick(5 + MAX_IDLE_NS);
        assert_eq!(reads.forgettable(|_, _| 0), 899);
        reads.tick(6 + MAX_IDLE_NS);
        assert_eq!(reads.forgettable(|_, _| 0), u64::MAX);
    }

    #[test]
    fn no_more_is_kept_than_the_limits_allow() {
        let mut reads = BackupReads::default();
        reads.asked(5, 900);
        // A log of entries of 1 KiB, then one of empty ones.
        let last = 2_000_000;
        let of_kibibytes = |count: u64, bytes: u64| last - count.min(bytes >> 10);
        assert_eq!(reads.forgettable(of_kibibytes), last - (256 << 10));
        assert_eq!(reads.forgettable(|count, _| last - count), last - 1_000_000);
        reads.asked(6, last - 7);
        assert_eq!(reads.forgettable(of_kibibytes), last - 8);
    }
}
