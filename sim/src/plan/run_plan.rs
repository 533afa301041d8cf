//! The plan of one run, as data: everything that is decided before the run begins.

use member::proposal_queue::QueueLimits;
use store::Limits;

use super::fault::PlannedFault;
use super::key_names::KeyNames;
use super::operation::MemberOperation;

/// Delays of the links between members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkDelays {
    /// Least delay of a frame.
    pub(crate) base_ns: u64,
    /// Largest usual addition to it.
    pub(crate) jitter_ns: u64,
}

/// Delays of the disks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskDelays {
    /// Least time of a write and sync.
    pub(crate) base_ns: u64,
    /// Largest usual addition to it.
    pub(crate) jitter_ns: u64,
}

/// The plan of one run.
#[derive(Clone, Debug)]
pub(crate) struct RunPlan {
    /// The seed it was drawn from.
    pub(crate) seed: u64,
    /// Members of the cluster at the start.
    pub(crate) members: usize,
    /// Machines that may become members during the run.
    pub(crate) joiners: usize,
    /// Whether a member that moves is not reached at its old URLs any more, and one of three voters may be lost.
    pub(crate) moves_for_good: bool,
    /// Whether clients are a user whose permissions change.
    pub(crate) changes_permissions: bool,
    /// Whether clients send many requests at once on their streams.
    pub(crate) pipelines: bool,
    /// Members whose data may be damaged or lost: always fewer than a quorum.
    pub(crate) victims: Vec<usize>,
    /// A member that is started later than the others, and when: the others lag behind its publication for a while.
    pub(crate) late_start: Option<(usize, u64)>,
    /// Clients that send requests.
    pub(crate) clients: usize,
    /// Clients that watch.
    pub(crate) watchers: usize,
    /// Keys that clients use.
    pub(crate) names: KeyNames,
    /// Longest value.
    pub(crate) max_value_bytes: u64,
    /// Longest pause of a client between two requests.
    pub(crate) max_think_ns: u64,
    /// How long faults strike, from the start of the run.
    pub(crate) fault_phase_ns: u64,
    /// In a long run: begin and end of each burst of requests and faults. Empty in other runs, which are one burst.
    pub(crate) bursts: Vec<(u64, u64)>,
    /// The operation that faults wait for, in a focused run.
    pub(crate) focus: Option<MemberOperation>,
    /// Time between the last fault and the final writes, in which the cluster must recover.
    pub(crate) recovery_phase_ns: u64,
    /// Size of a log segment.
    pub(crate) segment_bytes: u64,
    /// Size of the log's tail in memory.
    pub(crate) tail_bytes: u64,
    /// Size of the value cache: none or small, so that reads keep reaching the disk.
    pub(crate) cache_bytes: u64,
    /// Percentage of ranges that are answered in encoded form, as a server does.
    pub(crate) encoded_range_percent: u64,
    /// Commands between checkpoints.
    pub(crate) checkpoint_commands: u64,
    /// Entries kept for followers that are a little behind.
    pub(crate) catchup_entries: u64,
    /// Quota; 0 for none.
    pub(crate) quota_bytes: u64,
    /// Memory limit of each member; 0 for none.
    pub(crate) memory_limit_bytes: u64,
    /// Bytes of committed entries that wait to be applied, past which a member takes no more.
    pub(crate) max_unapplied_bytes: u64,
    /// How a member divides its work on the store, by member.
    pub(crate) store_limits: Vec<Limits>,
    /// How many commands may wait on a member, and how many are proposed together.
    pub(crate) queue_limits: QueueLimits,
    /// Time that a member takes to apply a key.
    pub(crate) apply_ns_per_key: u64,
    /// No fault strikes.
    pub(crate) is_calm: bool,
    /// Rates of the machines' clocks, by member.
    pub(crate) rates_ppm: Vec<i64>,
    /// Delays of links.
    pub(crate) link: LinkDelays,
    /// Whether the two streams of a link fail apart.
    pub(crate) streams_fail_apart: bool,
    /// Delays of disks.
    pub(crate) disk: DiskDelays,
    /// How often clients draw each request, in the order of [`REQUEST_WEIGHTS`](super::REQUEST_WEIGHTS).
    pub(crate) request_weights: Vec<u64>,
    /// Longest TTL of a lease.
    pub(crate) max_ttl_s: i64,
    /// The faults, in order of time.
    pub(crate) faults: Vec<PlannedFault>,
}

impl RunPlan {
    /// Machines: members at the start, then machines that may join.
    pub(crate) fn machines(&self) -> usize {
        self.members + self.joiners
    }

    /// Whether it is a long run.
    pub(crate) fn is_long(&self) -> bool {
        !self.bursts.is_empty()
    }

    /// In a quiet period of a long run, when that ends; `None` within a burst.
    pub(crate) fn quiet_until(&self, now_ns: u64) -> Option<u64> {
        let next = self.bursts.partition_point(|(_, until_ns)| *until_ns <= now_ns);
        match self.bursts.get(next) {
            Some((from_ns, _)) => (now_ns < *from_ns).then_some(*from_ns),
            None => self.is_long().then_some(u64::MAX),
        }
    }
}
