//! The group-commit delay: when the leader may propose its next batch.
//!
//! One entry is proposed per batch, and each batch costs a sync on every member. With no batch in flight a command
//! leaves at once. Otherwise at most [`MAX_IN_FLIGHT`] batches are in flight, and the second starts no sooner than
//! [`delay_ns`] after the first: without a delay, a high rate of commands would sync a handful at a time.
//!
//! A *large batch* shows that many clients send at once. Their answers return together and their next commands arrive
//! one by one, so a batch that leaves at once would hold only the first few of them. After a large batch the delay
//! applies also when no batch is in flight, until at most a dozen smaller batches have followed, fewer after a smaller
//! peak (RFC 0008).
//!
//! A delay serves to gather commands. It ends early when nothing is left to gather:
//!
//! - A *full batch* waits (as many commands, or bytes, as one may have). It leaves as soon as fewer than
//!   [`MAX_IN_FLIGHT`] are in flight: the disks and the quorum decide how many full batches there are in a second, not
//!   the clock.
//! - A batch waits that is about as large as the largest recent one, nothing is in flight, and no command has arrived
//!   for `SILENCE_NS`: most clients that were answered have sent their next command (RFC 0024).
//!
//! ```text
//! a lone client   batch at 0 ms, committed, next at once
//! some clients    batch at 0 ms; second while it is in flight: 0.3 ms; third: after a commit
//! 100 clients     100 cmds at 0 ms, 100 at 1.2 ms (all were back at 1 ms), 100 at 2.4 ms
//! 500 clients     500 cmds at 0 ms, 480 at 3 ms, 510 at 6 ms: they take longer than that to be back
//! 5000 clients    1000 cmds at 0 ms, 1000 at once, and 1000 after each commit
//! ```

/// Batches proposed and not yet committed. One that is being written while the next one collects keeps the disk busy;
/// more would only make each smaller.
pub const MAX_IN_FLIGHT: usize = 2;

/// Least delay between two batches while another is in flight, in nanoseconds: about three syncs of a prepared file.
const MIN_DELAY_NS: u64 = 300_000;

/// Each command of a batch adds this to the delay until the next, in nanoseconds: the cost of a sync is then a small
/// part of the cost of its commands.
const DELAY_PER_COMMAND_NS: u64 = 20_000;

/// Commands that make a batch large: more than some dozens of clients ever send at once.
const LARGE_BATCH: usize = 64;

/// Delay after a large batch, in nanoseconds: well below what its clients wait anyway.
const LARGE_BATCH_DELAY_NS: u64 = 3_000_000;

/// After each batch this part of the recent peak is forgotten, so that even the largest batch stops counting as recent
/// after a dozen small ones.
const FORGOTTEN_PART: usize = 4;

/// The delay after a large batch ends early when no command has arrived for so long, in nanoseconds. 50,000 commands
/// a second arrive on two cores, so that it is ten times the usual gap.
const SILENCE_NS: u64 = 200_000;

/// Ends the delay early only for a batch that is smaller than the recent peak by at most this part.
const MISSING_PART: usize = 8;

/// Least delay between a batch of `commands` commands and the next, in nanoseconds.
pub fn delay_ns(commands: usize) -> u64 {
    if commands < LARGE_BATCH {
        (commands as u64 * DELAY_PER_COMMAND_NS).max(MIN_DELAY_NS)
    } else {
        LARGE_BATCH_DELAY_NS
    }
}

/// What waits to leave with the next batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Commands that wait.
    pub commands: usize,
    /// Whether they fill a batch, by their number or their bytes.
    pub is_full: bool,
}

/// Decides when the next batch may leave; see the module.
#[derive(Debug, Default)]
pub struct GroupCommitDelay {
    in_flight: usize,
    last_ns: u64,
    /// Commands of the last batch.
    last_size: usize,
    /// Commands of the largest recent batch.
    peak: usize,
    /// Commands that waited when it was last looked.
    waited: usize,
    /// When more were first seen to wait than before.
    arrived_ns: u64,
}

impl GroupCommitDelay {
    /// Whether a batch may leave now.
    pub fn ready(&self, now_ns: u64, waiting: Waiting) -> bool {
        self.ready_at_ns(waiting).is_some_and(|at_ns| now_ns >= at_ns)
    }

    /// When a batch may leave, 0 for at once; `None` while too many are in flight.
    pub fn ready_at_ns(&self, waiting: Waiting) -> Option<u64> {
        match self.in_flight {
            _ if self.in_flight >= MAX_IN_FLIGHT => None,
            _ if waiting.is_full => Some(0),
            _ if self.peak >= LARGE_BATCH => Some(self.gathered_at_ns(waiting.commands)),
            0 => Some(0),
            _ => Some(self.last_ns + delay_ns(self.last_size)),
        }
    }

    /// When the batch after a large one has gathered what there is.
    fn gathered_at_ns(&self, commands: usize) -> u64 {
        let delayed_ns = self.last_ns + LARGE_BATCH_DELAY_NS;
        let is_usual = commands >= LARGE_BATCH.max(self.peak - self.peak / MISSING_PART);
        if is_usual && self.in_flight == 0 {
            delayed_ns.min(self.arrived_ns + SILENCE_NS)
        } else {
            delayed_ns
        }
    }

