//! How everybody talks to those who decide: a list that is handed over whole.
//!
//! Senders append under a short lock. While the deciding thread is awake that is all, so that under load many requests
//! cost one wake-up. When it sleeps, it is woken, or the sender decides in its place: a wake-up of another thread costs
//! more than most decisions, so those who [bring](Mailbox::bring) news take one turn themselves, and a second one for
//! what arrives meanwhile. What arrives during that, and what only the deciding thread may do, is left to it.
//!
//! Clients are limited by admission before they send; peers by [`MAX_BULK_BYTES`]: a thread that reads a bulk stream
//! waits while that much lies here, and TCP makes the peer wait.

use std::sync::Arc;
use std::time::Instant;

use member::Input;
use parking_lot::{Condvar, Mutex};

/// Bytes of bulk frames that may lie in the mailbox: several times what consensus lets a peer have in flight, so that
/// only a member that lags, or a peer that floods, meets it.
const MAX_BULK_BYTES: usize = 64 << 20;

/// One turn of deciding, taken by whoever has news while the deciding thread sleeps.
pub(crate) trait Turn: Send + Sync {
    /// Takes all inputs and decides once. Returns until when nothing is due, or nothing if the deciding thread is
    /// needed at once.
    fn take(&self) -> Option<Instant>;
}

#[derive(Default)]
struct State {
    inputs: Vec<Input>,
    bulk_bytes: usize,
    /// The deciding thread sleeps, until then at the latest.
    sleeping_until: Option<Instant>,
    /// Somebody else takes a turn meanwhile.
    in_turn: bool,
    turn: Option<Arc<dyn Turn>>,
}

/// The mailbox of those who decide.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
    emptied: Condvar,
}

impl Mailbox {
    /// Sends an input.
    pub(crate) fn send(&self, input: Input) {
        self.send_all(vec![input]);
    }

    /// Sends inputs, in order.
    pub(crate) fn send_all(&self, inputs: Vec<Input>) {
        let mut state = self.state.lock();
        state.append(inputs);
        if !state.in_turn {
            self.wake(state);
        }
    }

    /// Sends inputs, in order, and decides at once what follows from them, unless somebody else is deciding.
    pub(crate) fn bring(&self, inputs: Vec<Input>) {
        let mut state = self.state.lock();
        state.append(inputs);
        if state.sleeping_until.is_none() || state.in_turn {
            return;
        }
        let Some(turn) = state.turn.clone() else { return self.wake(state) };
        state.in_turn = true;
        drop(state);
        let mut due = turn.take();
        let mut state = self.state.lock();
        if !state.inputs.is_empty() && due.is_some() {
            drop(state);
            due = turn.take();
            state = self.state.lock();
        }
        state.in_turn = false;
        let may_sleep = state.inputs.is_empty() && due.is_some_and(|due| state.sleeping_until <= Some(due));
        if !may_sleep {
            self.wake(state);
        }
    }

    /// Counts `bytes` of a peer's bulk stream that are to be brought; waits while too much lies here.
    pub(crate) fn make_room(&self, bytes: usize) {
        let mut state = self.state.lock();
        self.emptied.wait_while(&mut state, |state| state.bulk_bytes >= MAX_BULK_BYTES);
        state.bulk_bytes += bytes;
    }

    /// Lets those who bring news take turns, or no more.
    pub(crate) fn set_turn(&self, turn: Option<Arc<dyn Turn>>) {
        // The old one is dropped without the lock: much may hang on it.
        let _old = std::mem::replace(&mut self.state.lock().turn, turn);
    }

    /// Sleeps until there are inputs, until somebody who took a turn wants the deciding thread, or until the deadline.
    pub(crate) fn wait(&self, until: Instant) {
        let mut state = self.state.lock();
        if state.inputs.is_empty() {
            state.sleeping_until = Some(until);
            self.arrived.wait_until(&mut state, until);
            state.sleeping_until = None;
        }
    }

    /// Takes all inputs into `into`, which must be empty. Whoever takes must decide before anybody else takes.
    pub(crate) fn take(&self, into: &mut Vec<Input>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.inputs, into);
        if std::mem::take(&mut state.bulk_bytes) >= MAX_BULK_BYTES {
            self.emptied.notify_all();
        }
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        if state.sleeping_until.take().is_some() {
            drop(state);
            self.arrived.notify_one();
        }
    }
}

