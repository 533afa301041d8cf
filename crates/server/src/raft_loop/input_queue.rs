//! The input queue of the raft loop: a list of inputs that is handed over whole.
//!
//! Submitters append under a short lock. While the raft loop is awake that is all they do, so that under load many
//! requests cost one wake-up. While it sleeps, [`InputQueue::submit`] wakes it, and [`InputQueue::submit_and_run`] runs
//! the iteration in its place (flat combining: the module `raft_loop` has the state diagram). The state `sleeping` is
//! `sleeping_until`, the state `combining` is `is_combining`.
//!
//! The queue is emptied by every iteration. Large requests of clients pass admission before they are submitted, and the
//! member limits how many requests wait; a thread that reads a peer's bulk stream waits while [`MAX_BULK_BYTES`] are
//! queued, and TCP makes the peer wait.

use std::sync::Arc;
use std::time::Instant;

use member::Input;
use parking_lot::{Condvar, Mutex};

/// Bytes of bulk frames in the queue: several times what consensus lets a peer have in flight, so that only a member
/// that lags, or a peer that floods, reaches it.
const MAX_BULK_BYTES: usize = 64 << 20;

/// Runs an iteration for a sleeping raft loop.
pub(super) trait RunIteration: Send + Sync {
    /// Takes all inputs, decides once, and carries out what is urgent. Returns until when nothing is due; `None` if the
    /// raft loop itself must run at once.
    fn run_iteration(&self) -> Option<Instant>;
}

#[derive(Default)]
struct InputQueueState {
    inputs: Vec<Input>,
    bulk_bytes: usize,
    /// The raft loop sleeps, until then at the latest.
    sleeping_until: Option<Instant>,
    /// A submitter runs an iteration for the sleeping loop.
    is_combining: bool,
    runner: Option<Arc<dyn RunIteration>>,
}

/// The queue. See the module.
#[derive(Default)]
pub(super) struct InputQueue {
    state: Mutex<InputQueueState>,
    /// Wakes the raft loop.
    wake: Condvar,
    /// Wakes the readers of bulk streams that wait for room.
    taken: Condvar,
}

impl InputQueue {
    /// Appends an input and wakes the raft loop if it sleeps.
    pub(super) fn submit(&self, input: Input) {
        let mut state = self.state.lock();
        state.inputs.push(input);
        // A combining thread looks at the queue once more before it ends.
        if !state.is_combining {
            self.wake(state);
        }
    }

    /// Appends inputs, in order; if the raft loop sleeps, runs the iteration on this thread.
    pub(super) fn submit_and_run(&self, inputs: impl IntoIterator<Item = Input>) {
        let mut state = self.state.lock();
        state.inputs.extend(inputs);
        if state.sleeping_until.is_none() || state.is_combining {
            return;
        }
        let Some(runner) = state.runner.clone() else { return self.wake(state) };
        state.is_combining = true;
        drop(state);
        let mut due = runner.run_iteration();
        let mut state = self.state.lock();
        // One more for what arrived meanwhile: often the second acknowledgement of a lone write.
        if !state.inputs.is_empty() && due.is_some() {
            drop(state);
            due = runner.run_iteration();
            state = self.state.lock();
        }
        assert!(state.is_combining, "one thread combines at a time");
        state.is_combining = false;
        let may_sleep = state.inputs.is_empty() && due.is_some_and(|due| state.sleeping_until <= Some(due));
        if !may_sleep {
            self.wake(state);
        }
    }

    /// The number of inputs that wait.
    pub(super) fn len(&self) -> usize {
        self.state.lock().inputs.len()
    }

    /// Counts `bytes` of a bulk frame that is to be submitted; waits while too many are queued.
    pub(super) fn reserve_bulk(&self, bytes: usize) {
        let mut state = self.state.lock();
        self.taken.wait_while(&mut state, |state| state.bulk_bytes >= MAX_BULK_BYTES);
        state.bulk_bytes += bytes;
    }

    /// Lets submitters run iterations on `runner`; with `None`, no more.
    pub(super) fn set_runner(&self, runner: Option<Arc<dyn RunIteration>>) {
        // The old one is dropped without the lock: it may own the whole member.
        let _old = std::mem::replace(&mut self.state.lock().runner, runner);
    }

    /// For the raft loop: sleeps until there are inputs, a combining thread needs the loop, or the deadline passes.
    pub(super) fn wait(&self, until: Instant) {
        let mut state = self.state.lock();
        if state.inputs.is_empty() {
            state.sleeping_until = Some(until);
            self.wake.wait_until(&mut state, until);
            state.sleeping_until = None;
        }
    }

