//! Snapshot streams: opened, broken, gone on with, ended.

use member::snapshot::{Outgoing, Receiver, SendError};
use member::{Answer, Input};

use super::Cluster;
use crate::checks::queues;
use crate::process::id_of;
use crate::queue::Event;
use crate::report::Violation;

const MS: u64 = 1_000_000;

/// Times a broken stream is opened again before its sender gives up.
const ATTEMPTS: u32 = 4;

/// How long a sender waits for a word of its receiver.
const PATIENCE_NS: u64 = 5_000 * MS;

/// A snapshot on its way.
pub(crate) struct Transfer {
    from: (usize, u64),
    to: usize,
    to_run: u64,
    outgoing: Box<Outgoing>,
    state: State,
    attempts: u32,
}

enum State {
    /// To be opened.
    Closed,
    /// The receiver was asked under this token, and is waited for until then.
    Asked { token: u64, until_ns: u64 },
    /// Bytes flow.
    Sending(Box<Receiver>),
    /// All bytes were given; the receiver's verdict is awaited under this token.
    Ending { token: u64, until_ns: u64 },
}

impl Transfer {
    /// Whether a member sends or receives it.
    pub(crate) fn concerns(&self, member: usize) -> bool {
        self.from.0 == member || self.to == member
    }
}

impl Cluster {
    /// A member wants a snapshot sent.
    pub(super) fn send_snapshot(&mut self, member: usize, outgoing: Box<Outgoing>) -> Result<(), Violation> {
        self.next_transfer += 1;
        let transfer = Transfer {
            from: (member, self.machines[member].run),
            to: (outgoing.peer() - 1) as usize,
            to_run: 0,
            outgoing,
            state: State::Closed,
            attempts: 0,
        };
        self.coverage.event("snapshots begun");
        self.transfers.insert(self.next_transfer, transfer);
        self.step_later(self.next_transfer, 5 * MS);
        let from = (member, self.machines[member].run);
        let running = self.transfers.values().filter(|transfer| transfer.from == from).count();
        queues::snapshots(member, running)
    }

    fn step_later(&mut self, number: u64, within_ns: u64) {
        let at_ns = self.now_ns + 1 + self.network.rng.below(within_ns);
        self.queue.plan(at_ns, Event::Snapshot { transfer: number });
    }

    /// The next piece of a transfer.
    pub(super) fn step_snapshot(&mut self, number: u64) {
        let Some(mut transfer) = self.transfers.remove(&number) else { return };
        let (from, run) = transfer.from;
        let sender_lives = self.machines[from].run == run && self.machines[from].is_up();
        let link = self.network.link(from, transfer.to);
        let connected = sender_lives && link.up && link.alive && link.cuts == 0;
        let known =
            matches!(transfer.state, State::Closed) || self.machines[transfer.to].run == transfer.to_run;
        if !connected || !known || !self.machines[transfer.to].is_up() || self.network.rng.below(60) == 0 {
            return self.stream_breaks(number, transfer, sender_lives);
        }
        match std::mem::replace(&mut transfer.state, State::Closed) {
            State::Closed => {
                let header = transfer.outgoing.header();
                let offered = |token| Input::SnapshotOffered { token, from: id_of(from), header };
                let token = self.ask_about_snapshot(transfer.to, offered);
                transfer.to_run = self.machines[transfer.to].run;
                transfer.state = State::Asked { token, until_ns: self.now_ns + PATIENCE_NS };
            }
            State::Sending(receiver) => return self.send_bytes(number, transfer, receiver),
            waiting @ (State::Asked { until_ns, .. } | State::Ending { until_ns, .. }) => {
                if self.now_ns >= until_ns {
                    return self.stream_breaks(number, transfer, true);
                }
                transfer.state = waiting;
            }
        }
        self.transfers.insert(number, transfer);
        self.step_later(number, 400 * MS);
    }

    fn ask_about_snapshot(&mut self, member: usize, input: impl FnOnce(u64) -> Input) -> u64 {
        let Some(process) = self.machines[member].process.as_mut() else { return 0 };
        let token = process.next_token;
        process.next_token += 1;
        self.feed(member, input(token));
        token
    }

