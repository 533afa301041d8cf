//! Desks: where requests leave for the deciding thread together, and answers come back together.
//!
//! Each RPC worker has a desk. A request is laid on it, and a task of that worker carries all that lie there to the
//! mailbox in one go; the deciding thread puts all answers for a desk onto it in one go, and another task hands them
//! out. So a thousand requests cost a few wake-ups between threads instead of two thousand; within a worker waking is
//! a queue operation. The low bits of a token say which desk its answer belongs to.
//!
//! Threads without a desk of their own use the first one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use member::{Answer, Input};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::Mailbox;

/// Bits of a token that number its desk.
const DESK_BITS: u32 = 8;

thread_local! {
    static OWN: RefCell<Option<Arc<Desk>>> = const { RefCell::new(None) };
}

/// One desk. See the module.
pub(crate) struct Desk {
    number: u64,
    leaving: Mutex<Vec<Input>>,
    leave: Notify,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    arrived: Mutex<Vec<(u64, Answer)>>,
    arrive: Notify,
}

/// All desks of a process.
pub(crate) struct Desks {
    desks: Vec<Arc<Desk>>,
    mailbox: Arc<Mailbox>,
    tokens: AtomicU64,
    closed: AtomicBool,
}

impl Desk {
    fn new(number: u64) -> Desk {
        Desk {
            number,
            leaving: Mutex::default(),
            leave: Notify::new(),
            waiting: Mutex::default(),
            arrived: Mutex::default(),
            arrive: Notify::new(),
        }
    }

    /// Carries what lies here to the mailbox, all that has gathered since the last time.
    async fn carry_away(self: Arc<Desk>, mailbox: Arc<Mailbox>) {
        loop {
            self.leave.notified().await;
            let inputs = std::mem::take(&mut *self.leaving.lock());
            mailbox.bring(inputs);
        }
    }

    async fn hand_out(self: Arc<Desk>) {
        loop {
            self.arrive.notified().await;
            let answers = std::mem::take(&mut *self.arrived.lock());
            let mut waiting = self.waiting.lock();
            for (token, answer) in answers {
                if let Some(reply) = waiting.remove(&token) {
                    // A caller that gave up does not need its answer.
                    let _ = reply.send(answer);
                }
            }
        }
    }
}

impl Desks {
    /// Desks for `count` workers, and a first one for everybody else.
    pub(crate) fn new(count: usize, mailbox: Arc<Mailbox>) -> Desks {
        assert!(count < 1 << DESK_BITS, "a token numbers at most {} desks", 1 << DESK_BITS);
        let desks = (0..=count as u64).map(|number| Arc::new(Desk::new(number))).collect();
        Desks { desks, mailbox, tokens: AtomicU64::new(1), closed: AtomicBool::new(false) }
    }

    /// Runs the first desk, on the runtime of the caller.
    pub(crate) fn run_first(&self) {
        self.spawn(&self.desks[0]);
    }

    /// Gives this thread, whose runtime the caller is on, a desk of its own: that of worker `index`, from 0.
    pub(crate) fn run_own(&self, index: usize) {
        let desk = &self.desks[index + 1];
        OWN.set(Some(desk.clone()));
        self.spawn(desk);
    }

    fn spawn(&self, desk: &Arc<Desk>) {
        tokio::spawn(desk.clone().carry_away(self.mailbox.clone()));
        tokio::spawn(desk.clone().hand_out());
    }

    /// Lays a request on the thread's desk; the answer comes through the channel, or the channel is closed when the
    /// deciding thread has ended.
    pub(crate) fn ask(&self, input: impl FnOnce(u64) -> Input) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        let own = OWN.with_borrow(Option::clone);
        let desk = own.as_ref().unwrap_or(&self.desks[0]);
        let token = self.tokens.fetch_add(1, Ordering::Relaxed) << DESK_BITS | desk.number;
        desk.waiting.lock().insert(token, reply);
        if self.closed.load(Ordering::SeqCst) {
            desk.waiting.lock().clear();
            return answer;
        }
        let mut leaving = desk.leaving.lock();
        leaving.push(input(token));
        let first = leaving.len() == 1;
        drop(leaving);
        if first {
            desk.leave.notify_one();
        }
        answer
    }

    /// Puts answers onto the desks they belong to.
    pub(crate) fn deliver(&self, answers: impl Iterator<Item = (u64, Answer)>) {
        let mut woken = [false; 1 << DESK_BITS];
        for (token, answer) in answers {
            let number = (token & ((1 << DESK_BITS) - 1)) as usize;
            let Some(desk) = self.desks.get(number) else { continue };
            desk.arrived.lock().push((token, answer));
            woken[number] = true;
        }
        self.desks
            .iter()
            .zip(woken)
            .filter(|(_, woken)| *woken)
            .for_each(|(desk, _)| desk.arrive.notify_one());
    }

    /// The deciding thread has ended: nobody gets an answer any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.desks.iter().for_each(|desk| desk.waiting.lock().clear());
    }
}

#[cfg(test)]
mod tests {
    //! Requests leave with the desk's number, answers find their askers, and closing lets everybody go.
    use super::*;

    #[tokio::test]
    async fn answers_find_those_who_asked_and_closing_lets_the_others_go() {
        let mailbox = Arc::new(Mailbox::default());
        let desks = Desks::new(2, mailbox.clone());
        desks.run_first();
        desks.run_own(1);
        let first = desks.ask(|token| Input::Read { token });
        let second = desks.ask(|token| Input::Read { token });
        let mut inputs = Vec::new();
        while inputs.len() < 2 {
            tokio::task::yield_now().await;
            let mut more = Vec::new();
            mailbox.take(&mut more);
            inputs.append(&mut more);
        }
        let tokens: Vec<u64> = inputs
            .iter()
            .map(|input| if let Input::Read { token } = input { *token } else { panic!("another input") })
            .collect();
        assert!(tokens.iter().all(|token| token & 0xff == 2), "the second worker's desk");
        desks.deliver(std::iter::once((tokens[1], Answer::ReadNow)));
        assert!(matches!(second.await, Ok(Answer::ReadNow)));
        desks.close();
        assert!(first.await.is_err());
        assert!(desks.ask(|token| Input::Read { token }).await.is_err());
    }
}
