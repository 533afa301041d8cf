//! Why one side of a handshake turns the other away, and how often that is worth a log line.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Side;

/// The reason of a refusal, as a code both sides understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The cluster ids differ.
    WrongCluster,
    /// The dialler meant another member than the one its URL led to.
    WrongMember,
    /// No member of this id is known.
    UnknownMember,
    /// The member was removed from the cluster.
    RemovedMember,
    /// The member id is bound to another data directory: the member was wiped.
    WrongIncarnation,
    /// The newest protocol version of the refused side is older than the oldest of the refusing side.
    VersionTooOld,
    /// The oldest protocol version of the refused side is newer than the newest of the refusing side.
    VersionTooNew,
    /// The refusing side cannot take a connection now (it is starting or stopping).
    NotReady,
    /// A code of a later release.
    Other(u16),
}

/// Codes on the wire; 0 means accepted and is none of them.
const CODES: [(Reason, u16); 8] = [
    (Reason::WrongCluster, 1),
    (Reason::WrongMember, 2),
    (Reason::UnknownMember, 3),
    (Reason::RemovedMember, 4),
    (Reason::WrongIncarnation, 5),
    (Reason::VersionTooOld, 6),
    (Reason::VersionTooNew, 7),
    (Reason::NotReady, 8),
];

impl Reason {
    /// The code on the wire.
    pub fn code(self) -> u16 {
        match self {
            Reason::Other(code) => code,
            known => CODES.iter().find(|(reason, _)| *reason == known).map_or(0, |(_, code)| *code),
        }
    }

    /// The reason of a code other than 0.
    pub fn from_code(code: u16) -> Reason {
        CODES.iter().find(|(_, known)| *known == code).map_or(Reason::Other(code), |(reason, _)| *reason)
    }
}

/// A refusal: a code for programs, a text for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({reason:?})")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What was wrong and what is expected; cut to [`crate::MAX_REFUSAL_TEXT_BYTES`] on the wire.
    pub text: String,
}

impl Refusal {
    /// A refusal of this reason and text.
    pub fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }
}

/// A refused peer comes back every second or so; its refusal is news once in this long.
const NEWS_INTERVAL: Duration = Duration::from_secs(30);
/// Entries that are remembered; beyond, everything is forgotten (and news again).
const MAX_REMEMBERED: usize = 64;

/// Remembers which refusals were logged lately.
#[derive(Default)]
pub(crate) struct RefusalLog {
    logged: Mutex<HashMap<(u64, Side, Reason), Instant>>,
}

impl RefusalLog {
    /// Whether a refusal of this member for this reason should be logged at `now`.
    pub(crate) fn is_news(&self, member: u64, by: Side, reason: Reason, now: Instant) -> bool {
        let mut logged = self.logged.lock();
        if logged.get(&(member, by, reason)).is_some_and(|last| now.duration_since(*last) < NEWS_INTERVAL) {
            return false;
        }
        if logged.len() >= MAX_REMEMBERED {
            logged.clear();
        }
        logged.insert((member, by, reason), now);
        true
    }
}
