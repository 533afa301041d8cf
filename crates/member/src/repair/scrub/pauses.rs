//! How long the scrub pauses after each part: it gives way to others that wait for the disk.
//!
//! Many disks answer one request after the other: a write that comes behind a slow read waits for as long as that
//! takes. So it is not enough to bound the bytes a second. The longest of these pauses counts:
//!
//! ```text
//! rate           64 KiB read                 8 ms        no more than 8 MiB a second
//! disk time      they took 3 ms             45 ms        a sixteenth of the time at most
//! busy           clients write              0.5 s        a 64th of the rate
//! stall          they took 90 ms, usually 3   23 s       256 times as long: something else needs the disk
//! ```
//!
//! What is usual is learnt: on a slow disk every part takes long, and the share of the time alone bounds them.

use crate::config::ScrubRate;

/// Clients are writing when the log grows by more than this part of the scrub's own rate.
const BUSY_PART: u64 = 2;

/// While clients write, a pause is longer by this factor. At the usual rate 11 GB a day are still read.
const BUSY_FACTOR: u64 = 64;

/// A part that took so many times as long as usual met a stall.
const STALL_FACTOR: u64 = 8;

/// A shorter part met none, in nanoseconds: no request waited long for it.
const MIN_STALL_NS: u64 = 10_000_000;

/// The pause after a stall, in times of its length.
const STALL_PAUSES: u64 = 256;

/// What a part took is compared by blocks of so many bytes.
const BLOCK_BYTES: u64 = 4096;

/// Faster blocks come from memory and tell nothing of the disk, in nanoseconds.
const MIN_BLOCK_NS: u64 = 20_000;

/// The part of a new time in what is usual.
const LEARN_PART: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ScrubPauses {
    /// When the part that is read was begun.
    begun_ns: u64,
    /// Bytes that the log has grown by since the last part ended.
    written: u64,
    /// When the last part ended.
    ended_ns: u64,
    /// What a block from the disk usually takes, in nanoseconds; 0 before the first one.
    usual_ns: u64,
}

impl ScrubPauses {
    /// The log has grown by so many bytes.
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// A part is begun.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
    }

    /// The part has ended, with so many bytes read. Returns the pause after it, in nanoseconds.
    pub(super) fn end(&mut self, now_ns: u64, rate: &ScrubRate, bytes: u64) -> u64 {
        let took_ns = now_ns.saturating_sub(self.begun_ns);
        let by_rate_ns = times(bytes, 1_000_000_000) / rate.bytes_per_second.max(1);
        let by_share_ns = times(took_ns, rate.disk_time_part.saturating_sub(1));
        let by_writes_ns = if self.is_busy(now_ns, rate) { times(by_rate_ns, BUSY_FACTOR) } else { 0 };
        let by_stall_ns = match self.is_stall(took_ns, bytes) {
            true => times(took_ns, STALL_PAUSES).min(rate.max_stall_pause_ns),
            false => 0,
        };
        (self.written, self.ended_ns) = (0, now_ns);
        by_rate_ns.max(by_share_ns).max(by_writes_ns).max(by_stall_ns)
    }

    /// Whether clients write much, as it was since the last part.
    fn is_busy(&self, now_ns: u64, rate: &ScrubRate) -> bool {
        let since_ns = now_ns.saturating_sub(self.ended_ns);
        let usual = u128::from(rate.bytes_per_second / BUSY_PART) * u128::from(since_ns);
        u128::from(self.written) * 1_000_000_000 > usual
    }

    /// Whether a part took far longer than usual; learns from it.
    fn is_stall(&mut self, took_ns: u64, bytes: u64) -> bool {
        let block_ns = took_ns / bytes.div_ceil(BLOCK_BYTES).max(1);
        if block_ns < MIN_BLOCK_NS {
            return false;
        }
        let usual_ns = if self.usual_ns == 0 { block_ns } else { self.usual_ns };
        // A single stall must not make the next one usual.
        let learnt_ns = block_ns.min(times(usual_ns, 2));
        self.usual_ns = usual_ns - usual_ns / LEARN_PART + learnt_ns / LEARN_PART;
        took_ns >= MIN_STALL_NS && block_ns > times(usual_ns, STALL_FACTOR)
    }
}

