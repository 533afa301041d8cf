//! The phases of a call: what it waited for, and what took its time.
//!
//! No clock is read for them. The raft loop reads it twice in each iteration, and a call when it begins and when it is
//! answered; an answer brings the times of the loop with it (`raft_loop/worker_queues.rs`), and the call keeps them.
//!
//! ```text
//! put   begins -- queue --> iteration takes it -- commit --> one applies it -- apply --> its end -- answer --> ends
//! get   begins -- queue --> iteration takes it -- agreement ---------------------------> its end -- read ----> ends
//! ```
//!
//! *Commit* is replication and the sync of a quorum's disks, with the group-commit delay before it. Within it lies
//! *sync*: from the iteration that gave the entry to this member's own log until the one that learned that it is on
//! disk. *Apply* is the whole iteration, which may apply commands of many calls. Of a call that asks the loop several
//! times the last time counts, and *queue* lasts until the first.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use member::OwnSync;

use crate::raft_loop::AnswerTimes;

/// What a running call knows of its phases. Written and read by the call alone.
#[derive(Debug, Default)]
pub(crate) struct CallTimes {
    asked_ns: AtomicU64,
    decided_ns: AtomicU64,
    answered_ns: AtomicU64,
    sync_began_us: AtomicU32,
    sync_ended_us: AtomicU32,
    is_write: AtomicBool,
}

/// What is known when it ends; of a call that never waited for the raft loop, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopTimes {
    times: AnswerTimes,
    is_write: bool,
}

/// A part of a call's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// What it was.
    pub(crate) name: &'static str,
    /// Whether it lies within the one before it; the others follow each other.
    pub(crate) is_within: bool,
    /// When it began.
    pub(crate) from: Instant,
    /// When it ended.
    pub(crate) to: Instant,
}

impl CallTimes {
    /// The raft loop has answered a command, or else a read.
    pub(crate) fn answered(&self, times: AnswerTimes, is_write: bool) {
        if self.answered_ns.load(Ordering::Relaxed) == 0 {
            self.asked_ns.store(times.asked_ns, Ordering::Relaxed);
        }
        self.decided_ns.store(times.decided_ns, Ordering::Relaxed);
        self.answered_ns.store(times.answered_ns, Ordering::Relaxed);
        self.sync_began_us.store(times.own_sync.began_us, Ordering::Relaxed);
        self.sync_ended_us.store(times.own_sync.ended_us, Ordering::Relaxed);
        self.is_write.store(is_write, Ordering::Relaxed);
    }

    /// What is known now.
    pub(crate) fn get(&self) -> LoopTimes {
        let own_sync = OwnSync {
            began_us: self.sync_began_us.load(Ordering::Relaxed),
            ended_us: self.sync_ended_us.load(Ordering::Relaxed),
        };
        let times = AnswerTimes {
            asked_ns: self.asked_ns.load(Ordering::Relaxed),
            decided_ns: self.decided_ns.load(Ordering::Relaxed),
            answered_ns: self.answered_ns.load(Ordering::Relaxed),
            own_sync,
        };
        LoopTimes { times, is_write: self.is_write.load(Ordering::Relaxed) }
    }
}

impl Clone for CallTimes {
    /// For a call that goes on as another: its times are its own.
    fn clone(&self) -> CallTimes {
        CallTimes::default()
    }
}

