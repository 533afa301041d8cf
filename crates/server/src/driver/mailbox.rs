//! How everybody talks to the deciding thread: a list that is handed over whole.
//!
//! Senders append under a short lock and wake the thread only when it sleeps, so that under load many requests cost one
//! wake-up. Clients are limited by admission before they send; peers by [`MAX_BULK_BYTES`]: a thread that reads a bulk
//! stream waits while that much lies here, and TCP makes the peer wait.

use std::time::Duration;

use member::Input;
use parking_lot::{Condvar, Mutex};

/// Bytes of bulk frames that may lie in the mailbox: several times what consensus lets a peer have in flight, so that
/// only a member that lags, or a peer that floods, meets it.
const MAX_BULK_BYTES: usize = 64 << 20;

#[derive(Default)]
struct State {
    inputs: Vec<Input>,
    bulk_bytes: usize,
    sleeping: bool,
}

/// The deciding thread's mailbox.
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

    /// Sends an input that holds `bytes` of a peer's bulk stream; waits while too much lies here.
    pub(crate) fn send_bulk(&self, input: Input, bytes: usize) {
        let mut state = self.state.lock();
        self.emptied.wait_while(&mut state, |state| state.bulk_bytes >= MAX_BULK_BYTES);
        state.bulk_bytes += bytes;
        drop(state);
        self.send(input);
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
        if std::mem::take(&mut state.bulk_bytes) >= MAX_BULK_BYTES {
            self.emptied.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Inputs arrive whole and in order; a sleeper is woken.
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_peer_that_floods_waits_until_the_mailbox_is_emptied() {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.send_bulk(Input::PeerUp(1), MAX_BULK_BYTES);
        let sender = mailbox.clone();
        let thread = std::thread::spawn(move || sender.send_bulk(Input::PeerUp(2), 1));
        let mut all = Vec::new();
        while all.len() < 2 {
            let mut inputs = Vec::new();
            mailbox.take(&mut inputs, Duration::from_secs(60));
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
            mailbox.take(&mut inputs, Duration::from_secs(60));
            all.append(&mut inputs);
        }
        thread.join().expect("sender");
        let peers: Vec<_> = all.iter().map(|input| format!("{input:?}")).collect();
        assert_eq!(peers, ["PeerUp(1)", "PeerUp(2)"]);
    }
}