fn times(number: u64, factor: u64) -> u64 {
    number.saturating_mul(factor)
}

#[cfg(test)]
mod tests {
    //! Each of the four pauses, and that a slow disk is not taken for a stall.
    use super::*;

    const MS: u64 = 1_000_000;
    const RATE: ScrubRate = ScrubRate {
        bytes_per_second: 8 << 20,
        disk_time_part: 16,
        max_stall_pause_ns: 600_000 * MS,
        first_after_ns: 0,
        round_ns: 0,
    };
    const PART: u64 = 64 << 10;
    /// The pause that the rate alone asks for.
    const BY_RATE_NS: u64 = PART * 1_000 * MS / RATE.bytes_per_second;

    /// Reads parts one after the other, without a pause.
    #[derive(Default)]
    struct Parts {
        pauses: ScrubPauses,
        now_ns: u64,
    }

    impl Parts {
        /// The pause after a part that took so long, while the log grew by so many bytes.
        fn pause_ns(&mut self, took_ns: u64, written: u64) -> u64 {
            self.pauses.begin(self.now_ns);
            self.pauses.wrote(written);
            self.now_ns += took_ns;
            let pause_ns = self.pauses.end(self.now_ns, &RATE, PART);
            self.now_ns += 1_000 * MS;
            pause_ns
        }
    }

    #[test]
    fn what_is_in_memory_is_read_at_the_rate() {
        assert_eq!(Parts::default().pause_ns(MS / 10, 0), BY_RATE_NS);
    }

    #[test]
    fn the_disk_is_used_for_a_part_of_the_time() {
        let mut parts = Parts::default();
        assert_eq!([parts.pause_ns(3 * MS, 0), parts.pause_ns(6 * MS, 0)], [45 * MS, 90 * MS]);
    }

    #[test]
    fn while_clients_write_the_rate_is_a_64th() {
        let mut parts = Parts::default();
        parts.pause_ns(MS / 10, 0);
        assert_eq!(parts.pause_ns(MS / 10, RATE.bytes_per_second / 4), BY_RATE_NS);
        assert_eq!(parts.pause_ns(MS / 10, RATE.bytes_per_second), 64 * BY_RATE_NS);
        assert_eq!(
            parts.pause_ns(MS / 10, 0),
            BY_RATE_NS,
            "only what was written since the last part counts"
        );
    }

    #[test]
    fn after_a_stall_it_waits_256_times_as_long() {
        let mut parts = Parts::default();
        (0..10).for_each(|_| _ = parts.pause_ns(3 * MS, 0));
        assert_eq!(parts.pause_ns(90 * MS, 0), 90 * 256 * MS);
        assert_eq!(parts.pause_ns(20 * MS, 0), 20 * 15 * MS, "not eight times what is usual");
        assert_eq!(parts.pause_ns(100 * MS, 0), 100 * 256 * MS, "one stall does not make the next one usual");
        assert_eq!(parts.pause_ns(10_000 * MS, 0), RATE.max_stall_pause_ns);
    }

    #[test]
    fn reads_from_memory_do_not_make_those_of_the_disk_look_slow() {
        let mut parts = Parts::default();
        parts.pause_ns(16 * MS, 0);
        (0..100).for_each(|_| _ = parts.pause_ns(MS / 10, 0));
        assert_eq!(parts.pause_ns(16 * MS, 0), 16 * 15 * MS);
    }

    #[test]
    fn a_slow_disk_is_read_at_its_part_of_the_time() {
        let mut parts = Parts::default();
        (0..10).for_each(|_| _ = parts.pause_ns(MS, 0));
        let pauses: Vec<u64> = (0..40).map(|_| parts.pause_ns(160 * MS, 0)).collect();
        assert_eq!(pauses[0], 160 * 256 * MS);
        assert_eq!(pauses[39], 160 * 15 * MS, "it was learnt: {pauses:?}");
    }
}
