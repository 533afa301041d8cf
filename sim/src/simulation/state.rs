//! The state of one run. The handlers of events, in the other files of `simulation`, are methods on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::etcdserverpb as pb;
use member::MembershipRequest;
use member::proposal_queue::QueueLimits;
use member::snapshot::{Outgoing, Receiver};
use store::{HashKvScan, LeaseList, PermittedRange};

use crate::checks::Checks;
use crate::checks::permissions::model::AuthModel;
use crate::checks::streams::renewals::OwedRenewals;
use crate::checks::streams::watch_requests::TakenRequests;
use crate::checks::watches::OwedEvents;
use crate::defects::Defect;
use crate::plan::run_plan::RunPlan;
use crate::report::coverage::Coverage;
use crate::report::trace::Trace;
use crate::rng::{Rng, RngStream};
use crate::world::machine::SimMachine;
use crate::world::network::SimNetwork;
use crate::world::queue::EventQueue;
use crate::world::request::{ClientToken, PendingRequest};

/// Keys of a slice with the defect that does not divide commands: more than any run has.
const UNSLICED_KEYS: usize = 1 << 30;

/// Clients that keep leases alive, in runs in which streams have many requests.
const KEEPERS: usize = 2;

/// What a run is given besides its seed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunSettings {
    /// A deliberate defect.
    pub(crate) defect: Option<Defect>,
    /// Indices of the planned faults that strike; `None` for all.
    pub(crate) faults: Option<Vec<usize>>,
    /// Print the trace as it is written.
    pub(crate) verbose: bool,
}

/// A run.
pub(crate) struct Simulation {
    /// What was drawn before the run.
    pub(crate) plan: RunPlan,
    /// The deliberate defect of this run.
    pub(crate) defect: Option<Defect>,
    /// Simulated time since the start.
    pub(crate) now_ns: u64,
    /// What will happen.
    pub(crate) queue: EventQueue,
    /// The machines, by member.
    pub(crate) machines: Vec<SimMachine>,
    /// The links between them.
    pub(crate) network: SimNetwork,
    /// The clients.
    pub(crate) workload: Workload,
    /// Snapshots under way.
    pub(crate) snapshots: SnapshotStreams,
    /// Faults under way.
    pub(crate) pending_faults: PendingFaults,
    /// Who changes the membership.
    pub(super) operator: Operator,
    /// What the operator draws.
    pub(super) operator_rng: Rng,
    /// How far the end of the run has come.
    pub(crate) ending: RunEnd,
    /// What must hold.
    pub(crate) checks: Checks,
    /// What was tested.
    pub(crate) coverage: Coverage,
    /// What happened.
    pub(crate) trace: Trace,
    /// Delays of disks, and what a power loss leaves of their contents.
    pub(crate) disk_rng: Rng,
    /// Delays of steps, incarnations and the like.
    pub(crate) member_rng: Rng,
}

/// The clients of a run.
pub(crate) struct Workload {
    /// Clients that send requests.
    pub(crate) clients: Vec<SimClient>,
    /// Clients that watch.
    pub(crate) watchers: Vec<SimWatcher>,
    /// Clients that keep leases alive on a stream.
    pub(crate) keepers: Vec<SimKeeper>,
    /// What clients draw.
    pub(crate) rng: Rng,
    /// Which ranges are answered in encoded form, and which values are damaged at the end.
    pub(crate) range_rng: Rng,
    /// Leases that were granted, newest last.
    pub(crate) leases: Vec<i64>,
    /// Number of the last request.
    pub(crate) last_number: u64,
    /// Reads of users between their steps, by number.
    pub(crate) user_reads: BTreeMap<u64, UserRead>,
    /// Auth was enabled once.
    pub(crate) auth_was_enabled: bool,
    /// Calls between their steps, by number.
    pub(crate) calls: BTreeMap<u64, SteppedCall>,
    /// Which calls are answered in steps, how large these are, and what becomes of tokens.
    pub(crate) call_rng: Rng,
    /// Requests that are sent together on a stream.
    pub(crate) stream_rng: Rng,
}

/// A call between its steps.
pub(crate) enum SteppedCall {
    /// A streamed range.
    Stream(Box<StreamedRead>),
    /// A list of leases.
    Leases(Box<ListedLeases>),
    /// A hash.
    Hash(Box<HashInProgress>),
}

