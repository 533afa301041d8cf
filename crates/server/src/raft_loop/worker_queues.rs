//! The submission queues and completion queues of the RPC workers.
//!
//! Each RPC worker has one of each. A request is appended to the submission queue, and a task of that worker moves all
//! that are there to the input queue at once; the raft loop appends all answers for a worker to its completion queue at
//! once, and another task of the worker completes the callers' futures. So a thousand requests cost a few wake-ups
//! between threads instead of two thousand; waking a task of the own thread is a queue operation of the runtime.
//!
//! The low eight bits of a token are the number of the worker, so that its answer finds the way back. Example: worker 2
//! submits its requests 7 and 8, and the raft loop answers the second one first.
//!
//! ```text
//!            submission queue 2      input queue                          completion queue 2
//!  request   [0x702, 0x802]     ->   [.., 0x702, 0x802]
//!  iteration                                            0x802 & 0xff = 2  [(0x802, answer)]  -> pending[0x802]
//! ```
//!
//! Queue 0 belongs to all threads that are no RPC workers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::FixedState;
use member::{Answer, Input, OwnSync, WaitedCaller};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::input_queue::InputQueue;

/// Bits of a token that are the number of the worker.
const WORKER_BITS: u32 = 8;

/// Workers, with number 0.
const MAX_WORKERS: usize = 1 << WORKER_BITS;

/// RPC workers that a token can number. On a machine with more hardware threads the others are left to the disk.
pub(crate) const MAX_RPC_WORKERS: usize = MAX_WORKERS - 1;

/// Requests or answers for which a queue keeps room when a burst is over.
const MAX_KEPT: usize = 1_024;

thread_local! {
    static OWN: RefCell<Option<Arc<WorkerQueue>>> = const { RefCell::new(None) };
}

/// When the raft loop dealt with a request, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerTimes {
    /// The iteration that took the request began.
    pub(crate) asked_ns: u64,
    /// The iteration that answered it began.
    pub(crate) decided_ns: u64,
    /// That iteration had decided everything.
    pub(crate) answered_ns: u64,
    /// When this member's own log had the command on disk, before the iteration that answered it.
    pub(crate) own_sync: OwnSync,
}

/// An answer and its times.
#[derive(Debug)]
pub(crate) struct TimedAnswer {
    pub(crate) answer: Answer,
    pub(crate) times: AnswerTimes,
}

/// When an iteration decided, and since when those callers have waited that it answers, in the order of their answers.
/// Callers that are left out did not wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IterationTimes<'a> {
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) waited: &'a [WaitedCaller],
}

/// The two queues of one worker. See the module.
struct WorkerQueue {
    number: u64,
    /// Its own, so that threads of other workers touch nothing of it.
    next_request: AtomicU64,
    submitted: Mutex<Vec<Input>>,
    wake_submission: Notify,
    /// Where each answer goes, by token. The numbers are ours, so no client can choose ones that collide.
    pending: Mutex<HashMap<u64, oneshot::Sender<TimedAnswer>, FixedState>>,
    completed: Mutex<Vec<(u64, TimedAnswer)>>,
    wake_completion: Notify,
}

/// The queues of all workers.
pub(super) struct WorkerQueues {
    queues: Vec<Arc<WorkerQueue>>,
    inputs: Arc<InputQueue>,
    closed: AtomicBool,
}

impl WorkerQueue {
    fn new(number: u64) -> WorkerQueue {
        WorkerQueue {
            number,
            next_request: AtomicU64::new(1),
            submitted: Mutex::default(),
            wake_submission: Notify::new(),
            pending: Mutex::default(),
            completed: Mutex::default(),
            wake_completion: Notify::new(),
        }
    }

    /// Moves submitted requests to the input queue, all that have gathered since the last time.
    async fn move_submissions(self: Arc<WorkerQueue>, queue: Arc<InputQueue>) {
        // Its room and that of the queue change places, so no round allocates.
        let mut inputs = Vec::new();
        loop {
            self.wake_submission.notified().await;
            std::mem::swap(&mut *self.submitted.lock(), &mut inputs);
            queue.submit_and_run(inputs.drain(..));
            inputs.shrink_to(MAX_KEPT);
        }
    }

    /// Completes the futures of the callers.
    async fn complete(self: Arc<WorkerQueue>) {
        let mut answers = Vec::new();
        loop {
            self.wake_completion.notified().await;
            self.send_completed(&mut answers);
        }
    }

    /// Sends what has been answered, by way of `answers`, which is empty and keeps its room.
    fn send_completed(&self, answers: &mut Vec<(u64, TimedAnswer)>) {
        std::mem::swap(&mut *self.completed.lock(), answers);
        let mut pending = self.pending.lock();
        for (token, answer) in answers.drain(..) {
            if let Some(caller) = pending.remove(&token) {
                // A caller that gave up does not need its answer.
                let _ = caller.send(answer);
            }
        }
        drop(pending);
        answers.shrink_to(MAX_KEPT);
    }
}

impl WorkerQueues {
    /// Queues for `count` workers, and number 0.
    pub(super) fn new(count: usize, inputs: Arc<InputQueue>) -> WorkerQueues {
        assert!(count <= MAX_RPC_WORKERS, "a token numbers at most {MAX_RPC_WORKERS} workers");
        let queues = (0..=count as u64).map(|number| Arc::new(WorkerQueue::new(number))).collect();
        WorkerQueues { queues, inputs, closed: AtomicBool::new(false) }
    }

    /// Serves the queues with number 0, on the runtime of the caller.
    pub(super) fn serve_shared(&self) {
        self.spawn(&self.queues[0]);
    }

