//! One checkpoint in place of several that follow each other: a chain stays short, and its bytes stay in proportion to
//! what they say, without a look at the state.
//!
//! ```text
//! chain     base | delta 1 | delta 2 | delta 3      merge 1 to 3: base | delta
//!                                                   merge all:    base
//! ```
//!
//! A merged delta follows what its first part followed, and completes the state that its last part completes. What the
//! last part's header says is purged is left out. Restoring the chain gives the same state before and after the merge,
//! with the same references.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::contents::CheckpointContents;
use super::key_merge::{Merge, MergedKey};
use crate::checkpoint::codec::{put_bytes, put_key, put_number, put_version};
use crate::checkpoint::error::RestoreError;
use crate::checkpoint::frame::{FrameKind, frame};
use crate::checkpoint::header::{CheckpointHeader, CheckpointKind, Predecessor};
use crate::checkpoint::keys::MAX_FRAME_KEY_BYTES;
use crate::checkpoint::source::{put_lease, put_relocated};
use crate::lessor::LeaseInfo;
use crate::state::Limits;
use crate::types::Revision;

/// The chunks of a merged checkpoint. The merged ones are read once for each section that the result has.
pub struct MergedCheckpoint<I> {
    /// The chunks of each checkpoint, from its beginning.
    chain: Vec<I>,
    header: CheckpointHeader,
    first_frames: std::vec::IntoIter<Bytes>,
    /// The sections that are still to be written, the last one first.
    sections: Vec<FrameKind>,
    /// The merge that writes the present section.
    merge: Option<Merge<I>>,
    /// Of the last key of the section of relocated values.
    relocated: RelocatedVersions,
    max_bytes: usize,
    round_bytes: usize,
    keys_written: u64,
}

/// Relocated versions of one key. Each names the key, so those of one key may need several frames.
#[derive(Default)]
struct RelocatedVersions {
    key: Vec<u8>,
    left: std::vec::IntoIter<(Revision, u64)>,
}

impl RelocatedVersions {
    /// Puts them into the body of a frame, until that has `max_bytes`.
    fn put(&mut self, body: &mut Vec<u8>, max_bytes: usize) {
        while body.len() < max_bytes
            && let Some((revision, address)) = self.left.next()
        {
            put_relocated(body, &self.key, revision, address);
        }
    }
}

