//! The beginning of a copy that keeps revisions, where the source has compacted its first ones.
//!
//! ```text
//! source, compacted at 9    a@3  c@7  b@9                  keys at revision 9, by the revision of their last change
//! destination               2  3  4  5  6  7  8  9         transactions; those without a key only put the state key
//!                              a           c     b
//! ```
//!
//! So each key gets the revision of its last change. Its number of changes and the revision of its creation are those
//! of the destination. After an interruption or another compaction, the same is done with what is missing. The
//! destination is compacted after these transactions, as the source is, if its user may do that: else each would leave
//! a version of the state key.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{etcdserverpb as pb, methods, mvccpb};
use bytes::Bytes;
use pb::request_op::Request;
use pb::response_op::Response;
use tokio::time::Instant;

use super::Follower;
use super::board::FollowPhase;
use super::calls::FollowHalt;
use super::changes::{delete, put};
use super::state::FollowPosition;
use super::writer::FollowStep;
use crate::exit::Exit;
use crate::own::pages::{RangePages, next_pair, under};

/// Keys whose values are read together: fewer than any server permits in a transaction.
const MAX_KEYS_TOGETHER: usize = 64;

/// Revisions that are written together.
const MAX_STEPS_TOGETHER: usize = 256;

/// Revisions after which the destination is compacted up to the last one: it holds few versions of the state key then,
/// and compacts seldom.
const COMPACT_EVERY: i64 = 10_000;

/// Time after which the remaining time is known well enough to be shown.
const ESTIMATE_AFTER: Duration = Duration::from_secs(5);

/// Keys that the destination lacks, by the revision of their last change, and keys that it must not have.
#[derive(Default)]
struct MissingKeys {
    changed: BTreeMap<i64, Vec<Bytes>>,
    gone: Vec<Bytes>,
}

impl Follower {
    /// Gives the destination the keys that the source has at a revision, each at the revision of its last change.
    pub(super) async fn copy_kept(&mut self, compacted: i64) -> Result<(), FollowHalt> {
        let FollowPosition::Copied { revision: from } = *self.writer.position() else { return Ok(()) };
        self.board.update(|figures| figures.phase = FollowPhase::Copying);
        self.board.note(format!(
            "the source is compacted at revision {compacted}: copying its keys of then, with revisions {} to \
             {compacted}: {} transactions, one for each revision",
            from + 1,
            compacted - from
        ));
        let mut missing = self.missing_keys(from, compacted).await?;
        let keys = missing.changed.values().map(Vec::len).sum::<usize>() as u64;
        self.board.update(|figures| (figures.keys, figures.all_keys) = (0, keys));
        let mut next = from + 1;
        let mut rate = FillRate::new(next);
        while next <= compacted {
            let mut chunk = Vec::new();
            let mut wanted = 0;
            while next <= compacted && chunk.len() < MAX_STEPS_TOGETHER && wanted < MAX_KEYS_TOGETHER {
                let keys = missing.changed.remove(&next).unwrap_or_default();
                wanted += keys.len();
                chunk.push((next, keys));
                next += 1;
            }
            let mut values = self.values_at(compacted, &chunk).await?;
            let mut steps = Vec::with_capacity(chunk.len());
            for (revision, keys) in chunk {
                let changes = keys.len();
                if changes > self.wish.max_operations {
                    self.say_split(revision, changes, 2)?;
                }
                let mut operations = Vec::with_capacity(changes);
                for kv in keys.iter().filter_map(|key| values.remove(key)) {
                    let lease = self.leases.copy(kv.lease, compacted).await?;
                    operations.push(put(kv, lease));
                }
                let room = (self.wish.max_operations - changes).min(missing.gone.len());
                operations.extend(missing.gone.drain(..room).map(delete));
                steps.push(FollowStep { operations, position: FollowPosition::Copied { revision } });
            }
            self.writer.write(steps).await?;
            self.board.update(|figures| figures.keys += wanted as u64);
            if rate.is_estimate_due() {
                self.board.note(rate.estimate(next, compacted));
            }
            if rate.is_compaction_due(next, compacted) {
                rate.may_compact = self.compact_destination(next - 1).await?;
                rate.compacted = next;
            }
        }
        Ok(())
    }

    /// Compacts the destination up to a revision that it has. Returns whether its user may do that.
    async fn compact_destination(&self, revision: i64) -> Result<bool, FollowHalt> {
        let request = pb::CompactionRequest { revision, physical: false };
        let compacted: Result<pb::CompactionResponse, _> =
            self.destination.call(methods::KV_COMPACT, &request).await;
        match compacted {
            Ok(_) => Ok(true),
            // Its answer was lost, and it was repeated.
            Err(error) if error.is_compacted() => Ok(true),
            // Other users than root may write all keys too.
            Err(error) if error.says("etcdserver: permission denied") => {
                self.board.note(
                    "the destination is not compacted, because its user has not the role root: it keeps a version of \
                     the state key for each revision"
                        .to_owned(),
                );
                Ok(false)
            }
            Err(error) => Err(Exit::from(error).into()),
        }
    }