/// A streamed range between two responses.
pub(crate) struct StreamedRead {
    /// The request.
    pub(crate) pending: PendingRequest,
    /// The answer in progress, as a server makes it.
    pub(crate) range: PermittedRange,
    /// What has arrived.
    pub(crate) merged: pb::RangeResponse,
    /// The revision that is read.
    pub(crate) at: i64,
    /// Files of values stay while this is held.
    pub(crate) _pin: log::Pin,
}

/// A list of leases between two steps.
pub(crate) struct ListedLeases {
    /// The request.
    pub(crate) pending: PendingRequest,
    /// The answer in progress, as a server makes it.
    pub(crate) list: LeaseList,
    /// What its member had applied when it began, and its revision then.
    pub(crate) from: (u64, i64),
}

/// A hash between two steps.
pub(crate) struct HashInProgress {
    /// The request.
    pub(crate) pending: PendingRequest,
    /// The answer in progress, as a server makes it.
    pub(crate) scan: HashKvScan,
}

/// A read of a user between its steps.
pub(crate) struct UserRead {
    /// The request; its caller was looked up and checked.
    pub(crate) pending: PendingRequest,
    /// The users and roles at the moment of reading, once it was read.
    pub(crate) seen: Option<Arc<AuthModel>>,
}

/// A client that sends requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimClient {
    /// The request that it waits for.
    pub(crate) waits_for: Option<u64>,
    /// The member that it uses.
    pub(crate) member: usize,
    /// Its token, if it has one.
    pub(crate) token: Option<ClientToken>,
    /// The next page of the list that it reads.
    pub(crate) list: Option<pb::RangeRequest>,
}

/// A client that watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimWatcher {
    /// What it must receive, from its first connection on: by the id of the watch on its stream.
    pub(crate) owed: BTreeMap<i64, OwedEvents>,
    /// Watches that it has canceled, or created without an answer yet: progress of the stream does not speak for them.
    pub(crate) inactive: BTreeSet<i64>,
    /// Where it watches: the member and the run of its process.
    pub(crate) connected_to: Option<(usize, u64)>,
    /// A defect makes it lose the next event.
    pub(crate) loses_event: bool,
    /// Watches that its user may not have, and that are not created.
    pub(crate) denied: BTreeSet<i64>,
    /// Watches that were revoked, and whose cancellation it has not received.
    pub(crate) revoked: BTreeSet<i64>,
    /// Its requests on the stream.
    pub(crate) requests: TakenRequests,
    /// Watches that it has created for a while on this stream.
    pub(crate) brief_watches: i64,
}

/// A client that keeps leases alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimKeeper {
    /// Where its stream is: the member and the run of its process.
    pub(crate) connected_to: Option<(usize, u64)>,
    /// Streams that it has opened.
    pub(crate) streams: u64,
    /// What it has sent on the last one.
    pub(crate) owed: OwedRenewals,
}

/// Snapshots under way.
#[derive(Default)]
pub(crate) struct SnapshotStreams {
    /// The streams, by number.
    pub(crate) streams: BTreeMap<u64, SnapshotStream>,
    /// Number of the last stream.
    pub(crate) last_number: u64,
}

/// A snapshot under way.
pub(crate) struct SnapshotStream {
    /// The sender, and the run of its process.
    pub(crate) from: (usize, u64),
    /// The receiver.
    pub(crate) to: usize,
    /// The run of the receiver's process.
    pub(crate) to_run: u64,
    /// The sender's part.
    pub(crate) outgoing: Box<Outgoing>,
    /// How far it has come.
    pub(crate) phase: StreamPhase,
    /// Times that it broke.
    pub(crate) breaks: u32,
}

/// How far a snapshot stream has come.
pub(crate) enum StreamPhase {
    /// To be opened.
    Closed,
    /// The receiver was offered the snapshot under this token; the sender waits for its answer until then.
    Offered { token: u64, until_ns: u64 },
    /// Bytes flow.
    Sending(Box<Receiver>),
    /// All bytes were sent under this token; the sender waits until then for the receiver to install them.
    Installing { token: u64, until_ns: u64 },
}

impl SnapshotStream {
    /// Whether a member sends or receives it.
    pub(crate) fn concerns(&self, member: usize) -> bool {
        self.from.0 == member || self.to == member
    }
}

/// Faults under way.
#[derive(Default)]
pub(crate) struct PendingFaults {
    /// Planned faults that wait for their operation.
    pub(crate) armed: Vec<usize>,
    /// Members that are isolated, by planned fault.
    pub(crate) isolated: BTreeMap<usize, usize>,
}

