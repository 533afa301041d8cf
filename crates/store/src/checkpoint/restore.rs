//! Reading checkpoints back: a base, then deltas.

use api::etcdserverpb as pb;

use super::FORMAT_VERSION;
use super::codec::Fields;
use super::dirty::Baseline;
use super::frame::{FrameKind, Frames};
use super::source::MAGIC;
use crate::hash::key_part;
use crate::index::Restoring;
use crate::lease::LeaseInfo;
use crate::members::Member;
use crate::purge::purge;
use crate::state::{NEVER_COMPACTED, Position, State};

/// Above these no store comes in the lifetime of anything, and what is counted from them does not overflow.
const MAX_REVISION: i64 = 1 << 61;
const MAX_INDEX: u64 = 1 << 62;

/// A checkpoint cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Bytes are not what was written.
    #[error("the checkpoint is damaged: a checksum does not match")]
    Damaged,
    /// The end is missing.
    #[error("the checkpoint is cut off")]
    Truncated,
    /// A newer (or no) Stele wrote it.
    #[error("the checkpoint has format version {found}, this Stele reads version {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// A delta that does not follow what is before it, or does not start with a base.
    #[error("a delta follows entry {follows}, but what is before it ends with entry {after}")]
    OutOfOrder {
        /// The entry the delta follows.
        follows: u64,
        /// The entry restored so far, 0 for none.
        after: u64,
    },
    /// The checksums match, but the content makes no sense.
    #[error("the checkpoint is malformed: {0}")]
    Malformed(&'static str),
    /// The restored state is not the one that was written.
    #[error("the restored state has hash {found:#x}, the checkpoint says {expected:#x}")]
    HashMismatch {
        /// Hash of what was restored.
        found: u64,
        /// Hash in the header.
        expected: u64,
    },
}

/// Restores the state. References are not yet retained.
pub(crate) fn restore<C: AsRef<[u8]>>(chunks: impl IntoIterator<Item = C>) -> Result<State, RestoreError> {
    let mut restoring = Restoration::default();
    for chunk in chunks {
        restoring.push(chunk.as_ref())?;
    }
    restoring.finish().map(|restored| restored.state)
}

/// A state being rebuilt as the chunks of a checkpoint arrive: a base, then any number of deltas. It knows no store,
/// so it may be done anywhere, and what comes of it be given to [`Store::install`](crate::Store::install).
#[derive(Default)]
pub struct Restoration {
    frames: Frames,
    restore: Restore,
}

/// A whole state, rebuilt and checked; nothing is retained yet.
pub struct Restored {
    pub(crate) state: State,
}

impl Restoration {
    /// Takes the next chunk.
    ///
    /// # Errors
    /// [`RestoreError`]; then nothing can come of it any more.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), RestoreError> {
        self.frames.push(chunk, |kind, body| self.restore.frame(kind, &mut Fields(body)))
    }

    /// All chunks were given.
    ///
    /// # Errors
    /// [`RestoreError`] when something is missing, or the state is not the one that was written.
    pub fn finish(self) -> Result<Restored, RestoreError> {
        self.frames.finish()?;
        self.restore.finish().map(|state| Restored { state })
    }
}

impl Restored {
    /// Index and term of the last applied entry.
    pub fn applied(&self) -> Position {
        self.state.applied
    }
}

struct Header {
    position: Position,
    revision: i64,
    compacted: i64,
    purged: i64,
    hash: u64,
}

#[derive(Default)]
struct Restore {
    /// Of the checkpoint being read, or read last.
    header: Option<Header>,
    /// Whether its end was seen.
    ended: bool,
    /// Where purging stood in the base: what the deltas did not touch was purged no further.
    base_purged: i64,
    keys: u64,
    state: State,
    index: Restoring,
    key: Vec<u8>,
}

impl Restore {
    fn frame(&mut self, kind: FrameKind, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        if (self.header.is_none() || self.ended) != (kind == FrameKind::Header) {
            return Err(RestoreError::Malformed("a checkpoint is its header, its content and its end"));
        }
        match kind {
            FrameKind::Header => self.header(fields),
            FrameKind::Small => self.small(fields),
            FrameKind::Leases => self.leases(fields),
            FrameKind::Removed => self.removed(fields),
            FrameKind::Moved => self.moved(fields),
            FrameKind::Keys => self.keys(fields),
            FrameKind::End => self.end(fields),
        }
    }

