//! Compares both sides, key by key and value by value, at one revision of each.

use super::Follower;
use super::board::FollowPhase;
use super::calls::FollowHalt;
use crate::exit::{Exit, code};
use crate::own::pages::{RangePages, next_pair, under};

/// Differences that are listed; more are counted.
const MAX_LISTED: u64 = 20;

impl Follower {
    /// Compares the source at a revision with the destination, which has everything up to it and no more.
    pub(super) async fn verify(&self, revision: i64) -> Result<(), FollowHalt> {
        let range = under(&self.wish.prefix);
        let (all_keys, _) = self.source.count(range.clone()).await?;
        self.board.update(|figures| {
            (figures.phase, figures.keys, figures.all_keys) = (FollowPhase::Verifying, 0, all_keys);
        });
        let mut left = RangePages::new(self.source.as_ref(), range.clone(), revision);
        let mut right = RangePages::new(self.destination.as_ref(), range, 0);
        let (mut equal, mut different) = (0u64, 0u64);
        while let Some((source, destination)) = next_pair(&mut left, &mut right).await? {
            let key = source.as_ref().or(destination.as_ref()).map(|kv| kv.key.clone()).unwrap_or_default();
            if key == self.wish.state_key {
                continue;
            }
            self.board.update(|figures| figures.keys += 1);
            let difference = match (source, destination) {
                (Some(_), None) => "is missing in the destination",
                (None, _) => "is only in the destination",
                (Some(source), Some(there)) if source.value != there.value => "has another value",
                (Some(source), Some(there))
                    if self.wish.keeps_revisions && source.mod_revision != there.mod_revision =>
                {
                    "has another revision"
                }
                _ => {
                    equal += 1;
                    continue;
                }
            };
            different += 1;
            if different <= MAX_LISTED {
                self.board.note(format!("key {:?} {difference}", String::from_utf8_lossy(&key)));
            }
        }
        let there = right.revision();
        if different > 0 {
            let why = format!(
                "{different} keys differ between revision {revision} of the source and revision {there} of the \
                 destination, {equal} are equal: did another client write to the destination?"
            );
            return Err(Exit::new(code::ERROR, why).into());
        }
        self.board.note(format!(
            "verified: {equal} keys and values are equal at revision {revision} of the source and revision {there} of \
             the destination"
        ));
        Ok(())
    }
}
