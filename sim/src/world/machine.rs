//! A machine with its disk and its clocks, and the process that runs on it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use api::etcdserverpb::{AlarmType, WatchCreateRequest};
use bytes::Bytes;
use log::{Disk, Options, WriteJob};
use member::{InitialMember, Input, MemberConfig, OpenedMember, StartMode};
use store::watch::WatchStream;
use store::{Caller, TokenHash};

use super::clock::MachineClock;
use super::disk::SimDisk;
use super::lease_stream::{SimLeaseStream, SimRenewal};
use super::request::{ClientRequest, PendingRequest};
use super::watch_stream::SimWatchStream;
use crate::defects::Defect;
use crate::plan::operation::MemberOperation;
use crate::plan::run_plan::RunPlan;
use crate::rng::Rng;

/// A tick of a member.
pub(crate) const TICK_NS: u64 = 100_000_000;
/// Ticks of an election timeout.
pub(crate) const ELECTION_TICKS: u32 = 10;

/// Revisions that the watch of a started member looks at again.
const OBSERVER_OVERLAP: i64 = 20;

/// Size at which a watch response is fragmented, for watchers that request it; none here does.
pub(crate) const FRAGMENT_BYTES: usize = 2 << 20;

/// A machine.
pub(crate) struct SimMachine {
    /// The member's id.
    pub(crate) id: u64,
    /// Where its member listens for peers.
    pub(crate) urls: Vec<String>,
    /// Its disk.
    pub(crate) disk: SimDisk,
    /// Its clocks.
    pub(crate) clock: MachineClock,
    /// Its process, while one runs.
    pub(crate) process: Option<SimProcess>,
    /// Number of its current or last process, from 1.
    pub(crate) run: u64,
    /// The random number of its data directory.
    pub(crate) incarnation: u64,
    /// It has power: while no process runs, it refuses connections.
    pub(crate) has_power: bool,
    /// Bits were flipped on its disk, or it lost its directory.
    pub(crate) damaged: bool,
    /// A bit flipped at the end of its log.
    pub(crate) tail_flip: Option<TailFlip>,
    /// It lost its directory: its peers refuse it.
    pub(crate) wiped: bool,
    /// Why the member takes no part, now or any more.
    pub(crate) excluded: Option<&'static str>,
    /// Of a member that joins: the members that it was told.
    pub(crate) told: Option<Vec<InitialMember>>,
    /// Syncs complete no sooner than this.
    pub(crate) syncs_stalled_until_ns: u64,
    /// The file that its newest merge of checkpoints has written.
    pub(crate) merged: Option<PathBuf>,
    /// Applied index of its newest durable checkpoint.
    pub(crate) checkpoint_index: u64,
    /// When a defect makes its monotonic clock jump.
    pub(crate) clock_jump_at_ns: u64,
}

/// A bit that flipped where recovery cannot distinguish it from a torn write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailFlip {
    /// The last entry that lies before it.
    pub(crate) last_whole: u64,
    /// Its log address.
    pub(crate) position: u64,
}

/// A running process.
pub(crate) struct SimProcess {
    /// The member, and what services use of it.
    pub(crate) opened: OpenedMember,
    /// The random number that it drew when it started.
    pub(crate) process_run: u64,
    /// Inputs for the next step.
    pub(crate) inputs: VecDeque<Input>,
    /// Time of the next step that is scheduled.
    pub(crate) step_at_ns: u64,
    /// Consecutive steps without input and output, each due as soon as the one before was over.
    pub(crate) idle_steps: u32,
    /// What its monotonic clock showed when it started.
    pub(crate) began_ns: u64,
    /// It is paused until then.
    pub(crate) paused_until_ns: u64,
    /// A step that takes time is over then; 0 if none is under way.
    pub(crate) busy_until_ns: u64,
    /// Write jobs for the log thread.
    pub(crate) writes: Vec<WriteJob>,
    /// The log thread is writing.
    pub(crate) writing: bool,
    /// Background jobs under way.
    pub(crate) jobs: RunningJobs,
    /// A leadership transfer under way: the token of the request, and the transfer target.
    pub(crate) transfer: Option<(u64, usize)>,
    /// Requests of clients that are under way, by token.
    pub(crate) pending: BTreeMap<u64, PendingRequest>,
    /// The peers that it keeps connections to, and the URLs that it dials.
    pub(crate) peers: BTreeMap<u64, Vec<String>>,
    /// The next token.
    next_token: u64,
    /// Watch streams of clients, by watcher.
    pub(crate) watch_streams: BTreeMap<usize, SimWatchStream>,
    /// Keep-alive streams of clients, by keeper.
    pub(crate) lease_streams: BTreeMap<usize, SimLeaseStream>,
    /// Renewals of such streams that are under way, by token: the keeper, and which of its streams it was.
    pub(crate) renewals: BTreeMap<u64, (usize, u64, SimRenewal)>,
    /// The simulator's own watch of all keys, from which the checks learn each revision.
    pub(crate) observer: WatchStream,
    /// Applied index at which the state hash was last compared.
    pub(crate) observed_index: Option<u64>,
    /// Auth revision, and whether auth was enabled, when its users and roles were last compared.
    pub(crate) users_at: Option<(u64, bool)>,
    /// Values of a defective cache, by key.
    pub(crate) cached_values: BTreeMap<Bytes, Bytes>,
    /// Users of a defective cache, by token.
    pub(crate) cached_users: BTreeMap<TokenHash, Caller>,
}