    fn header(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        if fields.array()? != MAGIC {
            return Err(RestoreError::Malformed("this is no checkpoint"));
        }
        let found = u16::from_le_bytes(fields.array()?);
        if found != FORMAT_VERSION {
            return Err(RestoreError::Version { found });
        }
        let delta = fields.byte()? != 0;
        let mut number = || fields.array().map(u64::from_le_bytes);
        let position = Position { index: number()?, term: number()? };
        let follows = Position { index: number()?, term: number()? };
        let [revision, compacted, purged] = [number()? as i64, number()? as i64, number()? as i64];
        let header = Header { position, revision, compacted, purged, hash: number()? };
        let after = self.header.as_ref().map(|header| header.position);
        if delta && after != Some(follows) || !delta && after.is_some() {
            let after = after.map_or(0, |position| position.index);
            return Err(RestoreError::OutOfOrder { follows: follows.index, after });
        }
        let in_order =
            NEVER_COMPACTED <= purged && purged <= compacted && compacted <= revision && revision >= 1;
        if !in_order || revision > MAX_REVISION || position.index > MAX_INDEX {
            return Err(RestoreError::Malformed("revisions are out of order, or none that a store has"));
        }
        if !delta {
            self.base_purged = purged;
        }
        self.index.begin();
        self.header = Some(header);
        self.ended = false;
        self.keys = 0;
        Ok(())
    }

    fn small(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        self.state.alarms = Default::default();
        self.state.members = Default::default();
        for _ in 0..fields.number()? {
            let alarm =
                i32::try_from(fields.signed()?).map_err(|_| RestoreError::Malformed("no such alarm"))?;
            let member_id = fields.number()?;
            let action = pb::alarm_request::AlarmAction::Activate as i32;
            self.state.alarms.apply(&pb::AlarmRequest { action, member_id, alarm });
        }
        for _ in 0..fields.number()? {
            let member = member(fields)?;
            self.state.members.members.insert(member.id, member);
        }
        for _ in 0..fields.number()? {
            self.state.members.removed.insert(fields.number()?);
        }
        let version = fields.string()?;
        self.state.members.cluster_version = (!version.is_empty()).then_some(version);
        Ok(())
    }

    fn leases(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            let id = fields.signed()?;
            let ttl: i64 = fields.small()?;
            if ttl == 0 {
                self.state.lessor.forget(id);
            } else {
                self.state.lessor.restore(LeaseInfo { id, ttl, remaining: fields.small()? });
            }
        }
        Ok(())
    }

    fn removed(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            self.index.remove(fields.bytes()?);
        }
        Ok(())
    }

    fn moved(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        while !fields.is_empty() {
            let key = fields.bytes()?;
            let revision = fields.revision()?;
            self.index.relocate(key, revision, u64::from_le_bytes(fields.array()?));
        }
        Ok(())
    }

    fn keys(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        self.key.clear();
        while !fields.is_empty() {
            fields.key(&mut self.key)?;
            let head: u64 = fields.number()?;
            let Some(others) = (head >> 1).checked_sub(1) else {
                return Err(RestoreError::Malformed("a key without versions"));
            };
            let in_order = |ascends| match ascends {
                true => Ok(()),
                false => Err(RestoreError::Malformed("versions or keys are out of order")),
            };
            in_order(self.index.key(&self.key, head & 1 == 1, fields.version()?))?;
            for _ in 0..others {
                in_order(self.index.version(fields.version()?))?;
            }
            self.keys += 1;
        }
        Ok(())
    }

    fn end(&mut self, fields: &mut Fields<'_>) -> Result<(), RestoreError> {
        if u64::from_le_bytes(fields.array()?) != self.keys {
            return Err(RestoreError::Malformed("keys are missing"));
        }
        self.index.complete();
        self.ended = true;
        Ok(())
    }

    fn finish(self) -> Result<State, RestoreError> {
        let Restore { header, ended, base_purged, mut state, index, .. } = self;
        let header = header.filter(|_| ended).ok_or(RestoreError::Truncated)?;
        state.applied = header.position;
        state.revision = header.revision;
        state.compacted = header.compacted;
        state.purged = base_purged;
        let (lessor, key_hash) = (&mut state.lessor, &mut state.key_hash);
        let index = index.finish(base_purged, header.revision, |slot, record| {
            let newest = record.newest();
            if !newest.is_tombstone() {
                *key_hash = key_hash.wrapping_add(key_part(record.key(), &newest));
                lessor.reattach(slot, 0, newest.lease);
            }
        });
        state.index = index.ok_or(RestoreError::Malformed("history does not end at the current revision"))?;
        purge(&mut state, header.purged, usize::MAX, &mut |_| {});
        let found = state.hash();
        if found != header.hash {
            return Err(RestoreError::HashMismatch { found, expected: header.hash });
        }
        state.dirty.rebase(Baseline { position: header.position, revision: header.revision });
        Ok(state)
    }
}

fn member(fields: &mut Fields<'_>) -> Result<Member, RestoreError> {
    let id = fields.number()?;
    let learner = fields.byte()? != 0;
    let name = fields.string()?;
    let mut urls = || (0..fields.number()?).map(|_| fields.string()).collect::<Result<Vec<_>, _>>();
    let (peer_urls, client_urls) = (urls()?, urls()?);
    Ok(Member { id, name, peer_urls, client_urls, learner, incarnation: fields.number()? })
}