    /// Notes that so many commands wait now. To be called in each step, before [`Self::ready`].
    pub fn observe(&mut self, now_ns: u64, commands: usize) {
        if commands > self.waited {
            self.arrived_ns = now_ns;
        }
        self.waited = commands;
    }

    /// A batch of `size` commands was proposed; `left` more wait behind it.
    pub fn started(&mut self, now_ns: u64, size: usize, left: usize) {
        self.in_flight += 1;
        self.last_ns = now_ns;
        self.last_size = size;
        self.waited = left;
        self.peak = size.max(self.peak - self.peak / FORGOTTEN_PART);
    }

    /// A batch proposed here was committed.
    pub fn finished(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    //! When batches may leave.
    use super::super::batch::MAX_COMMANDS;
    use super::*;

    const FEW: Waiting = Waiting { commands: 1, is_full: false };
    const FULL: Waiting = Waiting { commands: MAX_COMMANDS, is_full: true };

    #[test]
    fn a_lone_batch_leaves_at_once_the_second_after_the_delay_the_third_after_a_commit() {
        let mut delay = GroupCommitDelay::default();
        assert!(delay.ready(5, FEW));
        delay.started(5, 1, 0);
        assert!(!delay.ready(5 + MIN_DELAY_NS - 1, FEW));
        assert_eq!(delay.ready_at_ns(FEW), Some(5 + MIN_DELAY_NS));
        assert!(delay.ready(5 + MIN_DELAY_NS, FEW));
        delay.started(5 + MIN_DELAY_NS, 1, 0);
        assert!(!delay.ready(u64::MAX, FEW));
        assert_eq!(delay.ready_at_ns(FEW), None);
        delay.finished();
        delay.finished();
        assert!(delay.ready(0, FEW));
    }

    #[test]
    fn the_delay_grows_with_the_batch() {
        assert_eq!(delay_ns(1), MIN_DELAY_NS);
        assert_eq!(delay_ns(50), 50 * DELAY_PER_COMMAND_NS);
        assert_eq!(delay_ns(usize::MAX), LARGE_BATCH_DELAY_NS);
        let mut delay = GroupCommitDelay::default();
        delay.started(0, 50, 0);
        assert_eq!(delay.ready_at_ns(FEW), Some(50 * DELAY_PER_COMMAND_NS));
        delay.finished();
        assert_eq!(delay.ready_at_ns(FEW), Some(0), "a few dozen clients do not wait for each other");
    }

    #[test]
    fn a_full_batch_waits_for_nothing_but_those_in_flight() {
        let mut delay = GroupCommitDelay::default();
        delay.started(0, MAX_COMMANDS, 0);
        assert!(!delay.ready(1, FEW), "others are gathered");
        assert!(delay.ready(1, FULL), "there is nothing to gather");
        delay.started(1, MAX_COMMANDS, 0);
        assert_eq!(delay.ready_at_ns(FULL), None);
        delay.finished();
        assert!(delay.ready(2, FULL), "one is committed, so the next one may follow");
    }

    #[test]
    fn the_delay_of_large_batches_ends_after_a_dozen_small_ones() {
        let mut delay = GroupCommitDelay::default();
        delay.started(0, MAX_COMMANDS, 0);
        delay.finished();
        let mut now = 0;
        let mut batches = 0;
        while delay.ready_at_ns(FEW) == Some(now + LARGE_BATCH_DELAY_NS) {
            now += LARGE_BATCH_DELAY_NS;
            delay.started(now, 1, 0);
            delay.finished();
            batches += 1;
        }
        assert_eq!(delay.ready_at_ns(FEW), Some(0));
        assert!((1..=12).contains(&batches), "{batches} batches were delayed");
    }

    #[test]
    fn the_delay_of_large_batches_ends_when_their_clients_are_back_and_silent() {
        let mut delay = GroupCommitDelay::default();
        delay.started(0, 100, 0);
        let back = |commands| Waiting { commands, is_full: false };
        delay.observe(1_000_000, 88);
        assert_eq!(delay.ready_at_ns(back(88)), Some(LARGE_BATCH_DELAY_NS), "one is in flight");
        delay.finished();
        delay.observe(1_100_000, 87);
        assert_eq!(delay.ready_at_ns(back(87)), Some(LARGE_BATCH_DELAY_NS), "too many are missing");
        delay.observe(1_200_000, 88);
        delay.observe(1_300_000, 88);
        assert_eq!(
            delay.ready_at_ns(back(88)),
            Some(1_200_000 + SILENCE_NS),
            "since the last came, nothing did"
        );
        delay.observe(2_900_000, 100);
        assert_eq!(
            delay.ready_at_ns(back(100)),
            Some(LARGE_BATCH_DELAY_NS),
            "never later than without silence"
        );
        delay.started(LARGE_BATCH_DELAY_NS, 100, 20);
        delay.finished();
        delay.observe(LARGE_BATCH_DELAY_NS + 1, 20);
        delay.observe(LARGE_BATCH_DELAY_NS + 2, 70);
        delay.started(LARGE_BATCH_DELAY_NS + 3, 70, 0);
        delay.finished();
        delay.observe(LARGE_BATCH_DELAY_NS + 4, 63);
        assert_eq!(delay.ready_at_ns(back(63)), Some(2 * LARGE_BATCH_DELAY_NS + 3), "a small batch waits");
    }
}