/// Background jobs under way on a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningJobs {
    /// Files of the log being prepared or removed.
    pub(crate) log: usize,
    /// Checkpoints being written.
    pub(crate) checkpoint: usize,
    /// Values being copied so that their file can be freed.
    pub(crate) relocation: usize,
}

impl SimProcess {
    /// The process of a member that was just opened.
    pub(crate) fn new(opened: OpenedMember, process_run: u64, began_ns: u64) -> SimProcess {
        let from =
            (opened.reader.current_revision() - OBSERVER_OVERLAP).max(opened.reader.compacted()).max(1);
        let observer = watch_everything(&opened, from);
        let members = opened.reader.members().into_iter();
        let peers = members.map(|member| (member.id, member.peer_urls)).collect();
        SimProcess {
            opened,
            process_run,
            inputs: VecDeque::new(),
            step_at_ns: u64::MAX,
            idle_steps: 0,
            began_ns,
            paused_until_ns: 0,
            busy_until_ns: 0,
            writes: Vec::new(),
            writing: false,
            jobs: RunningJobs::default(),
            transfer: None,
            pending: BTreeMap::new(),
            peers,
            next_token: 1,
            watch_streams: BTreeMap::new(),
            lease_streams: BTreeMap::new(),
            renewals: BTreeMap::new(),
            observer,
            observed_index: None,
            users_at: None,
            cached_values: BTreeMap::new(),
            cached_users: BTreeMap::new(),
        }
    }

    /// A token for the next request.
    pub(crate) fn take_token(&mut self) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        token
    }

    /// The target of a leadership transfer from here.
    pub(crate) fn transfer_to(&self) -> Option<usize> {
        self.transfer.map(|(_, to)| to)
    }
}

impl SimMachine {
    /// The machine of a member, which has never run.
    pub(crate) fn new(member: usize, plan: &RunPlan, defect: Option<Defect>, rng: &mut Rng) -> SimMachine {
        let incarnation = rng.next() | 1;
        let has_defect = match defect {
            Some(Defect::SyncSkipped) => member == (plan.seed % plan.members as u64) as usize,
            _ => true,
        };
        let rate_ppm = match defect {
            Some(Defect::LeaseClockSlow) => -600_000,
            _ => plan.rates_ppm[member],
        };
        SimMachine {
            id: id_of(member),
            urls: vec![member_url(member)],
            has_power: true,
            disk: SimDisk::new(defect.filter(|_| has_defect), record_salt(incarnation)),
            clock: MachineClock::new(rate_ppm, rng.below(1 << 40)),
            process: None,
            run: 0,
            incarnation,
            damaged: false,
            tail_flip: None,
            wiped: false,
            excluded: (member >= plan.members).then_some(IS_NOT_ADDED),
            told: None,
            syncs_stalled_until_ns: 0,
            merged: None,
            checkpoint_index: 0,
            clock_jump_at_ns: u64::MAX,
        }
    }

    /// What the records of its directory are salted with.
    pub(crate) fn salt(&self) -> u32 {
        record_salt(self.incarnation)
    }

    /// Whether its client port is open: that of a member that joins, once its state shows what it published.
    pub(crate) fn serves(&self) -> bool {
        let shows_itself = |process: &SimProcess| {
            let members = process.opened.reader.members();
            members.iter().any(|member| member.id == self.id && !member.name.is_empty())
        };
        self.process.as_ref().is_some_and(|process| self.told.is_none() || shows_itself(process))
    }

    /// Whether a process runs.
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// The process, if it is this run of it.
    pub(crate) fn process(&mut self, run: u64) -> Option<&mut SimProcess> {
        if run == self.run { self.process.as_mut() } else { None }
    }