impl<I: Iterator<Item = Bytes> + Clone + Send> MergedCheckpoint<I> {
    /// Merges checkpoints that follow each other, oldest first, each given as all its chunks. If the first is a base,
    /// the result is one.
    ///
    /// # Errors
    /// [`RestoreError`] when their first frames are damaged, or they do not follow each other.
    pub fn new(chain: Vec<I>, limits: &Limits) -> Result<MergedCheckpoint<I>, RestoreError> {
        let contents = open(&chain)?;
        let (first, last) = match (contents.first(), contents.last()) {
            (Some(first), Some(last)) => (first.header, last),
            _ => return Err(RestoreError::Truncated),
        };
        let header = CheckpointHeader { kind: first.kind, follows: first.follows, ..last.header };
        let is_base = header.kind == CheckpointKind::Base;
        let mut first_frames = vec![header.frame(), frame(FrameKind::Small, &last.small)];
        let mut leases: BTreeMap<i64, Option<LeaseInfo>> = BTreeMap::new();
        leases.extend(contents.iter().flat_map(|contents| contents.leases.iter().copied()));
        leases.retain(|_, lease| lease.is_some() || !is_base);
        let leases: Vec<_> = leases.into_iter().collect();
        for some in leases.chunks(MAX_LEASES) {
            let mut body = Vec::new();
            some.iter().for_each(|lease| put_lease(&mut body, lease));
            first_frames.push(frame(FrameKind::Leases, &body));
        }
        let mut sections = vec![FrameKind::End, FrameKind::Keys];
        if !is_base && contents.iter().any(|contents| contents.relocated.head().is_some()) {
            sections.push(FrameKind::Relocated);
        }
        if !is_base && contents.iter().any(|contents| contents.removed.head().is_some()) {
            sections.push(FrameKind::Removed);
        }
        let first_frames = first_frames.into_iter();
        let max_bytes = limits.checkpoint_chunk_bytes;
        Ok(MergedCheckpoint {
            chain,
            header,
            first_frames,
            sections,
            merge: None,
            relocated: RelocatedVersions::default(),
            max_bytes,
            round_bytes: limits.merge_round_bytes,
            keys_written: 0,
        })
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, RestoreError> {
        if let Some(frame) = self.first_frames.next() {
            return Ok(Some(frame));
        }
        while let Some(section) = self.sections.last().copied() {
            if section == FrameKind::End {
                self.sections.clear();
                return Ok(Some(frame(FrameKind::End, &self.keys_written.to_le_bytes())));
            }
            let body = self.body(section)?;
            if !body.is_empty() {
                return Ok(Some(frame(section, &body)));
            }
            self.sections.pop();
            self.merge = None;
        }
        Ok(None)
    }

    /// The body of the next frame of a section; empty behind the last.
    fn body(&mut self, section: FrameKind) -> Result<Vec<u8>, RestoreError> {
        let merge = match &mut self.merge {
            Some(merge) => merge,
            merge => merge.insert(Merge::new(open(&self.chain)?, self.round_bytes)),
        };
        let (mut body, mut before, mut key_bytes) = (Vec::new(), Vec::new(), 0);
        self.relocated.put(&mut body, self.max_bytes);
        while body.len() < self.max_bytes
            && key_bytes < MAX_FRAME_KEY_BYTES
            && let Some(key) = merge.next()?
        {
            key.purge(self.header.purged, self.header.kind);
            match section {
                FrameKind::Removed if key.whole && key.versions.is_empty() => put_bytes(&mut body, &key.key),
                FrameKind::Relocated => {
                    // Versions of these checkpoints have their newest addresses.
                    let first = key.versions.first().map(|version| version.revision);
                    let older = |(revision, _): &(_, u64)| first.is_none_or(|first| *revision < first);
                    let versions: Vec<_> = key.relocated.drain(..).filter(older).collect();
                    self.relocated = RelocatedVersions { key: key.key.clone(), left: versions.into_iter() };
                    self.relocated.put(&mut body, self.max_bytes);
                }
                FrameKind::Keys if !key.versions.is_empty() => {
                    put_entry(&mut body, &before, key, self.header.kind);
                    before.clone_from(&key.key);
                    self.keys_written += 1;
                    key_bytes += key.key.len();
                }
                _ => {}
            }
        }
        Ok(body)
    }
}

/// Leases in a frame; a few dozen bytes each.
const MAX_LEASES: usize = 2_000;

/// Opens checkpoints that follow each other.
fn open<I: Iterator<Item = Bytes> + Clone>(chain: &[I]) -> Result<Vec<CheckpointContents<I>>, RestoreError> {
    let mut contents: Vec<CheckpointContents<I>> = Vec::with_capacity(chain.len());
    for chunks in chain {
        let before = match contents.last() {
            Some(before) => Predecessor::Is(&before.header),
            None => Predecessor::Any,
        };
        contents.push(CheckpointContents::open(chunks.clone(), before)?);
    }
    Ok(contents)
}

/// An entry of the section of keys.
fn put_entry(body: &mut Vec<u8>, before: &[u8], key: &MergedKey, kind: CheckpointKind) {
    put_key(body, before, &key.key);
    let whole = key.whole || kind == CheckpointKind::Base;
    put_number(body, (key.versions.len() as u64) << 1 | u64::from(whole));
    key.versions.iter().for_each(|version| put_version(body, version));
}

impl<I: Iterator<Item = Bytes> + Clone + Send> Iterator for MergedCheckpoint<I> {
    /// The first error ends it; then it is not complete.
    type Item = Result<Bytes, RestoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_frame();
        if next.is_err() {
            self.sections.clear();
        }
        next.transpose()
    }
}
