//! A machine and the process on it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use api::etcdserverpb::AlarmType;
use bytes::Bytes;
use log::{Disk, Options, WriteJob};
use member::{Config, InitialMember, Input, Opened};
use store::watch::WatchStream;

use crate::clients::{Asked, Op};
use crate::clock::MachineClock;
use crate::coverage::Operation;
use crate::disk::SimDisk;
use crate::plan::Plan;

/// A tick of a member.
pub(crate) const TICK_NS: u64 = 100_000_000;
/// Ticks of an election timeout.
pub(crate) const ELECTION_TICKS: u32 = 10;

/// A machine with its disk and its clocks.
pub(crate) struct Machine {
    /// The member's id.
    pub(crate) id: u64,
    /// Its disk.
    pub(crate) disk: SimDisk,
    /// Its clocks.
    pub(crate) clock: MachineClock,
    /// The process, while one runs.
    pub(crate) process: Option<Process>,
    /// Counts the processes.
    pub(crate) run: u64,
    /// The random number of its data directory.
    pub(crate) incarnation: u64,
    /// Bits were flipped on its disk.
    pub(crate) damaged: bool,
    /// A bit flipped at the end of its log.
    pub(crate) tail_flip: Option<TailFlip>,
    /// It lost its directory: its peers refuse it.
    pub(crate) wiped: bool,
    /// Why it does not take part any more.
    pub(crate) gone: Option<&'static str>,
    /// Syncs are done no sooner.
    pub(crate) stalled_until_ns: u64,
    /// The index of the newest checkpoint that is durable.
    pub(crate) checkpoint: u64,
    /// A defect lets its clock jump at this moment.
    pub(crate) jump_at_ns: u64,
}

/// A bit that flipped where nobody can tell it from a torn write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailFlip {
    /// The last entry wholly before it.
    pub(crate) last_whole: u64,
    /// Its log position.
    pub(crate) position: u64,
}

/// A running process.
pub(crate) struct Process {
    /// The member and what others use of it.
    pub(crate) opened: Opened,
    /// What has not been handled yet.
    pub(crate) inbox: VecDeque<Input>,
    /// The next turn that is planned.
    pub(crate) turn_at_ns: u64,
    /// Turns one after another that nothing came into or out of, each due as soon as the last was over.
    pub(crate) idle_turns: u32,
    /// It does not run before.
    pub(crate) paused_until_ns: u64,
    /// For the log thread.
    pub(crate) writes: Vec<WriteJob>,
    /// The log thread is at work.
    pub(crate) writing: bool,
    /// Background jobs under way.
    pub(crate) jobs: Jobs,
    /// The leadership is being handed over: the token of the request, and to whom.
    pub(crate) moving: Option<(u64, usize)>,
    /// Requests by token.
    pub(crate) asked: BTreeMap<u64, Asked>,
    /// The next token.
    pub(crate) next_token: u64,
    /// Watch streams of clients, by watcher.
    pub(crate) streams: BTreeMap<usize, WatchStream>,
    /// Our own watch over everything, for the history.
    pub(crate) observer: WatchStream,
    /// The applied index at which its state was last looked at.
    pub(crate) shown: Option<u64>,
    /// What a defective cache keeps.
    pub(crate) kept: BTreeMap<Bytes, Bytes>,
}

/// Background jobs under way on a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jobs {
    /// Files of the log being prepared or removed.
    pub(crate) log: usize,
    /// Checkpoints being written.
    pub(crate) checkpoint: usize,
    /// Values being copied so that their file can go.
    pub(crate) relocation: usize,
}

impl Process {
    /// To whom the leadership is being handed over from here.
    pub(crate) fn moving_to(&self) -> Option<usize> {
        self.moving.map(|(_, to)| to)
    }
}

impl Machine {
    /// Whether a process runs here.
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// The process, if it is this run of it.
    pub(crate) fn process(&mut self, run: u64) -> Option<&mut Process> {
        if run == self.run { self.process.as_mut() } else { None }
    }

    /// What is under way here.
    pub(crate) fn under_way(&self) -> Vec<Operation> {
        let Some(process) = &self.process else { return Vec::new() };
        let asks = |is: fn(&Op) -> bool| process.asked.values().any(|asked| is(&asked.op));
        let reader = &process.opened.reader;
        let no_space = AlarmType::Nospace as i32;
        let pairs = [
            (Operation::Put, asks(|op| matches!(op, Op::Put(_) | Op::Delete(_)))),
            (Operation::Txn, asks(|op| matches!(op, Op::Txn(_)))),
            (Operation::Read, asks(|op| matches!(op, Op::Read(range) if range.revision == 0))),
            (Operation::PastRead, asks(|op| matches!(op, Op::Read(range) if range.revision > 0))),
            (Operation::Lease, asks(|op| matches!(op, Op::Grant(_) | Op::Revoke(_) | Op::KeepAlive { .. }))),
            (Operation::Watch, !process.streams.is_empty()),
            (Operation::LogWrite, process.writing),
            (Operation::Upkeep, process.jobs.log > 0),
            (Operation::Checkpoint, process.jobs.checkpoint > 0),
            (Operation::Relocation, process.jobs.relocation > 0),
            (
                Operation::Compaction,
                reader.purged() < reader.compacted() || asks(|op| matches!(op, Op::Compact(_))),
            ),
            (Operation::Transfer, process.moving.is_some()),
            (Operation::Quota, reader.alarms().iter().any(|alarm| alarm.alarm == no_space)),
            (Operation::Election, process.opened.status.leader() == 0),
        ];
        pairs.into_iter().filter(|(_, is)| *is).map(|(operation, _)| operation).collect()
    }
}

/// The id of the member at an index.
pub(crate) fn id_of(member: usize) -> u64 {
    member as u64 + 1
}

/// How the logs of a run are laid out.
pub(crate) fn options(plan: &Plan) -> Options {
    Options {
        segment_bytes: plan.segment_bytes,
        tail_bytes: plan.tail_bytes,
        cache_bytes: plan.cache_bytes,
        open_files: 8,
        ..Options::new(PathBuf::from("/data"))
    }
}

/// Opens the member of a machine.
pub(crate) fn open(
    machine: &Machine,
    plan: &Plan,
    start: u64,
    incarnation: u64,
) -> Result<Opened, member::OpenError> {
    let member = |index: usize| InitialMember {
        id: id_of(index),
        name: format!("m{index}"),
        peer_urls: vec![format!("http://m{index}:2380")],
    };
    let index = (machine.id - 1) as usize;
    let config = Config {
        cluster_id: 7,
        member_id: machine.id,
        incarnation,
        start,
        seed: plan.seed,
        name: format!("m{index}"),
        client_urls: vec![format!("http://m{index}:2379")],
        initial_cluster: (0..plan.members).map(member).collect(),
        tick_ns: TICK_NS,
        election_ticks: ELECTION_TICKS,
        pre_vote: true,
        checkpoint_commands: plan.checkpoint_commands,
        catchup_entries: plan.catchup_entries,
        quota_bytes: plan.quota_bytes,
    };
    let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
    member::open(&disk, &options(plan), config)
}
