//! What is to be written to the log: a queue that is emptied whole, by one at a time.
//!
//! The log thread empties it, again and again under load. A lone write would cost a wake-up of that thread, and the one
//! who caused the write often has nothing better to do than to write: a thread that reads a peer's bulk stream and has
//! read all there is. So it may [volunteer](Writes::volunteer): while it decides, the log thread is let sleep, and what
//! has come then is its own to write. Whoever must not wait for a disk never volunteers.
//!
//! Who has written reports it before anybody else may write: reports come in the order of the writes, so that none that
//! succeeded hides one before it that failed.

use parking_lot::{Condvar, Mutex};

/// Who has the log in hand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Hand {
    #[default]
    Nobody,
    /// Somebody will write what comes, or hand it on.
    Volunteer,
    /// Somebody writes.
    Writer,
}

struct State<Job> {
    jobs: Vec<Job>,
    hand: Hand,
    closed: bool,
}

/// The queue. See the module.
pub(crate) struct Writes<Job> {
    state: Mutex<State<Job>>,
    changed: Condvar,
}

impl<Job> Default for Writes<Job> {
    fn default() -> Writes<Job> {
        let state = State { jobs: Vec::new(), hand: Hand::Nobody, closed: false };
        Writes { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<Job> Writes<Job> {
    /// Queues jobs, in order.
    pub(crate) fn push(&self, jobs: impl Iterator<Item = Job>) {
        let mut state = self.state.lock();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        if state.jobs.len() > before && state.hand == Hand::Nobody {
            self.changed.notify_all();
        }
    }

    /// For the log thread: waits for jobs and takes them all. Nothing when the queue is closed and empty. Whoever takes
    /// jobs writes them and then calls [`Writes::written`].
    pub(crate) fn wait(&self) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        loop {
            if state.hand == Hand::Nobody {
                if let Some(jobs) = state.take() {
                    return Some(jobs);
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.wait(&mut state);
        }
    }

    /// Calls `decide`; then takes the jobs that came meanwhile, if nobody else had the log in hand and there are any.
    pub(crate) fn volunteer(&self, decide: impl FnOnce()) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        let is_ours = state.hand == Hand::Nobody && state.jobs.is_empty() && !state.closed;
        if is_ours {
            state.hand = Hand::Volunteer;
        }
        drop(state);
        decide();
        if !is_ours {
            return None;
        }
        let mut state = self.state.lock();
        state.hand = Hand::Nobody;
        let jobs = state.take();
        if jobs.is_none() && state.closed {
            self.changed.notify_all();
        }
        jobs
    }

    /// What was taken is written: `report` says so, and hears whether more waits already. Only then may others write.
    pub(crate) fn written(&self, report: impl FnOnce(bool)) {
        let more = !self.state.lock().jobs.is_empty();
        report(more);
        let mut state = self.state.lock();
        state.hand = Hand::Nobody;
        if !state.jobs.is_empty() || state.closed {
            self.changed.notify_all();
        }
    }

    /// No more jobs come: the log thread ends when it, or a volunteer, has written what is there.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

impl<Job> State<Job> {
    /// Takes the log in hand, with all that is to be written, unless that is nothing.
    fn take(&mut self) -> Option<Vec<Job>> {
        if self.jobs.is_empty() {
            return None;
        }
        self.hand = Hand::Writer;
        Some(std::mem::take(&mut self.jobs))
    }
}

#[cfg(test)]
mod tests {
    //! Who writes what; that nobody sleeps over jobs is tried under a scheduler, in `tests/parallel`.
    use super::*;

    #[test]
    fn a_volunteer_writes_what_came_while_it_decided() {
        let writes = Writes::default();
        assert_eq!(writes.volunteer(|| writes.push([1, 2].into_iter())), Some(vec![1, 2]));
        writes.written(|more| assert!(!more));
        assert_eq!(writes.volunteer(|| ()), None, "nothing to write");
    }

    #[test]
    fn nobody_volunteers_while_another_has_the_log_in_hand() {
        let writes = Writes::default();
        writes.push([1].into_iter());
        assert_eq!(writes.volunteer(|| ()), None, "the log thread is awake already");
        assert_eq!(writes.wait(), Some(vec![1]));
        assert_eq!(writes.volunteer(|| writes.push([2].into_iter())), None, "it writes");
        writes.written(|more| assert!(more, "what came meanwhile is left to the log thread"));
        let inner = || assert_eq!(writes.volunteer(|| writes.push([3].into_iter())), None);
        assert_eq!(writes.wait(), Some(vec![2]));
        writes.written(|_| ());
        assert_eq!(writes.volunteer(inner), Some(vec![3]), "the first volunteer writes for the second");
    }

    #[test]
    fn nobody_writes_before_what_was_written_is_reported() {
        let writes = Writes::default();
        writes.push([1].into_iter());
        assert_eq!(writes.wait(), Some(vec![1]));
        writes.written(|_| {
            assert_eq!(writes.volunteer(|| writes.push([2].into_iter())), None);
        });
        assert_eq!(writes.wait(), Some(vec![2]));
    }

    #[test]
    fn what_is_queued_at_the_end_is_still_written() {
        let writes = Writes::default();
        writes.push([1].into_iter());
        writes.close();
        assert_eq!(writes.wait(), Some(vec![1]));
        writes.written(|_| ());
        assert_eq!(writes.wait(), None);
    }
}