    /// Gives this thread, whose runtime the caller is on, the queues of worker `index`, from 0.
    pub(super) fn serve_worker(&self, index: usize) {
        let own = &self.queues[index + 1];
        OWN.set(Some(own.clone()));
        self.spawn(own);
    }

    fn spawn(&self, own: &Arc<WorkerQueue>) {
        tokio::spawn(own.clone().move_submissions(self.inputs.clone()));
        tokio::spawn(own.clone().complete());
    }

    /// Submits a request, made from the token of its answer. The answer comes through the channel; the channel is
    /// closed when the raft loop has ended.
    pub(super) fn request(&self, input: impl FnOnce(u64) -> Input) -> oneshot::Receiver<TimedAnswer> {
        let (caller, answer) = oneshot::channel();
        let own = OWN.with_borrow(Option::clone);
        let queue = own.as_ref().unwrap_or(&self.queues[0]);
        let token = queue.next_request.fetch_add(1, Ordering::Relaxed) << WORKER_BITS | queue.number;
        queue.pending.lock().insert(token, caller);
        if self.closed.load(Ordering::SeqCst) {
            queue.pending.lock().clear();
            return answer;
        }
        let mut submitted = queue.submitted.lock();
        submitted.push(input(token));
        let first = submitted.len() == 1;
        drop(submitted);
        if first {
            queue.wake_submission.notify_one();
        }
        answer
    }

    /// Appends answers of an iteration, each with its token, to the completion queues they belong to.
    pub(super) fn deliver(
        &self,
        answers: impl Iterator<Item = (u64, Answer)>,
        iteration: IterationTimes<'_>,
    ) {
        let IterationTimes { began_ns: decided_ns, ended_ns: answered_ns, waited } = iteration;
        let mut waited = waited.iter().peekable();
        let mut has_answers = [false; MAX_WORKERS];
        for (token, answer) in answers {
            let caller = waited.next_if(|caller| caller.token == token);
            let asked_ns = caller.map_or(decided_ns, |caller| caller.since_ns);
            let own_sync = caller.map_or_else(OwnSync::default, |caller| caller.own_sync);
            let times = AnswerTimes { asked_ns, decided_ns, answered_ns, own_sync };
            let answer = TimedAnswer { answer, times };
            let number = (token & (MAX_WORKERS as u64 - 1)) as usize;
            let Some(queue) = self.queues.get(number) else { continue };
            queue.completed.lock().push((token, answer));
            has_answers[number] = true;
        }
        for (queue, _) in self.queues.iter().zip(has_answers).filter(|(_, has_answers)| *has_answers) {
            queue.wake_completion.notify_one();
        }
    }

    /// The raft loop has ended: sends the answers that it left, and closes the channels of all other callers, and of
    /// those that follow.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        for queue in &self.queues {
            queue.send_completed(&mut Vec::new());
            queue.pending.lock().clear();
        }
    }
}

#[cfg(test)]
mod tests {
    //! A token has the number of its worker, answers reach their callers, and closing ends every wait.
    use super::*;

    #[tokio::test]
    async fn answers_reach_their_callers_and_closing_ends_the_other_waits() {
        let inputs = Arc::new(InputQueue::default());
        let queues = WorkerQueues::new(2, inputs.clone());
        queues.serve_shared();
        queues.serve_worker(1);
        let first = queues.request(|token| Input::Read { token });
        let second = queues.request(|token| Input::Read { token });
        let mut taken = Vec::new();
        while taken.len() < 2 {
            tokio::task::yield_now().await;
            let mut more = Vec::new();
            inputs.take(&mut more);
            taken.append(&mut more);
        }
        let tokens: Vec<u64> = taken
            .iter()
            .map(|input| if let Input::Read { token } = input { *token } else { panic!("another input") })
            .collect();
        assert!(tokens.iter().all(|token| token & 0xff == 2), "the queues of the second worker");
        let at_once = (tokens[0] + (1 << WORKER_BITS) * 9, Answer::ReadNow);
        let own_sync = OwnSync { began_us: 9, ended_us: 4 };
        let caller = WaitedCaller { token: tokens[1], since_ns: 7, own_sync };
        let iteration = IterationTimes { began_ns: 20, ended_ns: 25, waited: &[caller] };
        queues.deliver([at_once, (tokens[1], Answer::ReadNow)].into_iter(), iteration);
        let TimedAnswer { answer, times } = second.await.expect("an answer");
        assert!(matches!(answer, Answer::ReadNow));
        assert_eq!(times, AnswerTimes { asked_ns: 7, decided_ns: 20, answered_ns: 25, own_sync });
        queues.close();
        assert!(first.await.is_err());
        assert!(queues.request(|token| Input::Read { token }).await.is_err());
    }

    #[tokio::test]
    async fn the_last_worker_that_a_token_can_number_gets_its_answers() {
        let inputs = Arc::new(InputQueue::default());
        let queues = WorkerQueues::new(MAX_RPC_WORKERS, inputs.clone());
        queues.serve_worker(MAX_RPC_WORKERS - 1);
        let answer = queues.request(|token| Input::Read { token });
        let mut taken = Vec::new();
        while taken.is_empty() {
            tokio::task::yield_now().await;
            inputs.take(&mut taken);
        }
        let Some(Input::Read { token }) = taken.pop() else { panic!("another input") };
        assert_eq!(token & 0xff, 255);
        let iteration = IterationTimes { began_ns: 20, ended_ns: 25, waited: &[] };
        queues.deliver(std::iter::once((token, Answer::ReadNow)), iteration);
        let TimedAnswer { answer, times } = answer.await.expect("an answer");
        assert!(matches!(answer, Answer::ReadNow));
        assert_eq!((times.asked_ns, times.own_sync), (20, OwnSync::default()), "it did not wait");
    }
}