/// How far the end of the run has come.
#[derive(Default)]
pub(crate) struct RunEnd {
    /// When faults stopped.
    pub(crate) faults_stopped_ns: Option<u64>,
    /// The final writes were sent: clients send no more requests.
    pub(crate) final_writes_sent: bool,
    /// Final writes that are not answered yet.
    pub(crate) unanswered_writes: Vec<u64>,
    /// How often the check of convergence has waited for members that apply.
    pub(crate) postponed: u32,
    /// Members that have not been read completely, and until when they must have been.
    pub(crate) unread_members: BTreeSet<usize>,
    pub(crate) read_until_ns: u64,
    /// Where a scrub is to find and repair the last damage before anything is read: the process, the rounds that it had
    /// ended before, and when the last one that counts has ended.
    pub(crate) awaited_scrubs: BTreeMap<usize, AwaitedScrub>,
    /// The run is over.
    pub(crate) is_over: bool,
}

/// A scrub that the final read of a member waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AwaitedScrub {
    /// The process.
    pub(crate) run: u64,
    /// Rounds that it had ended when the damage was done.
    pub(crate) rounds_before: u64,
    /// When a whole round was over.
    pub(crate) ended_ns: Option<u64>,
}

/// A change of membership that the operator has asked for.
pub(super) struct AskedChange {
    /// The request.
    pub(super) request: MembershipRequest,
    /// What became of it.
    pub(super) fate: ChangeFate,
}

/// What became of a change of membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeFate {
    /// It may have taken effect, and may still.
    Unknown,
    /// It has no effect.
    Refused,
    /// It has taken effect.
    Acknowledged,
}

/// What the operator remembers.
#[derive(Default)]
pub(crate) struct Operator {
    /// The request that waits: the member that was asked, its run, the token, the request, and until when.
    pub(super) waits_for: Option<(usize, u64, u64, MembershipRequest, u64)>,
    /// Requests, in order.
    pub(super) asked: Vec<AskedChange>,
    /// The number of URLs that were given to members.
    pub(super) moves: u64,
}

impl Simulation {
    /// The cluster of a plan, before its first event.
    pub(crate) fn new(mut plan: RunPlan, settings: &RunSettings) -> Simulation {
        if settings.defect == Some(Defect::ApplyUnsliced) {
            plan.store_limits.iter_mut().for_each(|limits| limits.slice_keys = UNSLICED_KEYS);
        }
        let checks = Checks::new(plan.machines(), plan.queue_limits);
        if settings.defect == Some(Defect::QueuesUnlimited) {
            plan.queue_limits = QueueLimits::default();
        }
        let (seed, defect) = (plan.seed, settings.defect);
        let mut member_rng = Rng::new(seed, RngStream::Members);
        // Where users change, who may renew is looked at call by call.
        let keepers = if plan.pipelines && !plan.changes_permissions { KEEPERS } else { 0 };
        let machines = (0..plan.machines())
            .map(|member| SimMachine::new(member, &plan, defect, &mut member_rng))
            .collect();
        Simulation {
            defect,
            now_ns: 0,
            queue: EventQueue::default(),
            machines,
            network: SimNetwork::new(plan.machines(), plan.link, Rng::new(seed, RngStream::Network)),
            workload: Workload {
                clients: vec![SimClient::default(); plan.clients],
                watchers: vec![SimWatcher::default(); plan.watchers],
                keepers: vec![SimKeeper::default(); keepers],
                rng: Rng::new(seed, RngStream::Clients),
                range_rng: Rng::new(seed.rotate_left(32), RngStream::Ranges),
                leases: Vec::new(),
                last_number: 0,
                user_reads: BTreeMap::new(),
                auth_was_enabled: false,
                calls: BTreeMap::new(),
                call_rng: Rng::new(seed, RngStream::Calls),
                stream_rng: Rng::new(seed, RngStream::Pipelines),
            },
            snapshots: SnapshotStreams::default(),
            pending_faults: PendingFaults::default(),
            operator: Operator::default(),
            operator_rng: Rng::new(seed.rotate_left(32), RngStream::Membership),
            ending: RunEnd::default(),
            checks,
            coverage: Coverage::default(),
            trace: Trace::new(settings.verbose),
            disk_rng: Rng::new(seed, RngStream::Disk),
            member_rng,
            plan,
        }
    }
}
