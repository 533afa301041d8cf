//! Snapshot streams: opened, broken, resumed, finished.
//!
//! ```text
//! Closed --offered--> Offered --SnapshotFrom(offset)--> Sending --all sent--> Installing --SnapshotTaken--> finished
//!   ^                    |                                 |                     |
//!   '--------------------+------------ breaks -------------+---------------------'
//! ```

use bytes::Bytes;
use member::snapshot::{Outgoing, Receiver, SendError};
use member::{Answer, Input};

use crate::checks::limits;
use crate::report::trace::Violation;
use crate::simulation::state::{Simulation, SnapshotStream, StreamPhase};
use crate::world::machine::id_of;
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;

/// Times that a stream is opened again after it broke.
const MAX_BREAKS: u32 = 4;

/// Items of a snapshot that a stream carries between two moments at which it may break, in runs with many keys.
const MANY_KEYS_ITEMS: usize = 200;

/// How long a sender waits for an answer of the receiver.
const ANSWER_TIMEOUT_NS: u64 = 5_000 * MS;

impl Simulation {
    /// A member wants a snapshot sent.
    pub(super) fn send_snapshot(&mut self, member: usize, outgoing: Box<Outgoing>) -> Result<(), Violation> {
        self.snapshots.last_number += 1;
        let stream = SnapshotStream {
            from: (member, self.machines[member].run),
            to: (outgoing.peer() - 1) as usize,
            to_run: 0,
            outgoing,
            phase: StreamPhase::Closed,
            breaks: 0,
        };
        self.coverage.event("snapshots begun");
        self.snapshots.streams.insert(self.snapshots.last_number, stream);
        self.step_later(self.snapshots.last_number, 5 * MS);
        let from = (member, self.machines[member].run);
        let running = self.snapshots.streams.values().filter(|stream| stream.from == from).count();
        limits::snapshots(member, running)
    }

    fn step_later(&mut self, number: u64, within_ns: u64) {
        let at_ns = self.now_ns + 1 + self.network.rng.below(within_ns);
        self.queue.schedule(at_ns, SimEvent::SnapshotStep { stream: number });
    }

    /// The next step of a stream.
    pub(in crate::simulation) fn step_snapshot(&mut self, number: u64) {
        let Some(mut stream) = self.snapshots.streams.remove(&number) else { return };
        let (from, run) = stream.from;
        let sender_lives = self.machines[from].run == run && self.machines[from].is_up();
        let link = self.network.link(from, stream.to);
        let connected = sender_lives && link.up && link.alive && link.cuts == 0;
        let known =
            matches!(stream.phase, StreamPhase::Closed) || self.machines[stream.to].run == stream.to_run;
        if !connected || !known || !self.machines[stream.to].is_up() || self.network.rng.below(60) == 0 {
            return self.stream_breaks(number, stream, sender_lives);
        }
        match std::mem::replace(&mut stream.phase, StreamPhase::Closed) {
            StreamPhase::Closed => {
                let header = stream.outgoing.header();
                let offered = |token| Input::SnapshotOffered { token, from: id_of(from), header };
                let token = self.ask_about_snapshot(stream.to, offered);
                stream.to_run = self.machines[stream.to].run;
                stream.phase = StreamPhase::Offered { token, until_ns: self.now_ns + ANSWER_TIMEOUT_NS };
            }
            StreamPhase::Sending(receiver) => return self.send_bytes(number, stream, receiver),
            waiting @ (StreamPhase::Offered { until_ns, .. } | StreamPhase::Installing { until_ns, .. }) => {
                if self.now_ns >= until_ns {
                    return self.stream_breaks(number, stream, true);
                }
                stream.phase = waiting;
            }
        }
        self.snapshots.streams.insert(number, stream);
        self.step_later(number, 400 * MS);
    }

    fn ask_about_snapshot(&mut self, member: usize, input: impl FnOnce(u64) -> Input) -> u64 {
        let Some(process) = self.machines[member].process.as_mut() else { return 0 };
        let token = process.take_token();
        self.give(member, input(token));
        token
    }

