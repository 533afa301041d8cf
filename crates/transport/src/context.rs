//! What all streams of a member share: configuration, the owner's receivers, and the admission of peers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

use crate::config::PeersConfig;
use crate::owner::{Admission, FrameSink, SnapshotSink};
use crate::protocol::{MAX_VERSION, MIN_VERSION, PeerIdentity, Refusal, RefusalReason, Side};

/// Shared by all threads of this crate.
pub(crate) struct StreamContext {
    pub(crate) config: PeersConfig,
    pub(crate) sink: Arc<dyn FrameSink>,
    pub(crate) snapshots: Arc<dyn SnapshotSink>,
    admission: Arc<dyn Admission>,
    refusals: RefusalLog,
    /// The number of the newest established connection.
    last_connection: AtomicU64,
}

impl StreamContext {
    pub(crate) fn new(
        config: PeersConfig,
        admission: Arc<dyn Admission>,
        sink: Arc<dyn FrameSink>,
        snapshots: Arc<dyn SnapshotSink>,
    ) -> StreamContext {
        let (refusals, last_connection) = (RefusalLog::default(), AtomicU64::new(0));
        StreamContext { config, sink, snapshots, admission, refusals, last_connection }
    }

    /// The number of a connection that has just been established.
    pub(crate) fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The oldest protocol version that a peer must speak now.
    pub(crate) fn min_version(&self) -> u16 {
        self.admission.min_version().clamp(MIN_VERSION, MAX_VERSION)
    }

    /// Admits a member of our cluster (the `expected` one, if given) that the owner admits.
    pub(crate) fn admit(&self, peer: &PeerIdentity, expected: Option<u64>) -> Result<(), Refusal> {
        let local = &self.config.local;
        if peer.cluster_id != local.cluster_id {
            let text = format!(
                "cluster {:x} was met, expected {:x} (a forced cluster shows another number than its id); a member \
                 that is to join needs an empty data directory and the flags of `member add`",
                peer.cluster_id, local.cluster_id
            );
            return Err(Refusal::new(RefusalReason::WrongCluster, text));
        }
        if let Some(expected) = expected.filter(|expected| *expected != peer.member_id) {
            let text = format!("member {:x} was met, expected {expected:x}", peer.member_id);
            return Err(Refusal::new(RefusalReason::WrongMember, text));
        }
        if peer.member_id == local.member_id {
            let text = format!("member {:x} cannot be its own peer", peer.member_id);
            return Err(Refusal::new(RefusalReason::WrongMember, text));
        }
        self.admission.admit(peer)
    }

    /// Refuses a dialler that means to reach another member than this one.
    pub(crate) fn check_addressee(&self, to: u64) -> Result<(), Refusal> {
        let own = self.config.local.member_id;
        if to == own {
            return Ok(());
        }
        Err(Refusal::new(RefusalReason::WrongMember, format!("this is member {own:x}, not {to:x}")))
    }

    /// Reports a refusal to the owner, and logs it if it was not logged lately. See [`FrameSink::refused`].
    pub(crate) fn note_refusal(&self, peer: u64, by: Side, refusal: &Refusal) {
        if self.refusals.should_log(peer, by, refusal.reason, Instant::now()) {
            let name = format!("{peer:x}");
            match by {
                Side::Local => warn!(peer = name, %refusal, "refused a peer"),
                Side::Remote => warn!(peer = name, %refusal, "a peer refused this member"),
            }
        }
        self.sink.refused(peer, by, refusal);
    }
}

/// A refused peer dials again about every second. The same refusal is logged once in this interval.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Refusals remembered. Beyond that all are forgotten, and logged again.
const MAX_REFUSALS_REMEMBERED: usize = 64;

/// The refusals that were logged lately, by member.
#[derive(Default)]
pub(crate) struct RefusalLog {
    logged: Mutex<HashMap<(u64, Side, RefusalReason), Instant>>,
}

impl RefusalLog {
    /// Whether a refusal of this member for this reason should be logged at `now`.
    pub(crate) fn should_log(&self, member: u64, by: Side, reason: RefusalReason, now: Instant) -> bool {
        let mut logged = self.logged.lock();
        if logged.get(&(member, by, reason)).is_some_and(|last| now.duration_since(*last) < LOG_INTERVAL) {
            return false;
        }
        if logged.len() >= MAX_REFUSALS_REMEMBERED {
            logged.clear();
        }
        logged.insert((member, by, reason), now);
        true
    }
}