impl State {
    fn append(&mut self, mut inputs: Vec<Input>) {
        if self.inputs.is_empty() {
            self.inputs = inputs;
        } else {
            self.inputs.append(&mut inputs);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Inputs arrive whole and in order; a sleeper is woken.
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn a_peer_that_floods_waits_until_the_mailbox_is_emptied() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.make_room(MAX_BULK_BYTES);
        mailbox.bring(vec![Input::PeerUp(1)]);
        let sender = mailbox.clone();
        let thread = std::thread::spawn(move || {
            sender.make_room(1);
            sender.bring(vec![Input::PeerUp(2)]);
        });
        let mut all = Vec::new();
        while all.len() < 2 {
            let mut inputs = Vec::new();
            mailbox.wait(Instant::now() + Duration::from_secs(60));
            mailbox.take(&mut inputs);
            assert!(inputs.len() <= 1, "the second waited for the first to be taken");
            all.append(&mut inputs);
        }
        thread.join().expect("sender");
    }

    #[test]
    fn a_sleeper_gets_what_others_send() {
        let mailbox = Arc::new(Mailbox::default());
        let sender = mailbox.clone();
        let thread = std::thread::spawn(move || {
            sender.send(Input::PeerUp(1));
            sender.send(Input::PeerUp(2));
        });
        let mut all = Vec::new();
        while all.len() < 2 {
            let mut inputs = Vec::new();
            mailbox.wait(Instant::now() + Duration::from_secs(60));
            mailbox.take(&mut inputs);
            all.append(&mut inputs);
        }
        thread.join().expect("sender");
        let peers: Vec<_> = all.iter().map(|input| format!("{input:?}")).collect();
        assert_eq!(peers, ["PeerUp(1)", "PeerUp(2)"]);
    }

    /// Takes what lies in the mailbox and counts it.
    struct Counter {
        mailbox: Arc<Mailbox>,
        taken: AtomicUsize,
        due: Option<Instant>,
    }

    impl Turn for Counter {
        fn take(&self) -> Option<Instant> {
            let mut inputs = Vec::new();
            self.mailbox.take(&mut inputs);
            self.taken.fetch_add(inputs.len(), Ordering::SeqCst);
            self.due
        }
    }

    /// Brings an input while another thread sleeps in the mailbox; returns how many inputs were taken for that thread
    /// and whether it sleeps on.
    fn bring_to_a_sleeper(due_after: Option<Duration>) -> (usize, bool) {
        let mailbox = Arc::new(Mailbox::default());
        let until = Instant::now() + Duration::from_secs(60);
        let due = due_after.map(|after| until + after);
        let turn = Arc::new(Counter { mailbox: mailbox.clone(), taken: AtomicUsize::new(0), due });
        mailbox.set_turn(Some(turn.clone()));
        let sleeper = mailbox.clone();
        let thread = std::thread::spawn(move || sleeper.wait(until));
        while mailbox.state.lock().sleeping_until.is_none() {
            std::thread::yield_now();
        }
        mailbox.bring(vec![Input::PeerUp(1)]);
        let sleeps_on = mailbox.state.lock().sleeping_until.is_some();
        mailbox.send(Input::PeerUp(2));
        thread.join().expect("sleeper");
        (turn.taken.load(Ordering::SeqCst), sleeps_on)
    }

    #[test]
    fn who_brings_news_decides_in_place_of_a_sleeper() {
        assert_eq!(bring_to_a_sleeper(Some(Duration::ZERO)), (1, true));
    }

    #[test]
    fn what_came_during_a_turn_gets_another_without_waking_the_sleeper() {
        /// Another input comes during the first turn.
        struct Joined(Counter);

        impl Turn for Joined {
            fn take(&self) -> Option<Instant> {
                if self.0.taken.load(Ordering::SeqCst) == 0 {
                    self.0.take();
                    self.0.mailbox.send(Input::PeerUp(2));
                    return self.0.due;
                }
                self.0.take()
            }
        }

        let mailbox = Arc::new(Mailbox::default());
        let due = Some(Instant::now() + Duration::from_secs(60));
        let counter = Counter { mailbox: mailbox.clone(), taken: AtomicUsize::new(0), due };
        let turn = Arc::new(Joined(counter));
        mailbox.set_turn(Some(turn.clone()));
        mailbox.state.lock().sleeping_until = due;
        mailbox.bring(vec![Input::PeerUp(1)]);
        assert_eq!(turn.0.taken.load(Ordering::SeqCst), 2);
        assert!(mailbox.state.lock().sleeping_until.is_some(), "nobody was woken");
        mailbox.set_turn(None);
    }

    #[test]
    fn a_sleeper_is_woken_when_the_turn_needs_it() {
        assert_eq!(bring_to_a_sleeper(None), (1, false));
    }
}
