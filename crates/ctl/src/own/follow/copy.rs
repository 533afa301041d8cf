//! Copies the keys of the source at one revision: what differs is written, so a copy into an empty destination writes
//! everything, and one after a compaction little.
//!
//! Both sides are read page by page in the order of their keys. What was copied is behind the key in the position, and
//! a copy that was interrupted goes on there.

use bytes::Bytes;

use super::Follower;
use super::board::FollowPhase;
use super::calls::FollowHalt;
use super::changes::{StepCollector, delete, put};
use super::state::FollowPosition;
use crate::own::pages::{RangePages, behind, next_pair, under};

/// Steps, and bytes of them, that are collected before they are written together.
const MANY_STEPS: usize = 16;
const MANY_BYTES: usize = 4 << 20;

impl Follower {
    /// Copies the keys at a revision, behind the last one that was copied.
    pub(super) async fn copy_keys(&mut self, revision: i64, last: Bytes) -> Result<(), FollowHalt> {
        let (first, range_end) = under(&self.wish.prefix);
        let (all_keys, _) = self.source.count((first.clone(), range_end.clone())).await?;
        let start = if last.is_empty() { first } else { behind(&last) };
        self.board.update(|figures| {
            (figures.phase, figures.keys, figures.all_keys) = (FollowPhase::Copying, 0, all_keys);
        });
        if !last.is_empty() {
            let (left, _) = self.source.count((start.clone(), range_end.clone())).await?;
            self.board.update(|figures| figures.keys = all_keys.saturating_sub(left));
        }
        self.board.note(format!("copying {all_keys} keys at revision {revision} of the source"));
        let (source, destination) = (self.source.clone(), self.destination.clone());
        let range = (start, range_end);
        let mut left = RangePages::new(source.as_ref(), range.clone(), revision);
        let mut right = RangePages::new(destination.as_ref(), range, 0).at_newest();
        let mut collector = StepCollector::new(revision, self.wish.max_operations);
        while let Some(pair) = next_pair(&mut left, &mut right).await? {
            self.board.update(|figures| figures.keys += u64::from(pair.0.is_some()));
            match pair {
                (Some(wanted), there) if wanted.key != self.wish.state_key => {
                    let lease = self.leases.copy(wanted.lease, revision).await?;
                    if !there.is_some_and(|there| there.value == wanted.value && there.lease == lease) {
                        collector.add(wanted.key.clone(), put(wanted, lease));
                    }
                }
                (None, Some(there)) if there.key != self.wish.state_key => {
                    collector.add(there.key.clone(), delete(there.key));
                }
                _ => {}
            }
            let steps = collector.take_many(MANY_STEPS, MANY_BYTES);
            self.writer.write(steps).await?;
        }
        self.writer.write(collector.finish()).await
    }

    /// Begins a copy of what differs now, after changes were compacted that the destination does not have.
    pub(super) async fn copy_again(&mut self) -> Result<(), FollowHalt> {
        let (_, revision) = self.source.count(under(&self.wish.prefix)).await?;
        let position = FollowPosition::Copying { revision, last: Bytes::new() };
        self.writer.write(vec![super::writer::FollowStep { operations: Vec::new(), position }]).await
    }
}