    /// Takes all inputs into `into`, which must be empty. The caller holds the state of the loop until they are
    /// handled, so that inputs are handled in the order in which they were submitted.
    pub(super) fn take(&self, into: &mut Vec<Input>) {
        assert!(into.is_empty(), "the inputs of the iteration before were not handled");
        let mut state = self.state.lock();
        std::mem::swap(&mut state.inputs, into);
        if std::mem::take(&mut state.bulk_bytes) >= MAX_BULK_BYTES {
            self.taken.notify_all();
        }
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, InputQueueState>) {
        if state.sleeping_until.take().is_some() {
            drop(state);
            self.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Inputs arrive whole and in order; a sleeping loop is woken or served by combining.
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{spawn, yield_now};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Sleeps as the raft loop does, and takes all inputs.
    fn wait_and_take(queue: &InputQueue) -> Vec<String> {
        let mut inputs = Vec::new();
        queue.wait(Instant::now() + MINUTE);
        queue.take(&mut inputs);
        inputs.iter().map(|input| format!("{input:?}")).collect()
    }

    #[test]
    fn a_flooding_peer_waits_until_the_queue_is_taken() {
        let queue = Arc::new(InputQueue::default());
        queue.reserve_bulk(MAX_BULK_BYTES);
        queue.submit_and_run([Input::PeerUp(1)]);
        let sender = queue.clone();
        let thread = spawn(move || {
            sender.reserve_bulk(1);
            sender.submit_and_run([Input::PeerUp(2)]);
        });
        let mut all = Vec::new();
        while all.len() < 2 {
            let inputs = wait_and_take(&queue);
            assert!(inputs.len() <= 1, "the second waited for the first to be taken");
            all.extend(inputs);
        }
        thread.join().expect("sender");
    }

    #[test]
    fn a_sleeping_loop_receives_what_others_submit() {
        let queue = Arc::new(InputQueue::default());
        let sender = queue.clone();
        let thread = spawn(move || (1..=2).for_each(|peer| sender.submit(Input::PeerUp(peer))));
        let mut all = Vec::new();
        while all.len() < 2 {
            all.extend(wait_and_take(&queue));
        }
        thread.join().expect("sender");
        assert_eq!(all, ["PeerUp(1)", "PeerUp(2)"]);
    }

    /// Takes all inputs and counts them. Its first iteration is interrupted by `interruption`.
    struct Counter {
        queue: Arc<InputQueue>,
        taken: AtomicUsize,
        due: Option<Instant>,
        interruption: Mutex<Option<Input>>,
    }

    impl RunIteration for Counter {
        fn run_iteration(&self) -> Option<Instant> {
            let mut inputs = Vec::new();
            self.queue.take(&mut inputs);
            self.taken.fetch_add(inputs.len(), Ordering::SeqCst);
            self.interruption.lock().take().into_iter().for_each(|input| self.queue.submit(input));
            self.due
        }
    }

    /// Submits an input while another thread sleeps as the raft loop; returns how many inputs were taken by combining,
    /// and whether the loop still sleeps.
    fn submit_to_a_sleeping_loop(due_after: Option<Duration>, interruption: Option<Input>) -> (usize, bool) {
        let queue = Arc::new(InputQueue::default());
        let until = Instant::now() + MINUTE;
        let due = due_after.map(|after| until + after);
        let (taken, interruption) = (AtomicUsize::new(0), Mutex::new(interruption));
        let runner = Arc::new(Counter { queue: queue.clone(), taken, due, interruption });
        queue.set_runner(Some(runner.clone()));
        let sleeper = queue.clone();
        let thread = spawn(move || sleeper.wait(until));
        while queue.state.lock().sleeping_until.is_none() {
            yield_now();
        }
        queue.submit_and_run([Input::PeerUp(1)]);
        let still_sleeps = queue.state.lock().sleeping_until.is_some();
        queue.submit(Input::PeerUp(3));
        thread.join().expect("sleeper");
        queue.set_runner(None);
        (runner.taken.load(Ordering::SeqCst), still_sleeps)
    }

    #[test]
    fn a_submitter_runs_the_iterations_of_a_sleeping_loop_and_wakes_it_if_needed() {
        let zero = Some(Duration::ZERO);
        assert_eq!(submit_to_a_sleeping_loop(zero, None), (1, true));
        assert_eq!(submit_to_a_sleeping_loop(zero, Some(Input::PeerUp(2))), (2, true), "a second iteration");
        assert_eq!(submit_to_a_sleeping_loop(None, None), (1, false), "the iteration needs the loop");
    }
}