    /// Compares the keys of the source at a revision with those of the destination.
    async fn missing_keys(&self, from: i64, compacted: i64) -> Result<MissingKeys, FollowHalt> {
        let range = under(&self.wish.prefix);
        let mut left = RangePages::new(self.source.as_ref(), range.clone(), compacted).keys_only();
        let mut right = RangePages::new(self.destination.as_ref(), range, 0).at_newest().keys_only();
        let mut missing = MissingKeys::default();
        while let Some(pair) = next_pair(&mut left, &mut right).await? {
            match pair {
                (Some(kv), _) if kv.key == self.wish.state_key => {}
                (Some(kv), _) if kv.mod_revision > from => {
                    missing.changed.entry(kv.mod_revision).or_default().push(kv.key);
                }
                (None, Some(kv)) if kv.key != self.wish.state_key => missing.gone.push(kv.key),
                _ => {}
            }
        }
        Ok(missing)
    }

    /// Reads keys at a revision.
    async fn values_at(
        &self,
        revision: i64,
        chunk: &[(i64, Vec<Bytes>)],
    ) -> Result<BTreeMap<Bytes, mvccpb::KeyValue>, FollowHalt> {
        let keys: Vec<&Bytes> = chunk.iter().flat_map(|(_, keys)| keys).collect();
        let mut values = BTreeMap::new();
        for keys in keys.chunks(MAX_KEYS_TOGETHER) {
            let get = |key: &&Bytes| {
                let range = pb::RangeRequest { key: (*key).clone(), revision, ..Default::default() };
                pb::RequestOp { request: Some(Request::RequestRange(range)) }
            };
            let request = pb::TxnRequest { success: keys.iter().map(get).collect(), ..Default::default() };
            let answer: pb::TxnResponse = self.source.call(methods::KV_TXN, &request).await?;
            for response in answer.responses {
                if let Some(Response::ResponseRange(range)) = response.response {
                    values.extend(range.kvs.into_iter().map(|kv| (kv.key.clone(), kv)));
                }
            }
        }
        Ok(values)
    }
}

/// How fast revisions are filled, and what is due.
struct FillRate {
    began: Instant,
    first: i64,
    is_estimated: bool,
    /// The destination is compacted up to the revision before this one.
    compacted: i64,
    /// Whether the destination's user may compact it, as far as that is known.
    may_compact: bool,
}

impl FillRate {
    /// Beginning with revision `first`.
    fn new(first: i64) -> Self {
        Self { began: Instant::now(), first, is_estimated: false, compacted: first, may_compact: true }
    }

    /// Whether the rate is known well enough, and was not shown yet.
    fn is_estimate_due(&self) -> bool {
        !self.is_estimated && self.began.elapsed() >= ESTIMATE_AFTER
    }

    /// A line that says how long the rest takes: revisions before `next` are filled, `last` is the last one.
    fn estimate(&mut self, next: i64, last: i64) -> String {
        self.is_estimated = true;
        remaining(next - self.first, last + 1 - next, self.began.elapsed())
    }

    /// Whether to compact the destination up to the revision before `next`.
    fn is_compaction_due(&self, next: i64, last: i64) -> bool {
        self.may_compact && (next - self.compacted >= COMPACT_EVERY || next > last)
    }
}

/// The rate of transactions, and the time for the rest at that rate.
fn remaining(done: i64, left: i64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64();
    let seconds = (left as f64 / rate.max(1.0)) as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{rate:.0} transactions a second: {left} are left, about {hours} h {minutes:02} min {:02} s",
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_at_the_rate_so_far() {
        let line = remaining(10_000, 200_000_000, Duration::from_secs(5));
        assert_eq!(line, "2000 transactions a second: 200000000 are left, about 27 h 46 min 40 s");
        assert_eq!(
            remaining(0, 30, Duration::from_secs(5)),
            "0 transactions a second: 30 are left, about 0 h 00 min 30 s"
        );
    }

    #[test]
    fn the_destination_is_compacted_from_time_to_time_and_at_the_end() {
        let mut rate = FillRate::new(2);
        let mut due = Vec::new();
        for next in (1..=100).map(|step| 2 + 256 * step) {
            if rate.is_compaction_due(next, 25_602) {
                rate.compacted = next;
                due.push(next);
            }
        }
        assert_eq!(due, [10_242, 20_482]);
        assert!(rate.is_compaction_due(25_603, 25_602));
        rate.may_compact = false;
        assert!(!rate.is_compaction_due(25_603, 25_602));
    }
}