    fn send_bytes(&mut self, number: u64, mut transfer: Transfer, mut receiver: Box<Receiver>) {
        let to = transfer.to;
        match transfer.outgoing.next_bytes() {
            Err(error) => {
                self.feed(to, Input::SnapshotBroken(receiver));
                return self.transfer_ends(transfer, Err(error));
            }
            Ok(Some(bytes)) => {
                // A stream may break in the middle of a piece.
                let part = if self.network.rng.below(40) == 0 { bytes.len() / 2 } else { bytes.len() };
                let taken = receiver.take(&bytes[..part]);
                if let Err(reason) = taken {
                    self.feed(to, Input::SnapshotBroken(receiver));
                    return self.transfer_ends(transfer, Err(SendError { reason, damaged: None }));
                }
                transfer.state = State::Sending(receiver);
                if part < bytes.len() {
                    return self.stream_breaks(number, transfer, true);
                }
            }
            Ok(None) => {
                let token = self.ask_about_snapshot(to, |token| Input::SnapshotWhole { token, receiver });
                transfer.state = State::Ending { token, until_ns: self.now_ns + PATIENCE_NS };
            }
        }
        self.transfers.insert(number, transfer);
        self.step_later(number, 500 * MS);
    }

    /// A stream broke: the receiver keeps what it has, the sender tries again.
    fn stream_breaks(&mut self, number: u64, mut transfer: Transfer, sender_lives: bool) {
        self.coverage.event("snapshot streams broken");
        if let State::Sending(receiver) = std::mem::replace(&mut transfer.state, State::Closed)
            && self.machines[transfer.to].run == transfer.to_run
        {
            self.feed(transfer.to, Input::SnapshotBroken(receiver));
        }
        if !sender_lives {
            return;
        }
        transfer.attempts += 1;
        if transfer.attempts > ATTEMPTS {
            let error = SendError { reason: "the stream broke too often".to_owned(), damaged: None };
            return self.transfer_ends(transfer, Err(error));
        }
        self.transfers.insert(number, transfer);
        self.step_later(number, 300 * MS);
    }

    fn transfer_ends(&mut self, transfer: Transfer, result: Result<(), SendError>) {
        let (from, run) = transfer.from;
        self.coverage.event(if result.is_ok() { "snapshots taken" } else { "snapshots not taken" });
        if self.machines[from].run == run {
            self.feed(from, Input::SnapshotSent { sent: transfer.outgoing.sent(), result });
        }
    }

    /// A receiver's word about a snapshot.
    pub(crate) fn snapshot_answered(&mut self, member: usize, token: u64, answer: Answer) {
        let run = self.machines[member].run;
        let waits = |transfer: &Transfer| match &transfer.state {
            State::Asked { token: asked, .. } | State::Ending { token: asked, .. } => {
                transfer.to == member && transfer.to_run == run && *asked == token
            }
            _ => false,
        };
        let number = self.transfers.iter().find(|(_, transfer)| waits(transfer)).map(|(number, _)| *number);
        let transfer = number.and_then(|number| Some((number, self.transfers.remove(&number)?)));
        let Some((number, mut transfer)) = transfer else {
            if let Answer::SnapshotFrom(receiver) = answer {
                self.feed(member, Input::SnapshotBroken(receiver));
            }
            return;
        };
        match answer {
            Answer::SnapshotFrom(receiver) if transfer.outgoing.resume(receiver.offset()) => {
                transfer.state = State::Sending(receiver);
                self.transfers.insert(number, transfer);
                self.step_later(number, 500 * MS);
            }
            Answer::SnapshotFrom(receiver) => {
                self.feed(member, Input::SnapshotBroken(receiver));
                let error = SendError { reason: "too far back".to_owned(), damaged: None };
                self.transfer_ends(transfer, Err(error));
            }
            Answer::SnapshotTaken => self.transfer_ends(transfer, Ok(())),
            Answer::SnapshotRefused(reason) => {
                self.transfer_ends(transfer, Err(SendError { reason, damaged: None }));
            }
            _ => {}
        }
    }
}
