//! The header of a checkpoint, written and read side by side: which state it completes, and what it follows.

use bytes::Bytes;

use super::codec::FieldReader;
use super::error::{NEWEST_FORMAT, OLDEST_FORMAT, RestoreError};
use super::frame::{FrameKind, MAGIC, frame};
use crate::state::NEVER_COMPACTED;
use crate::types::AppliedId;

/// No store reaches these numbers, and what is added to them does not overflow.
const MAX_REVISION: i64 = 1 << 61;
const MAX_INDEX: u64 = 1 << 62;

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// The whole state.
    Base,
    /// What changed since the checkpoint before it.
    Delta,
}

/// What a checkpoint follows.
#[derive(Clone, Copy)]
pub(super) enum Predecessor<'a> {
    /// Nothing: it is a base.
    None,
    /// The checkpoint with this header.
    Is(&'a CheckpointHeader),
    /// That is not known here.
    Any,
}

/// The fields of a header, after the magic.
#[derive(Clone, Copy)]
pub(super) struct CheckpointHeader {
    /// The format of the checkpoint.
    pub(super) format: u16,
    pub(super) kind: CheckpointKind,
    pub(super) applied: AppliedId,
    /// The checkpoint before a delta; zeros in a base.
    pub(super) follows: AppliedId,
    pub(super) revision: i64,
    pub(super) compacted: i64,
    /// What purging had reached.
    pub(super) purged: i64,
    /// The state hash.
    pub(super) hash: u64,
}

impl CheckpointHeader {
    /// The frame that begins the checkpoint.
    pub(super) fn frame(&self) -> Bytes {
        let mut body = MAGIC.to_vec();
        body.extend_from_slice(&self.format.to_le_bytes());
        body.push(u8::from(self.kind == CheckpointKind::Delta));
        for number in [self.applied.index, self.applied.term, self.follows.index, self.follows.term] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.revision, self.compacted, self.purged] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.extend_from_slice(&self.hash.to_le_bytes());
        frame(FrameKind::Header, &body)
    }

    /// Reads the header of a checkpoint that must follow what is `before`.
    pub(super) fn read(
        fields: &mut FieldReader<'_>,
        before: Predecessor<'_>,
    ) -> Result<CheckpointHeader, RestoreError> {
        if fields.array()? != MAGIC {
            return Err(RestoreError::Malformed("this is no checkpoint"));
        }
        let format = u16::from_le_bytes(fields.array()?);
        if !(OLDEST_FORMAT..=NEWEST_FORMAT).contains(&format) {
            return Err(RestoreError::Version { found: format });
        }
        let kind = if fields.byte()? != 0 { CheckpointKind::Delta } else { CheckpointKind::Base };
        let mut number = || fields.array().map(u64::from_le_bytes);
        let applied = AppliedId { index: number()?, term: number()? };
        let follows = AppliedId { index: number()?, term: number()? };
        let [revision, compacted, purged] = [number()? as i64, number()? as i64, number()? as i64];
        let hash = number()?;
        let header = CheckpointHeader { format, kind, applied, follows, revision, compacted, purged, hash };
        header.check_order(before)?;
        Ok(header)
    }

    fn check_order(&self, before: Predecessor<'_>) -> Result<(), RestoreError> {
        let CheckpointHeader { revision, compacted, purged, .. } = *self;
        let in_order =
            NEVER_COMPACTED <= purged && purged <= compacted && compacted <= revision && revision >= 1;
        if !in_order || revision > MAX_REVISION || self.applied.index > MAX_INDEX {
            return Err(RestoreError::Malformed("revisions are out of order, or none that a store has"));
        }
        let (fits, after) = match before {
            Predecessor::Any => (true, 0),
            Predecessor::None => (self.kind == CheckpointKind::Base, 0),
            Predecessor::Is(before) => {
                let follows = self.kind == CheckpointKind::Delta && before.applied == self.follows;
                (follows, before.applied.index)
            }
        };
        if !fits {
            return Err(RestoreError::OutOfOrder { follows: self.follows.index, after });
        }
        match before {
            Predecessor::Is(before) if revision < before.revision || purged < before.purged => {
                Err(RestoreError::Malformed("a delta is older than what it follows"))
            }
            _ => Ok(()),
        }
    }
}
