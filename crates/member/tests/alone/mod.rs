//! The only member of its cluster, as tests here and the power losses of `tests/powerloss` describe it.

use member::proposal_queue::QueueLimits;
use member::{
    DEFAULT_CATCHUP_ENTRIES, DEFAULT_CHECKPOINT_COMMANDS, InitialMember, MIN_SNAPSHOT_LOG_BYTES,
    MemberConfig, StoreLimits,
};

/// One tick of the member's clock.
pub(crate) const TICK_NS: u64 = 100_000_000;

/// The member in its `process_run`th life.
pub(crate) fn config(process_run: u64) -> MemberConfig {
    MemberConfig {
        cluster_id: 7,
        member_id: 1,
        incarnation: 99,
        process_run,
        seed: 1,
        name: "m1".into(),
        client_urls: vec!["http://127.0.0.1:2379".into()],
        initial_cluster: vec![InitialMember {
            id: 1,
            name: "m1".into(),
            peer_urls: vec!["http://127.0.0.1:2380".into()],
        }],
        tick_ns: TICK_NS,
        election_ticks: 10,
        pre_vote: true,
        checkpoint_commands: DEFAULT_CHECKPOINT_COMMANDS,
        catchup_entries: DEFAULT_CATCHUP_ENTRIES,
        catchup_bytes: member::MAX_CATCHUP_BYTES,
        snapshot_log_bytes: MIN_SNAPSHOT_LOG_BYTES,
        quota_bytes: 0,
        store_limits: StoreLimits::default(),
        queue_limits: QueueLimits::default(),
        max_unapplied_bytes: member::MAX_UNAPPLIED_BYTES,
        memory_limit_bytes: 0,
        max_last_changes_bytes: member::MAX_LAST_CHANGES_BYTES,
        membership: member::MembershipSettings::default(),
        scrub: member::ScrubRate::default(),
        hashes_large_compactions: false,
        start: member::StartMode::New,
    }
}