    /// The operations that are under way on its member, but for snapshots.
    pub(crate) fn under_way(&self) -> Vec<MemberOperation> {
        let Some(process) = &self.process else { return Vec::new() };
        let asks =
            |is: fn(&ClientRequest) -> bool| process.pending.values().any(|pending| is(&pending.request));
        let reader = &process.opened.reader;
        let no_space = AlarmType::Nospace as i32;
        let pairs = [
            (
                MemberOperation::Put,
                asks(|request| matches!(request, ClientRequest::Put(_) | ClientRequest::Delete(_))),
            ),
            (
                MemberOperation::Txn,
                asks(|request| matches!(request, ClientRequest::Txn(_) | ClientRequest::ReadTxn(_))),
            ),
            (
                MemberOperation::Read,
                asks(|request| match request {
                    ClientRequest::Read(range) | ClientRequest::Stream(range) => range.revision == 0,
                    _ => false,
                }),
            ),
            (
                MemberOperation::PastRead,
                asks(|request| matches!(request, ClientRequest::Read(range) if range.revision > 0)),
            ),
            (
                MemberOperation::Lease,
                asks(|request| {
                    matches!(
                        request,
                        ClientRequest::Grant(_) | ClientRequest::Revoke(_) | ClientRequest::KeepAlive { .. }
                    )
                }),
            ),
            (MemberOperation::Watch, !process.watch_streams.is_empty()),
            (MemberOperation::LogWrite, process.writing),
            (MemberOperation::LogFiles, process.jobs.log > 0),
            (MemberOperation::Checkpoint, process.jobs.checkpoint > 0),
            (MemberOperation::Relocation, process.jobs.relocation > 0),
            (
                MemberOperation::Compaction,
                reader.purged() < reader.compacted()
                    || asks(|request| matches!(request, ClientRequest::Compact(_))),
            ),
            (MemberOperation::Transfer, process.transfer.is_some()),
            (MemberOperation::Quota, reader.alarms().iter().any(|alarm| alarm.alarm == no_space)),
            (MemberOperation::Election, process.opened.status.leader() == 0),
        ];
        pairs.into_iter().filter(|(_, is)| *is).map(|(operation, _)| operation).collect()
    }
}

/// A watch of all keys from a revision on.
pub(crate) fn watch_everything(opened: &OpenedMember, from: i64) -> WatchStream {
    let mut observer = opened.hub.open(Arc::new(|| {}), FRAGMENT_BYTES);
    let everything = Bytes::from_static(b"\0");
    observer.create(&WatchCreateRequest {
        key: everything.clone(),
        range_end: everything,
        start_revision: from,
        ..Default::default()
    });
    observer
}

/// What the records of the directory with this incarnation are salted with.
pub(crate) fn record_salt(incarnation: u64) -> u32 {
    crc32c::crc32c(&incarnation.to_le_bytes())
}

/// Why a machine takes no part that is not a member yet.
pub(crate) const IS_NOT_ADDED: &str = "it is not added yet";

/// The peer URL of the member at an index.
pub(crate) fn member_url(member: usize) -> String {
    format!("http://m{member}:2380")
}

/// The id of the member at an index.
pub(crate) fn id_of(member: usize) -> u64 {
    member as u64 + 1
}

/// Options of the logs of a run.
pub(crate) fn log_options(plan: &RunPlan) -> Options {
    Options {
        segment_bytes: plan.segment_bytes,
        tail_bytes: plan.tail_bytes,
        cache_bytes: plan.cache_bytes,
        open_files: 8,
        ..Options::new(PathBuf::from("/data"))
    }
}

/// Segments of log kept for a follower that receives a snapshot: not enough for each one.
const SNAPSHOT_LOG_SEGMENTS: u64 = 8;

/// Fast enough that damage is met by the scrub about as often as by a reader.
const SCRUB_RATE: member::ScrubRate = member::ScrubRate {
    bytes_per_second: 4 << 20,
    disk_time_part: 2,
    max_stall_pause_ns: 200_000_000,
    first_after_ns: 300_000_000,
    round_ns: 5_000_000_000,
};

/// Opens the member of a machine. `process_run` identifies the process.
pub(crate) fn open_member(
    machine: &SimMachine,
    plan: &RunPlan,
    process_run: u64,
) -> Result<OpenedMember, member::OpenMemberError> {
    let member = |index: usize| InitialMember {
        id: id_of(index),
        name: format!("m{index}"),
        peer_urls: vec![member_url(index)],
    };
    let index = (machine.id - 1) as usize;
    let config = MemberConfig {
        cluster_id: 7,
        member_id: machine.id,
        incarnation: machine.incarnation,
        process_run,
        seed: plan.seed,
        name: format!("m{index}"),
        client_urls: vec![format!("http://m{index}:2379")],
        initial_cluster: machine.told.clone().unwrap_or_else(|| (0..plan.members).map(member).collect()),
        tick_ns: TICK_NS,
        election_ticks: ELECTION_TICKS,
        pre_vote: true,
        checkpoint_commands: plan.checkpoint_commands,
        catchup_entries: plan.catchup_entries,
        catchup_bytes: member::MAX_CATCHUP_BYTES,
        snapshot_log_bytes: SNAPSHOT_LOG_SEGMENTS * plan.segment_bytes,
        quota_bytes: plan.quota_bytes,
        store_limits: plan.store_limits[index],
        queue_limits: plan.queue_limits,
        max_unapplied_bytes: plan.max_unapplied_bytes,
        memory_limit_bytes: plan.memory_limit_bytes,
        max_last_changes_bytes: member::MAX_LAST_CHANGES_BYTES,
        membership: member::MembershipSettings::default(),
        scrub: SCRUB_RATE,
        hashes_large_compactions: false,
        start: if machine.told.is_some() { StartMode::Join { lineage: 0 } } else { StartMode::New },
    };
    let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
    member::open(&disk, &log_options(plan), config, &member::Sequential)
}
