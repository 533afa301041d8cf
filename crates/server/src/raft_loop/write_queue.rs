//! The write queue: jobs for the log, taken all at once, by one thread at a time.
//!
//! Under load the log thread takes them, again and again. For a lone write, to wake it costs more processor time than
//! the write itself, and the thread that caused the write often has nothing else to do: the reader of a peer's bulk
//! stream that has read all there is. Such a thread *flushes inline* ([`WriteQueue::take_inline`]): it reserves the
//! log, runs its iteration while the log thread sleeps on, and then writes what the iteration produced. A thread that
//! must not wait for a disk never does this.
//!
//! ```text
//!             take_inline()              jobs were pushed
//!      None ----------------> Inline: runs ------------> Inline: writes --.
//!       ^ |                       | no jobs                               | finish()
//!       | |                       v                                       |
//!       | |  take()              None                                     |
//!       | '----------------> LogThread: writes ---------------------------|
//!       '-----------------------------------------------------------------'
//! ```
//!
//! A flusher reports its writes before another thread may write ([`WriteQueue::finish`]): reports are in the order of
//! the writes, so that a write that succeeded never hides an earlier one that failed.

use parking_lot::{Condvar, Mutex};

/// The thread that writes to the log, or has reserved it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Flusher {
    #[default]
    None,
    /// The thread that runs an iteration, and then writes what it produced.
    Inline,
    LogThread,
}

struct WriteQueueState<Job> {
    jobs: Vec<Job>,
    flusher: Flusher,
    closed: bool,
}

/// The queue. See the module.
pub(super) struct WriteQueue<Job> {
    state: Mutex<WriteQueueState<Job>>,
    changed: Condvar,
}

impl<Job> Default for WriteQueue<Job> {
    fn default() -> WriteQueue<Job> {
        let state = WriteQueueState { jobs: Vec::new(), flusher: Flusher::None, closed: false };
        WriteQueue { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<Job> WriteQueue<Job> {
    /// Appends jobs, in order.
    pub(super) fn push(&self, jobs: impl Iterator<Item = Job>) {
        let mut state = self.state.lock();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        if state.jobs.len() > before && state.flusher == Flusher::None {
            self.changed.notify_all();
        }
    }

    /// For the log thread: waits for jobs and takes them all; `None` when the queue is closed and empty. The caller
    /// writes the jobs and then calls [`WriteQueue::finish`].
    pub(super) fn take(&self) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        loop {
            if state.flusher == Flusher::None {
                if let Some(jobs) = state.take_for(Flusher::LogThread) {
                    return Some(jobs);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.wait(&mut state);
        }
    }

    /// Calls `run`; then takes the jobs that were pushed meanwhile. `None` if there are none, or if they are left to
    /// the log thread, because another flusher was at work before. The caller writes the jobs and then calls
    /// [`WriteQueue::finish`].
    pub(super) fn take_inline(&self, run: impl FnOnce()) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        let reserved = state.flusher == Flusher::None && state.jobs.is_empty() && !state.closed;
        if reserved {
            state.flusher = Flusher::Inline;
        }
        drop(state);
        run();
        if !reserved {
            return None;
        }
        let mut state = self.state.lock();
        assert_eq!(state.flusher, Flusher::Inline, "a reserved log is left alone");
        state.flusher = Flusher::None;
        let jobs = state.take_for(Flusher::Inline);
        if jobs.is_none() && state.closed {
            self.changed.notify_all();
        }
        jobs
    }

    /// The jobs that were taken are written: calls `report` with whether more are queued, and only then lets another
    /// thread write.
    pub(super) fn finish(&self, report: impl FnOnce(bool)) {
        let more = !self.state.lock().jobs.is_empty();
        report(more);
        let mut state = self.state.lock();
        assert_ne!(state.flusher, Flusher::None, "only a flusher reports");
        state.flusher = Flusher::None;
        if !state.jobs.is_empty() || state.closed {
            self.changed.notify_all();
        }
    }

    /// No more jobs are pushed: the log thread ends when all that are queued are written.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

impl<Job> WriteQueueState<Job> {
    /// Takes all jobs and makes `flusher` the one that writes them; `None` if there are no jobs.
    fn take_for(&mut self, flusher: Flusher) -> Option<Vec<Job>> {
        if self.jobs.is_empty() {
            return None;
        }
        self.flusher = flusher;
        Some(std::mem::take(&mut self.jobs))
    }
}

#[cfg(test)]
mod tests {
    //! Which thread writes what. That no thread sleeps while jobs are queued is explored in `tests/parallel`.
    use super::*;

    #[test]
    fn an_inline_flusher_writes_what_its_iteration_pushed() {
        let queue = WriteQueue::default();
        assert_eq!(queue.take_inline(|| queue.push([1, 2].into_iter())), Some(vec![1, 2]));
        queue.finish(|more| assert!(!more));
        assert_eq!(queue.take_inline(|| ()), None, "nothing to write");
    }

    #[test]
    fn there_is_one_flusher_at_a_time() {
        let queue = WriteQueue::default();
        queue.push([1].into_iter());
        assert_eq!(queue.take_inline(|| ()), None, "the log thread has been woken already");
        assert_eq!(queue.take(), Some(vec![1]));
        assert_eq!(queue.take_inline(|| queue.push([2].into_iter())), None, "the log thread writes");
        queue.finish(|more| assert!(more, "jobs pushed meanwhile are left to the log thread"));
        let inner = || assert_eq!(queue.take_inline(|| queue.push([3].into_iter())), None);
        assert_eq!(queue.take(), Some(vec![2]));
        queue.finish(|_| ());
        assert_eq!(queue.take_inline(inner), Some(vec![3]), "the first inline flusher writes for the second");
    }

    #[test]
    fn no_thread_writes_before_the_last_writes_are_reported() {
        let queue = WriteQueue::default();
        queue.push([1].into_iter());
        assert_eq!(queue.take(), Some(vec![1]));
        queue.finish(|_| {
            assert_eq!(queue.take_inline(|| queue.push([2].into_iter())), None);
        });
        assert_eq!(queue.take(), Some(vec![2]));
    }

    #[test]
    fn jobs_queued_at_the_end_are_still_written() {
        let queue = WriteQueue::default();
        queue.push([1].into_iter());
        queue.close();
        assert_eq!(queue.take(), Some(vec![1]));
        queue.finish(|_| ());
        assert_eq!(queue.take(), None);
    }
}
