//! How everybody talks to the deciding thread: a list that is handed over whole.
//!
//! Senders append under a short lock and wake the thread only when it sleeps, so that under load many requests cost one
//! wake-up. The list has no limit of its own: clients are limited by admission before they send, peers by what the
//! transport lets them have in flight.

use std::time::Duration;

use member::{Answer, Input};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// Where an answer goes.
pub(crate) type Reply = oneshot::Sender<Answer>;

/// One input, and who waits for its answer under which token.
pub(crate) struct Letter {
    pub(crate) input: Input,
    pub(crate) reply: Option<(u64, Reply)>,
}

#[derive(Default)]
struct State {
    letters: Vec<Letter>,
    sleeping: bool,
}

/// The deciding thread's mailbox.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Mailbox {
    /// Sends an input nobody waits for.
    pub(crate) fn send(&self, input: Input) {
        self.push(Letter { input, reply: None });
    }

    /// Sends a request; its answer goes to `reply`.
    pub(crate) fn ask(&self, token: u64, input: Input, reply: Reply) {
        self.push(Letter { input, reply: Some((token, reply)) });
    }

    fn push(&self, letter: Letter) {
        let mut state = self.state.lock();
        state.letters.push(letter);
        if std::mem::take(&mut state.sleeping) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Takes all letters into `into` (which must be empty), sleeping for up to `timeout` when there are none.
    pub(crate) fn take(&self, into: &mut Vec<Letter>, timeout: Duration) {
        let mut state = self.state.lock();
        if state.letters.is_empty() && !timeout.is_zero() {
            state.sleeping = true;
            self.arrived.wait_for(&mut state, timeout);
            state.sleeping = false;
        }
        std::mem::swap(&mut state.letters, into);
    }
}

#[cfg(test)]
mod tests {
    //! Letters arrive whole and in order; a sleeper is woken.
    use super::*;
    use std::sync::Arc;

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
            let mut letters = Vec::new();
            mailbox.take(&mut letters, Duration::from_secs(60));
            all.append(&mut letters);
        }
        thread.join().expect("sender");
        let peers: Vec<_> = all.iter().map(|letter| format!("{:?}", letter.input)).collect();
        assert_eq!(peers, ["PeerUp(1)", "PeerUp(2)"]);
    }
}