impl LoopTimes {
    /// The phases of a call that lasted from `began` to `ended`, without gaps, and within *commit* the sync of this
    /// member's own log. The loop counts its times from `epoch`.
    pub(crate) fn phases(&self, epoch: Instant, began: Instant, ended: Instant) -> Vec<Phase> {
        let AnswerTimes { asked_ns, decided_ns, answered_ns, .. } = self.times;
        if answered_ns == 0 {
            return Vec::new();
        }
        let parts: &[(&'static str, u64)] = match self.is_write {
            true => {
                &[("queue", asked_ns), ("commit", decided_ns), ("apply", answered_ns), ("answer", u64::MAX)]
            }
            false => &[("queue", asked_ns), ("agreement", answered_ns), ("read", u64::MAX)],
        };
        let mut from = began;
        let phases = parts.iter().map(|(name, until_ns)| {
            let until = epoch.checked_add(Duration::from_nanos(*until_ns)).unwrap_or(ended);
            // An iteration that takes a call may have begun before the call did.
            let to = until.clamp(from, ended.max(from));
            Phase { name, is_within: false, from: std::mem::replace(&mut from, to), to }
        });
        let mut phases: Vec<Phase> = phases.collect();
        if self.is_write && self.times.own_sync != OwnSync::default() {
            phases.insert(2, self.sync_within(phases[1]));
        }
        phases
    }

    /// The sync of this member's own log within `commit`, which ends when the iteration begins that applies.
    fn sync_within(&self, commit: Phase) -> Phase {
        let before = |us: u32| {
            let time = commit.to.checked_sub(Duration::from_micros(us.into())).unwrap_or(commit.from);
            time.max(commit.from)
        };
        let OwnSync { began_us, ended_us } = self.times.own_sync;
        Phase { name: "sync", is_within: true, from: before(began_us), to: before(ended_us) }
    }
}

/// Phases as the log tells them: `queue 12µs, commit 1.2ms (sync 1ms), apply 31µs, answer 8µs`.
pub(crate) fn describe(phases: &[Phase]) -> String {
    let mut told = String::new();
    for Phase { name, is_within, from, to } in phases {
        let took = *to - *from;
        let separator = if told.is_empty() { "" } else { ", " };
        told += &match is_within {
            true => format!(" ({name} {took:?})"),
            false => format!("{separator}{name} {took:?}"),
        };
    }
    told
}

#[cfg(test)]
mod tests {
    //! Phases fill a call, whatever the loop's clock says.
    use super::*;

    #[test]
    fn phases_follow_each_other_and_fill_the_call() {
        let epoch = Instant::now();
        let at = |us: u64| epoch + Duration::from_micros(us);
        let times = CallTimes::default();
        assert!(times.get().phases(epoch, at(1), at(2)).is_empty(), "it never asked");
        let answer = |asked_ns, decided_ns, answered_ns| AnswerTimes {
            asked_ns,
            decided_ns,
            answered_ns,
            own_sync: OwnSync::default(),
        };
        times.answered(answer(110_000, 400_000, 450_000), true);
        let told = describe(&times.get().phases(epoch, at(100), at(460)));
        assert_eq!(told, "queue 10µs, commit 290µs, apply 50µs, answer 10µs");
        // A read in the middle of a lock, then a command: the first question ends the queue.
        times.answered(answer(500_000, 600_000, 650_000), false);
        let told = describe(&times.get().phases(epoch, at(100), at(700)));
        assert_eq!(told, "queue 10µs, agreement 540µs, read 50µs");
        // Taken by an iteration that had begun before.
        let early = CallTimes::default();
        early.answered(answer(90_000, 90_000, 120_000), false);
        let told = describe(&early.get().phases(epoch, at(100), at(130)));
        assert_eq!(told, "queue 0ns, agreement 20µs, read 10µs");
    }

    #[test]
    fn the_sync_of_the_own_log_lies_within_commit() {
        let epoch = Instant::now();
        let at = |us: u64| epoch + Duration::from_micros(us);
        let told = |began_us, ended_us, is_write| {
            let times = CallTimes::default();
            let own_sync = OwnSync { began_us, ended_us };
            let answer =
                AnswerTimes { asked_ns: 110_000, decided_ns: 400_000, answered_ns: 450_000, own_sync };
            times.answered(answer, is_write);
            let phases = times.get().phases(epoch, at(100), at(460));
            for pair in phases.windows(2).filter(|pair| pair[1].is_within) {
                assert_eq!(pair[0].name, "commit");
                assert!(
                    pair[0].from <= pair[1].from && pair[1].from <= pair[1].to && pair[1].to <= pair[0].to
                );
            }
            describe(&phases)
        };
        assert_eq!(told(250, 30, true), "queue 10µs, commit 290µs (sync 220µs), apply 50µs, answer 10µs");
        // The write of an entry of a client that asked meanwhile, rounded up.
        assert_eq!(told(291, 0, true), "queue 10µs, commit 290µs (sync 290µs), apply 50µs, answer 10µs");
        assert_eq!(
            told(u32::MAX, u32::MAX, true),
            "queue 10µs, commit 290µs (sync 0ns), apply 50µs, answer 10µs"
        );
        assert_eq!(told(0, 0, true), "queue 10µs, commit 290µs, apply 50µs, answer 10µs");
        assert_eq!(told(250, 30, false), "queue 10µs, agreement 340µs, read 10µs");
    }
}
