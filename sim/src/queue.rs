//! What will happen, in order of time; at the same moment, in the order it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bytes::Bytes;
use log::WriteDone;
use member::MessageClass;
use member::jobs::{Done, Job};

/// Something that will happen to a member, a link, a client or the whole.
pub(crate) enum Event {
    /// A member takes its turn: inputs, then decisions.
    Turn { member: usize, run: u64 },
    /// The log thread writes and syncs what was handed to it.
    RunWrites { member: usize, run: u64 },
    /// The deciding thread hears of it.
    Written { member: usize, run: u64, done: WriteDone },
    /// The background thread does a job.
    RunJob { member: usize, run: u64, job: Job },
    /// The deciding thread hears of it.
    JobDone { member: usize, run: u64, done: Done },
    /// A frame arrives.
    Deliver { from: usize, to: usize, epoch: u64, class: MessageClass, bytes: Bytes },
    /// A link is dialled.
    Dial { from: usize, to: usize, epoch: u64 },
    /// The sender notices that a link is gone.
    Broken { from: usize, to: usize, epoch: u64 },
    /// The next piece of a snapshot on its way.
    Snapshot { transfer: u64 },
    /// A client does its next thing.
    Client { client: usize },
    /// A client gives up waiting.
    GiveUp { client: usize, op: u64 },
    /// A watching client reads what has come.
    PollWatch { watcher: usize },
    /// A planned fault begins.
    Fault { planned: usize },
    /// A fault that waited for an operation strikes.
    ArmedFault { planned: usize },
    /// A fault that lasts ends.
    FaultEnds { planned: usize },
    /// A process that is down starts.
    Start { member: usize },
    /// Power is lost, if it has not been by now.
    PowerLoss { member: usize, run: u64 },
    /// No more faults from now on.
    Calm,
    /// All must be well again.
    Judge,
    /// All must have been done and applied.
    End,
    /// At the end, a member is read from its first key to its last.
    ReadAll { member: usize },
}

/// The events to come: a heap of moments, and beside it the events themselves, which are large and stay where they are.
#[derive(Default)]
pub(crate) struct Queue {
    /// Moment, number of the plan, slot of the event.
    moments: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    planned: u64,
}

impl Queue {
    /// Plans an event.
    pub(crate) fn plan(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.moments.push(Reverse((at_ns, self.planned, slot)));
    }

    /// The next event and its moment.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, _, slot)) = self.moments.pop()?;
        self.free.push(slot);
        Some((at_ns, self.events[slot].take()?))
    }
}