    fn send_bytes(&mut self, number: u64, mut stream: SnapshotStream, mut receiver: Box<Receiver>) {
        let to = stream.to;
        let most = if self.plan.names.are_many() { MANY_KEYS_ITEMS } else { 1 };
        match next_items(&mut stream.outgoing, most) {
            Err(error) => {
                self.give(to, Input::SnapshotBroken(receiver));
                return self.finish_stream(stream, Err(error));
            }
            Ok(Some(bytes)) => {
                // A stream may break within a chunk.
                let part = if self.network.rng.below(40) == 0 { bytes.len() / 2 } else { bytes.len() };
                let taken = receiver.take(&bytes[..part]);
                if let Err(reason) = taken {
                    self.give(to, Input::SnapshotBroken(receiver));
                    return self.finish_stream(stream, Err(SendError { reason, damaged: None }));
                }
                stream.phase = StreamPhase::Sending(receiver);
                if part < bytes.len() {
                    return self.stream_breaks(number, stream, true);
                }
            }
            Ok(None) => {
                let token = self.ask_about_snapshot(to, |token| Input::SnapshotWhole { token, receiver });
                stream.phase = StreamPhase::Installing { token, until_ns: self.now_ns + ANSWER_TIMEOUT_NS };
            }
        }
        self.snapshots.streams.insert(number, stream);
        self.step_later(number, 500 * MS);
    }

    /// A stream breaks: the receiver keeps what it has received, and the sender opens the stream again.
    fn stream_breaks(&mut self, number: u64, mut stream: SnapshotStream, sender_lives: bool) {
        self.coverage.event("snapshot streams broken");
        if let StreamPhase::Sending(receiver) = std::mem::replace(&mut stream.phase, StreamPhase::Closed)
            && self.machines[stream.to].run == stream.to_run
        {
            self.give(stream.to, Input::SnapshotBroken(receiver));
        }
        if !sender_lives {
            return;
        }
        stream.breaks += 1;
        if stream.breaks > MAX_BREAKS {
            let error = SendError { reason: "the stream broke too often".to_owned(), damaged: None };
            return self.finish_stream(stream, Err(error));
        }
        self.snapshots.streams.insert(number, stream);
        self.step_later(number, 300 * MS);
    }

    fn finish_stream(&mut self, stream: SnapshotStream, result: Result<(), SendError>) {
        let (from, run) = stream.from;
        self.coverage.event(if result.is_ok() { "snapshots taken" } else { "snapshots not taken" });
        if self.machines[from].run == run {
            self.give(from, Input::SnapshotSent { sent: stream.outgoing.sent(), result });
        }
    }

    /// The answer of a receiver.
    pub(in crate::simulation) fn snapshot_answered(&mut self, member: usize, token: u64, answer: Answer) {
        let run = self.machines[member].run;
        let waits = |stream: &SnapshotStream| match &stream.phase {
            StreamPhase::Offered { token: offered, .. } | StreamPhase::Installing { token: offered, .. } => {
                stream.to == member && stream.to_run == run && *offered == token
            }
            _ => false,
        };
        let number =
            self.snapshots.streams.iter().find(|(_, stream)| waits(stream)).map(|(number, _)| *number);
        let stream = number.and_then(|number| Some((number, self.snapshots.streams.remove(&number)?)));
        let Some((number, mut stream)) = stream else {
            if let Answer::SnapshotFrom(receiver) = answer {
                self.give(member, Input::SnapshotBroken(receiver));
            }
            return;
        };
        match answer {
            Answer::SnapshotFrom(receiver) if stream.outgoing.resume(receiver.offset()) => {
                stream.phase = StreamPhase::Sending(receiver);
                self.snapshots.streams.insert(number, stream);
                self.step_later(number, 500 * MS);
            }
            Answer::SnapshotFrom(receiver) => {
                self.give(member, Input::SnapshotBroken(receiver));
                let error = SendError { reason: "too far back".to_owned(), damaged: None };
                self.finish_stream(stream, Err(error));
            }
            Answer::SnapshotTaken => self.finish_stream(stream, Ok(())),
            Answer::SnapshotRefused(reason) => {
                self.finish_stream(stream, Err(SendError { reason, damaged: None }));
            }
            _ => {}
        }
    }
}

/// Up to `most` items of a snapshot; `None` at its end.
fn next_items(outgoing: &mut Outgoing, most: usize) -> Result<Option<Bytes>, SendError> {
    let Some(first) = outgoing.next_bytes()? else { return Ok(None) };
    if most == 1 {
        return Ok(Some(first));
    }
    let mut items = vec![first];
    while items.len() < most
        && let Some(item) = outgoing.next_bytes()?
    {
        items.push(item);
    }
    Ok(Some(items.concat().into()))
}
