//! Which files are emptied, and when: a pure function of how much of the space on disk is garbage.
//!
//! Emptying a file costs a copy of what lives in it, so files that hold little else are cheap, and the more of a file
//! may be live, the sooner space comes back. How much may be live therefore follows from the *spread*, the bytes on
//! disk in percent of the live ones:
//!
//! ```text
//!   under load   spread 130 or less: 25 % live      writes of relocation stay below a third of those of clients
//!                spread 130 to 180:  25 to 80 %
//!                more:               80 %           4 bytes copied for each that is freed, the most there is
//!   idle         spread above 108:   90 %           no client waits for the disk
//! ```

use log::{Candidate, Log};

/// Below so many bytes on disk, garbage beyond [`MIN_LIVE_PERCENT`] is left alone: a handful of segments.
const SMALL_BYTES: u64 = 256 << 20;

/// A file is always worth a copy when at most this share of it is live.
const MIN_LIVE_PERCENT: u64 = 25;
/// A file is worth a copy under load when at most this share of it is live, however much garbage there is.
const MAX_LIVE_PERCENT: u64 = 80;
/// A file is worth a copy when idle, or for a client that asked to defragment, when at most this share of it is live.
pub(super) const MAX_IDLE_LIVE_PERCENT: u64 = 90;

/// The spread up to which only files with little else are emptied under load.
const LOW_SPREAD_PERCENT: u64 = 130;
/// The spread from which relocation works as hard as it can.
const HIGH_SPREAD_PERCENT: u64 = 180;
/// The spread that is aimed at when nothing is written.
const IDLE_SPREAD_PERCENT: u64 = 108;

/// Files of less than this share of a segment are joined when there are [`MANY_SMALL_FILES`] of them, whatever lives in
/// them: each costs a descriptor, and a place in every list of files.
const SMALL_FILE_PERCENT: u64 = 25;
const MANY_SMALL_FILES: usize = 8;

/// Files emptied by one job.
const MAX_SOURCES: usize = 64;

/// The greatest share of a file, in percent, that may be live for it to be worth a copy.
pub(super) fn max_live_percent(bytes: u64, live_bytes: u64, is_idle: bool) -> u64 {
    let spread = bytes.saturating_mul(100) / live_bytes.max(1);
    if bytes < SMALL_BYTES {
        return MIN_LIVE_PERCENT;
    }
    if is_idle && spread > IDLE_SPREAD_PERCENT {
        return MAX_IDLE_LIVE_PERCENT;
    }
    let step = spread.clamp(LOW_SPREAD_PERCENT, HIGH_SPREAD_PERCENT) - LOW_SPREAD_PERCENT;
    let range = MAX_LIVE_PERCENT - MIN_LIVE_PERCENT;
    MIN_LIVE_PERCENT + range * step / (HIGH_SPREAD_PERCENT - LOW_SPREAD_PERCENT)
}

/// The files for one job that copies about `max_bytes`: those that gain most first, then small ones to be joined.
/// `is_given_up` is true for files that are left alone.
pub(super) fn sources(
    log: &Log,
    max_live_percent: u64,
    max_bytes: u64,
    is_given_up: impl Fn(&Candidate) -> bool,
) -> Vec<u32> {
    let mut candidates = log.relocation_candidates(max_live_percent);
    candidates.retain(|file| !is_given_up(file));
    if candidates.is_empty() && max_live_percent == MAX_IDLE_LIVE_PERCENT {
        candidates = small_files(log.relocation_candidates(100));
    }
    let mut bytes = 0;
    let fits = |file: &&Candidate| {
        let is_first = bytes == 0;
        bytes += file.copy_bytes;
        is_first || bytes <= max_bytes
    };
    candidates.iter().take(MAX_SOURCES).take_while(fits).map(|file| file.file).collect()
}

/// The small files among these, if they are many.
fn small_files(mut files: Vec<Candidate>) -> Vec<Candidate> {
    files.retain(|file| file.file_bytes * 100 < log::SEGMENT_BYTES * SMALL_FILE_PERCENT);
    if files.len() < MANY_SMALL_FILES { Vec::new() } else { files }
}

#[cfg(test)]
mod tests {
    //! The shares at the ends of each range, and on an idle member.
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn more_garbage_makes_fuller_files_worth_a_copy() {
        let share = |percent: u64| max_live_percent(GIB * percent / 100, GIB, false);
        assert_eq!([100, 130, 155, 181, 400].map(share), [25, 25, 51, 80, 80]);
    }

    #[test]
    fn on_an_idle_member_nearly_every_file_is_worth_it_until_the_aim_is_reached() {
        assert_eq!(max_live_percent(GIB * 120 / 100, GIB, true), 90);
        assert_eq!(max_live_percent(GIB * 105 / 100, GIB, true), 25);
        assert_eq!([108, 109].map(|percent| max_live_percent(GIB * percent, 100 * GIB, true)), [25, 90]);
    }

    #[test]
    fn a_small_directory_is_left_alone() {
        assert_eq!(max_live_percent(100 << 20, 1 << 20, true), 25);
        assert_eq!(max_live_percent(100 << 20, 0, false), 25);
        assert_eq!(
            [(256 << 20) - 1, 256 << 20].map(|bytes| max_live_percent(bytes, 1 << 20, true)),
            [25, 90]
        );
    }

    #[test]
    fn few_small_files_are_not_joined() {
        let file = |file| Candidate { file, live_bytes: 10, file_bytes: 20, copy_bytes: 10 };
        assert!(small_files((0..7).map(file).collect()).is_empty());
        assert_eq!(small_files((0..8).map(file).collect()).len(), 8);
    }
}
