//! Configurations (voters and learners) and changes to them.
//!
//! A [`ConfState`] is the configuration in force; a [`ConfChange`] is the payload of an entry of kind 1. Both have a
//! byte format of their own (docs/internals/peer-messages.md), because bytes from a peer or a file are never given to
//! the protobuf library. Decoding is total: any bytes give a value or a [`WireError`].
//!
//! A change of one member is a simple change. Several at once go through a joint configuration, in which a majority of
//! the old voters and a majority of the new voters must both accept (Raft thesis, 4.3). A change takes effect when its
//! entry is *applied*.
//!
//! ```text
//! voters 1 2 3, change [AddVoter(4), Remove(1)]
//!   applied        voters 2 3 4, outgoing 1 2 3      joint: needs two of each
//!   leave applied  voters 2 3 4
//! ```

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

use crate::field_reader::{FieldReader, WireError};

/// Version of the conf change payload.
const CONF_CHANGE_VERSION: u8 = 1;
/// Members one configuration or change may name: far above any cluster that makes sense (etcd warns above 7 voters),
/// low enough that no peer can make us allocate much.
pub const MAX_MEMBERS: usize = 1024;

/// The configuration in force at some index. Lists are sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfState {
    /// Members that vote.
    pub voters: Vec<u64>,
    /// In a joint configuration, the old voters, a majority of whom must accept as well; else empty.
    pub voters_outgoing: Vec<u64>,
    /// Members that receive the log without a vote.
    pub learners: Vec<u64>,
    /// Old voters that become learners when the joint configuration is left.
    pub learners_next: Vec<u64>,
    /// Whether the leader leaves the joint configuration by itself.
    pub auto_leave: bool,
}

impl ConfState {
    /// A configuration of `voters` only.
    pub fn of_voters(voters: impl IntoIterator<Item = u64>) -> ConfState {
        let voters: BTreeSet<u64> = voters.into_iter().collect();
        ConfState { voters: voters.into_iter().collect(), ..ConfState::default() }
    }

    /// Whether `id` is a voter, an outgoing voter or a learner.
    pub fn contains(&self, id: u64) -> bool {
        [&self.voters, &self.voters_outgoing, &self.learners].iter().any(|list| list.contains(&id))
    }

    /// Whether decisions need two majorities.
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Why this configuration cannot be in force, if it cannot. The raft library aborts when it restores such a
    /// configuration.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        let lists = [&self.voters, &self.voters_outgoing, &self.learners, &self.learners_next];
        if lists.iter().any(|list| list.len() > MAX_MEMBERS) {
            return Some("too many members");
        }
        if lists.iter().any(|list| list.contains(&0)) {
            return Some("member id 0");
        }
        if lists.iter().any(|list| list.iter().collect::<BTreeSet<_>>().len() != list.len()) {
            return Some("a member named twice");
        }
        if self.voters.is_empty() {
            return Some("no voters");
        }
        let votes = |id: &u64| self.voters.contains(id) || self.voters_outgoing.contains(id);
        if self.learners.iter().any(votes) {
            return Some("a learner that votes");
        }
        let stays = |id: &u64| !self.voters_outgoing.contains(id) || self.voters.contains(id);
        if self.learners_next.iter().any(stays) {
            return Some("a future learner that is not an outgoing voter");
        }
        (self.auto_leave && !self.is_joint()).then_some("auto-leave outside a joint configuration")
    }
}

/// One member's part in a [`ConfChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Adds a voter, or promotes a learner.
    AddVoter(u64),
    /// Adds a learner, or demotes a voter.
    AddLearner(u64),
    /// Removes a voter or learner. Ids are never used again.
    Remove(u64),
}

impl Change {
    /// The member that is added or removed.
    pub fn id(&self) -> u64 {
        match *self {
            Change::AddVoter(id) | Change::AddLearner(id) | Change::Remove(id) => id,
        }
    }
}

/// How a [`ConfChange`] gets from the old configuration to the new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Transition {
    /// At once if it changes one member, else as `JointAutoLeave`.
    #[default]
    Auto = 0,
    /// Through a joint configuration that the leader leaves by itself.
    JointAutoLeave = 1,
    /// Into a joint configuration that lasts until an empty change is proposed.
    JointExplicit = 2,
}

/// A change of the configuration. With no `changes` and `Transition::Auto` it leaves a joint configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfChange {
    /// Whether it goes through a joint configuration.
    pub transition: Transition,
    /// At most [`MAX_MEMBERS`], applied in order.
    pub changes: Vec<Change>,
    /// The owner's own bytes, opaque here: who the member is, which request asked.
    pub context: Bytes,
}

impl ConfChange {
    /// A change of one member.
    pub fn single(change: Change, context: Bytes) -> ConfChange {
        ConfChange { transition: Transition::Auto, changes: vec![change], context }
    }

    /// The change that leaves a joint configuration.
    pub fn leave_joint() -> ConfChange {
        ConfChange::default()
    }

    /// The payload of an entry of kind 1: `version u8 | transition u8 | count u16 | count * (kind u8, id u64) |
    /// context`, little-endian.
    pub fn encode(&self) -> Bytes {
        assert!(self.changes.len() <= MAX_MEMBERS, "a conf change names at most {MAX_MEMBERS} members");
        let mut buf = BytesMut::with_capacity(4 + 9 * self.changes.len() + self.context.len());
        buf.put_u8(CONF_CHANGE_VERSION);
        buf.put_u8(self.transition as u8);
        buf.put_u16_le(self.changes.len() as u16);
        for change in &self.changes {
            let kind = match change {
                Change::AddVoter(_) => 0,
                Change::Remove(_) => 1,
                Change::AddLearner(_) => 2,
            };
            buf.put_u8(kind);
            buf.put_u64_le(change.id());
        }
        buf.put_slice(&self.context);
        buf.freeze()
    }

    /// Reads a payload back. The context shares the payload's buffer.
    pub fn decode(payload: Bytes) -> Result<ConfChange, WireError> {
        let mut reader = FieldReader::new(payload);
        let version = reader.u8()?;
        if version != CONF_CHANGE_VERSION {
            return Err(WireError::Version { got: version, known: CONF_CHANGE_VERSION });
        }
        let transition = match reader.u8()? {
            0 => Transition::Auto,
            1 => Transition::JointAutoLeave,
            2 => Transition::JointExplicit,
            got => return Err(WireError::Value { field: "transition", got: got.into() }),
        };
        let count = usize::from(reader.u16()?);
        if count > MAX_MEMBERS {
            return Err(WireError::Value { field: "number of changes", got: count as u64 });
        }
        let changes = (0..count).map(|_| decode_change(&mut reader)).collect::<Result<_, _>>()?;
        Ok(ConfChange { transition, changes, context: reader.rest() })
    }
}

fn decode_change(reader: &mut FieldReader) -> Result<Change, WireError> {
    let kind = reader.u8()?;
    let id = reader.u64()?;
    if id == 0 {
        return Err(WireError::Value { field: "member id", got: 0 });
    }
    match kind {
        0 => Ok(Change::AddVoter(id)),
        1 => Ok(Change::Remove(id)),
        2 => Ok(Change::AddLearner(id)),
        got => Err(WireError::Value { field: "change kind", got: got.into() }),
    }
}
