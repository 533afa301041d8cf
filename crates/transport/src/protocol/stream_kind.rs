//! The streams between two members, and what each carries.

/// The two ordered streams of messages to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamClass {
    /// Small and urgent: heartbeats, votes, leadership checks. Its sink must not block.
    Control,
    /// Appends, their responses and anything large. Its sink may block, which stops the sender (back-pressure).
    Bulk,
}

impl StreamClass {
    /// Both, in the order of their codes.
    pub const ALL: [StreamClass; 2] = [StreamClass::Control, StreamClass::Bulk];
}

impl std::fmt::Display for StreamClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StreamClass::Control => "control",
            StreamClass::Bulk => "bulk",
        })
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Messages of one class.
    Messages(StreamClass),
    /// One snapshot.
    Snapshot,
}

impl StreamKind {
    /// The code in a hello.
    pub(crate) fn code(self) -> u8 {
        match self {
            StreamKind::Messages(StreamClass::Control) => 1,
            StreamKind::Messages(StreamClass::Bulk) => 2,
            StreamKind::Snapshot => 3,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<StreamKind> {
        match code {
            1 => Some(StreamKind::Messages(StreamClass::Control)),
            2 => Some(StreamKind::Messages(StreamClass::Bulk)),
            3 => Some(StreamKind::Snapshot),
            _ => None,
        }
    }
}
