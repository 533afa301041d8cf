//! Why one side of a handshake refuses the other.

/// The reason of a refusal, as a code that both sides understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
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
const CODES: [(RefusalReason, u16); 8] = [
    (RefusalReason::WrongCluster, 1),
    (RefusalReason::WrongMember, 2),
    (RefusalReason::UnknownMember, 3),
    (RefusalReason::RemovedMember, 4),
    (RefusalReason::WrongIncarnation, 5),
    (RefusalReason::VersionTooOld, 6),
    (RefusalReason::VersionTooNew, 7),
    (RefusalReason::NotReady, 8),
];

impl RefusalReason {
    /// The code on the wire.
    pub fn code(self) -> u16 {
        match self {
            RefusalReason::Other(code) => code,
            known => CODES.iter().find(|(reason, _)| *reason == known).map_or(0, |(_, code)| *code),
        }
    }

    /// The reason of a code other than 0.
    pub fn from_code(code: u16) -> RefusalReason {
        CODES
            .iter()
            .find(|(_, known)| *known == code)
            .map_or(RefusalReason::Other(code), |(reason, _)| *reason)
    }
}

/// A refusal: a code for programs, a text for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub reason: RefusalReason,
    /// What was wrong and what is expected; cut to [`crate::MAX_REFUSAL_TEXT_BYTES`] on the wire.
    pub text: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.text, self.reason)
    }
}

impl Refusal {
    /// A refusal for `reason`, explained by `text`.
    pub fn new(reason: RefusalReason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }
}

/// The side of a handshake that refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// We refused the peer.
    Local,
    /// The peer refused us.
    Remote,
}
