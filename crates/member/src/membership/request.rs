//! A request about members, and its bytes: in the frame that forwards it, and in the context of the conf change.
//!
//! ```text
//! request   kind u8 (1 add, 2 remove, 3 update, 4 promote) | learner u8 | urls u16 | member id u64 |
//!           urls: length u16, UTF-8, each
//! context   version u8 (1) | zero u8 | most learners u16 | origin: member u64, run u64 | sequence u64 | request
//! ```
//!
//! Numbers are little-endian. The most learners are those of the leader's flags: every member decides with this number.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::proposals::batch::Origin;

/// The context that this release writes.
const CONTEXT_VERSION: u8 = 1;

/// Most peer URLs of a member; several are given when a machine has several networks.
pub const MAX_PEER_URLS: usize = 64;

/// Longest peer URL, in bytes.
pub const MAX_PEER_URL_BYTES: usize = 2048;

/// What is asked about a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipRequest {
    /// Add a member under an id that was never used.
    Add {
        /// Its id, see [`crate::identity::member_id`].
        id: u64,
        /// Its peer URLs, at most [`MAX_PEER_URLS`] of at most [`MAX_PEER_URL_BYTES`].
        peer_urls: Vec<String>,
        /// Whether it has no vote until it is promoted.
        learner: bool,
    },
    /// Remove a member for good.
    Remove {
        /// Its id.
        id: u64,
    },
    /// Replace the peer URLs of a member.
    Update {
        /// Its id.
        id: u64,
        /// The new ones, as many as for [`MembershipRequest::Add`].
        peer_urls: Vec<String>,
    },
    /// Make a learner a voter.
    Promote {
        /// Its id.
        id: u64,
    },
}

impl MembershipRequest {
    /// The member that it is about.
    pub fn id(&self) -> u64 {
        match self {
            MembershipRequest::Add { id, .. }
            | MembershipRequest::Remove { id }
            | MembershipRequest::Update { id, .. }
            | MembershipRequest::Promote { id } => *id,
        }
    }

    /// Whether it keeps to the limits of a member's URLs, and names a member.
    pub fn is_within_limits(&self) -> bool {
        let urls = self.peer_urls();
        self.id() != 0
            && urls.len() <= MAX_PEER_URLS
            && urls.iter().all(|url| url.len() <= MAX_PEER_URL_BYTES)
    }

    fn peer_urls(&self) -> &[String] {
        match self {
            MembershipRequest::Add { peer_urls, .. } | MembershipRequest::Update { peer_urls, .. } => {
                peer_urls
            }
            MembershipRequest::Remove { .. } | MembershipRequest::Promote { .. } => &[],
        }
    }

    /// Appends its bytes.
    ///
    /// # Panics
    /// When it is not within its limits.
    pub(crate) fn put(&self, out: &mut BytesMut) {
        assert!(self.is_within_limits(), "a request is checked where it comes in");
        out.put_u8(match self {
            MembershipRequest::Add { .. } => 1,
            MembershipRequest::Remove { .. } => 2,
            MembershipRequest::Update { .. } => 3,
            MembershipRequest::Promote { .. } => 4,
        });
        out.put_u8(u8::from(matches!(self, MembershipRequest::Add { learner: true, .. })));
        out.put_u16_le(self.peer_urls().len() as u16);
        out.put_u64_le(self.id());
        for url in self.peer_urls() {
            out.put_u16_le(url.len() as u16);
            out.put_slice(url.as_bytes());
        }
    }

    /// Takes a request that fills the rest of `bytes`; `None` for anything that [`MembershipRequest::put`] does not
    /// write.
    pub(crate) fn take(bytes: &mut Bytes) -> Option<MembershipRequest> {
        let (kind, learner) = (bytes.try_get_u8().ok()?, bytes.try_get_u8().ok()?);
        let (urls, id) = (bytes.try_get_u16_le().ok()?, bytes.try_get_u64_le().ok()?);
        let mut peer_urls = Vec::new();
        for _ in 0..urls {
            let len = usize::from(bytes.try_get_u16_le().ok()?);
            if bytes.len() < len {
                return None;
            }
            peer_urls.push(String::from_utf8(bytes.split_to(len).to_vec()).ok()?);
        }
        let request = match (kind, learner) {
            (1, 0 | 1) => MembershipRequest::Add { id, peer_urls, learner: learner == 1 },
            (2, 0) if urls == 0 => MembershipRequest::Remove { id },
            (3, 0) => MembershipRequest::Update { id, peer_urls },
            (4, 0) if urls == 0 => MembershipRequest::Promote { id },
            _ => return None,
        };
        (request.is_within_limits() && !bytes.has_remaining()).then_some(request)
    }
}

/// A request as the leader proposes it: the context of a conf change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProposedChange {
    /// The process whose caller waits.
    pub(crate) origin: Origin,
    /// The caller's token there.
    pub(crate) sequence: u64,
    /// Most learners at a time.
    pub(crate) max_learners: u16,
    /// What is asked.
    pub(crate) request: MembershipRequest,
}

impl ProposedChange {
    /// The context of a conf change; see the module for the layout.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(CONTEXT_VERSION);
        out.put_u8(0);
        out.put_u16_le(self.max_learners);
        out.put_u64_le(self.origin.member);
        out.put_u64_le(self.origin.run);
        out.put_u64_le(self.sequence);
        self.request.put(&mut out);
        out.freeze()
    }

    /// Decodes a context. `Ok(None)` for bytes that [`ProposedChange::encode`] does not write: they have no effect, on
    /// any member.
    ///
    /// # Errors
    /// The version, if it is not known here: its effect cannot be guessed.
    pub(crate) fn decode(context: &Bytes) -> Result<Option<ProposedChange>, u8> {
        let mut bytes = context.clone();
        match bytes.try_get_u8() {
            Ok(CONTEXT_VERSION) => Ok(ProposedChange::decode_fields(bytes)),
            Ok(version) => Err(version),
            Err(_) => Ok(None),
        }
    }

    fn decode_fields(mut bytes: Bytes) -> Option<ProposedChange> {
        bytes.try_get_u8().ok()?;
        let max_learners = bytes.try_get_u16_le().ok()?;
        let (member, run) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
        let sequence = bytes.try_get_u64_le().ok()?;
        let request = MembershipRequest::take(&mut bytes)?;
        Some(ProposedChange { origin: Origin { member, run }, sequence, max_learners, request })
    }
}
