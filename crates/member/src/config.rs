//! The configuration of a member: plain data with working defaults, which `server` fills from the flags.

use store::Limits;

use crate::membership::command_sets::NEWEST_COMMAND_SET;
use crate::proposals::batch::Origin;
use crate::proposals::queue::QueueLimits;

/// A member named by `--initial-cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialMember {
    /// Its id; see [`crate::identity`].
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its peer URLs.
    pub peer_urls: Vec<String>,
}

/// The configuration of one member. What must be equal on all members is marked so.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Equal on all members.
    pub cluster_id: u64,
    /// This member.
    pub member_id: u64,
    /// Drawn at random when the data directory is made.
    pub incarnation: u64,
    /// Drawn at random whenever the process starts; tells this run's commands from those of earlier runs.
    pub process_run: u64,
    /// Drawn at random whenever the process starts; no client and no peer learns it. Seeds election timeouts, and the
    /// tree of watched ranges.
    pub seed: u64,
    /// `--name`.
    pub name: String,
    /// `--advertise-client-urls`.
    pub client_urls: Vec<String>,
    /// The members a new cluster starts with, equal on all members; of one that joins, the members that it was told.
    pub initial_cluster: Vec<InitialMember>,
    /// `--heartbeat-interval`, one tick.
    pub tick_ns: u64,
    /// `--election-timeout` in ticks.
    pub election_ticks: u32,
    /// `--pre-vote`.
    pub pre_vote: bool,
    /// Commands applied before a checkpoint is written and the log before it may go.
    pub checkpoint_commands: u64,
    /// `--snapshot-catchup-entries`: entries kept for followers a little behind when the log is truncated.
    pub catchup_entries: u64,
    /// Payload bytes of these entries, beyond which fewer are kept.
    pub catchup_bytes: u64,
    /// Bytes of log kept for a follower while it receives a snapshot, and until it has caught up. If the snapshot is
    /// larger, so many bytes as it has.
    pub snapshot_log_bytes: u64,
    /// Referenced bytes past which commands that grow the store are refused; 0 for no such limit.
    pub quota_bytes: u64,
    /// How much is done in one hold of the store's lock, and how checkpoints are divided. A step applies about
    /// `slice_keys` keys. Members may differ in all of it.
    pub store_limits: Limits,
    /// How many commands may wait to be proposed, and how many are proposed together. Members may differ in it.
    pub queue_limits: QueueLimits,
    /// Bytes of committed entries that wait to be applied, past which this member takes no more: a leader proposes
    /// nothing, a follower takes no entries. Members may differ in it.
    pub max_unapplied_bytes: u64,
    /// Accounted bytes of memory past which commands that grow the store are refused; 0 for no such limit.
    pub memory_limit_bytes: u64,
    /// Accounted bytes of changes past which a graceful stop writes no last checkpoint.
    pub max_last_changes_bytes: u64,
    /// What changes of membership are allowed.
    pub membership: MembershipSettings,
    /// How fast this member reads its files again, to find damage.
    pub scrub: ScrubRate,
    /// Whether compactions are hashed that keep more than a million versions unchanged, at one walk over all keys for
    /// each million (the feature gate `CompactHashCheck`).
    pub hashes_large_compactions: bool,
    /// How a member without data begins.
    pub start: StartMode,
}

/// What changes of membership this member allows while it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipSettings {
    /// `--strict-reconfig-check`.
    pub strict: bool,
    /// `--max-learners`.
    pub max_learners: u16,
    /// The newest set of commands that this member claims to know; tests run members of older releases.
    pub command_set: u8,
}

impl Default for MembershipSettings {
    fn default() -> MembershipSettings {
        MembershipSettings { strict: true, max_learners: 1, command_set: NEWEST_COMMAND_SET }
    }
}

/// How fast a member reads its files again, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubRate {
    /// Most bytes a second, on average.
    pub bytes_per_second: u64,
    /// The disk reads for the scrub during one such part of the time at most, on average; 16 is a sixteenth.
    pub disk_time_part: u64,
    /// The longest pause after a read that took far longer than usual.
    pub max_stall_pause_ns: u64,
    /// From the start of the process to the first round.
    pub first_after_ns: u64,
    /// From the beginning of a round to the next, unless it takes longer.
    pub round_ns: u64,
}

impl Default for ScrubRate {
    /// 8 MiB a second is a few percent of what a slow disk reads; 100 GB of large values take three and a half hours.
    /// Four rounds a day find damage long before a second copy is likely to be lost.
    fn default() -> ScrubRate {
        ScrubRate {
            bytes_per_second: 8 << 20,
            disk_time_part: 16,
            max_stall_pause_ns: 600_000_000_000,
            first_after_ns: 60_000_000_000,
            round_ns: 6 * 3_600_000_000_000,
        }
    }
}

/// How a member starts that has no data yet, or whose operator gave the other members up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartMode {
    /// Without data it begins a cluster of [`MemberConfig::initial_cluster`].
    #[default]
    New,
    /// Without data it joins the cluster that [`MemberConfig::initial_cluster`] describes, and receives a snapshot.
    Join {
        /// The lineage of that cluster; see [`crate::identity::peer_cluster_id`].
        lineage: u64,
    },
    /// `--force-new-cluster`: its data goes on as a cluster of this member alone, whose lineage is the process run.
    ForceNewCluster,
}

/// Commands between checkpoints unless `--snapshot-count` was given: about 100 ms of replay.
pub const DEFAULT_CHECKPOINT_COMMANDS: u64 = 100_000;

/// Accounted bytes of changes that the last checkpoint of a process has at most: it should end within 1.5 s, and the
/// next start replays what is left out, as after a crash.
pub const MAX_LAST_CHANGES_BYTES: u64 = 64 << 20;

/// Entries kept for followers a little behind unless a flag says otherwise; etcd's number.
pub const DEFAULT_CATCHUP_ENTRIES: u64 = 5_000;

/// Bytes of committed entries that wait to be applied. They wait while a command touches millions of keys, or until a
/// damaged value that one compares is repaired. A second of puts at full speed has less.
pub const MAX_UNAPPLIED_BYTES: u64 = 64 << 20;

/// Payload bytes of entries kept for followers a little behind; as many entries as `--snapshot-catchup-entries` says
/// have fewer, unless batches are large.
pub const MAX_CATCHUP_BYTES: u64 = 128 << 20;

/// Bytes of log kept for a follower that receives a small snapshot: 10 s of writes at 100 MB/s, so that what does not
/// depend on the size, such as dialling, syncs and a checkpoint in progress, does not make it too late.
pub const MIN_SNAPSHOT_LOG_BYTES: u64 = 1 << 30;

/// Time a request has for agreement, beside two election timeouts; etcd's.
const AGREEMENT_NS: u64 = 5_000_000_000;

impl MemberConfig {
    /// How long a request may wait for its answer.
    pub fn request_timeout_ns(&self) -> u64 {
        AGREEMENT_NS + 2 * self.election_ns()
    }

    /// `--election-timeout`.
    pub(crate) fn election_ns(&self) -> u64 {
        self.tick_ns * u64::from(self.election_ticks)
    }

    /// Where this run's commands come from.
    pub fn origin(&self) -> Origin {
        Origin { member: self.member_id, run: self.process_run }
    }
}
