//! The queue of events: simulated time.
//!
//! Events are handled in the order of their times; events of the same time in the order in which they were scheduled.
//! So nothing depends on anything but the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bytes::Bytes;
use log::WriteDone;
use member::jobs::{Done, Job};
use member::{MessageClass, Output};

use super::lease_stream::SimRenewal;

/// Something that will happen. `run` numbers the processes of a machine: events for an earlier process are void.
pub(crate) enum SimEvent {
    /// A member handles its inputs and decides.
    MemberStep { member: usize, run: u64 },
    /// A step that took time is over: what it decided is carried out.
    StepEnds { member: usize, run: u64, out: Box<Output>, idle: bool },
    /// The log thread writes and syncs what was handed to it.
    WriteLog { member: usize, run: u64 },
    /// The member receives the completion of a write.
    LogWritten { member: usize, run: u64, done: WriteDone },
    /// The background thread runs a job.
    RunJob { member: usize, run: u64, job: Job },
    /// The member receives the completion of a job.
    JobDone { member: usize, run: u64, done: Done },
    /// A frame arrives.
    Deliver { from: usize, to: usize, epoch: u64, class: MessageClass, bytes: Bytes },
    /// A link is dialled.
    Dial { from: usize, to: usize, epoch: u64 },
    /// The sender notices that a link is gone.
    LinkLost { from: usize, to: usize, epoch: u64 },
    /// One stream of a link is dialled.
    DialStream { from: usize, to: usize, class: MessageClass, epoch: u64 },
    /// The sender notices that one stream of a link is gone.
    StreamLost { from: usize, to: usize, class: MessageClass, epoch: u64 },
    /// A snapshot stream moves on by one step.
    SnapshotStep { stream: u64 },
    /// A client sends its next request.
    ClientRequests { client: usize },
    /// A client stops waiting for an answer.
    ClientTimeout { client: usize, number: u64 },
    /// A read of a user goes on: it is made, or its caller is checked again.
    ReadGoesOn { member: usize, run: u64, number: u64 },
    /// The next step of a call that is answered in steps.
    CallGoesOn { member: usize, run: u64, number: u64 },
    /// A client that keeps leases alive visits its stream.
    KeeperVisits { keeper: usize },
    /// A renewal of its stream with this number is handed to the member: its caller was checked.
    RenewalChecked { member: usize, run: u64, keeper: usize, stream: u64, renewal: SimRenewal },
    /// A watching client reads from its stream.
    WatcherReads { watcher: usize },
    /// The time of a planned fault has come.
    FaultDue { planned: usize },
    /// A fault that waits for an operation strikes.
    ArmedFaultDue { planned: usize },
    /// A fault that lasts ends.
    FaultEnds { planned: usize },
    /// A process starts, unless it runs.
    Start { member: usize },
    /// A member gives up the URLs that it had before a move.
    MoveEnds { member: usize },
    /// The operator changes the membership.
    OperatorActs,
    /// A machine loses power, unless its process ended before.
    PowerLoss { member: usize, run: u64 },
    /// Faults stop; the recovery phase begins.
    FaultsStop,
    /// Clients stop; every member is sent a last write.
    FinalWrites,
    /// All members must have converged.
    CheckConvergence,
    /// At the end, a member is read from its first key to its last.
    FinalRead { member: usize },
}

/// The events to come: a heap of small keys, and beside it the events, which are large and stay in their slots.
#[derive(Default)]
pub(crate) struct EventQueue {
    /// Time, sequence number, slot of the event.
    keys: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<SimEvent>>,
    free: Vec<usize>,
    scheduled: u64,
}

impl EventQueue {
    /// Schedules an event.
    pub(crate) fn schedule(&mut self, at_ns: u64, event: SimEvent) {
        self.scheduled += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.keys.push(Reverse((at_ns, self.scheduled, slot)));
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, SimEvent)> {
        let Reverse((at_ns, _, slot)) = self.keys.pop()?;
        self.free.push(slot);
        Some((at_ns, self.events[slot].take()?))
    }
}
