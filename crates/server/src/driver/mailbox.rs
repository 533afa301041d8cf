//! How everybody talks to the deciding thread: a list that is handed over whole.
//!
//! Senders append under a short lock and wake the thread only when it sleeps, so that under load many requests cost
//! one wake-up. The list has no limit of its own: clients are limited by admission before they send, peers by what the
//! transport lets them have in flight.

use std::time::Duration;

use member::Input;
use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct State {
    inputs: Vec<Input>,
    sleeping: bool,
}

/// The deciding thread's mailbox.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Mailbox {
    /// Sends an input.
    pub(crate) fn send(&self, input: Input) {
        self.send_all(vec![input]);
    }

    /// Sends inputs, in order.
    pub(crate) fn send_all(&self, mut inputs: Vec<Input>) {
        let mut state = self.state.lock();
        if state.inputs.is_empty() {
            state.inputs = inputs;
        } else {
            state.inputs.append(&mut inputs);
        }
        if std::mem::take(&mut state.sleeping) {
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Takes all inputs into `into` (which must be empty), sleeping for up to `timeout` when there are none.
    pub(crate) fn take(&self, into: &mut Vec<Input>, timeout: Duration) {
        let mut state = self.state.lock();
        if state.inputs.is_empty() && !timeout.is_zero() {
            state.sleeping = true;
            self.arrived.wait_for(&mut state, timeout);
            state.sleeping = false;
        }
        std::mem::swap(&mut state.inputs, into);
    }
}

#[cfg(test)]
mod tests {
    //! Inputs arrive whole and in order; a sleeper is woken.
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
            let mut inputs = Vec::new();
            mailbox.take(&mut inputs, Duration::from_secs(60));
            all.append(&mut inputs);
        }
        thread.join().expect("sender");
        let peers: Vec<_> = all.iter().map(|input| format!("{input:?}")).collect();
        assert_eq!(peers, ["PeerUp(1)", "PeerUp(2)"]);
    }
}
