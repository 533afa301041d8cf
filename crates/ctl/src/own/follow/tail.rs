//! Follows the changes of the source: each revision becomes a transaction.

use std::collections::VecDeque;
use std::time::Duration;

use api::{etcdserverpb as pb, mvccpb};
use prost::Message;

use super::Follower;
use super::board::FollowPhase;
use super::calls::FollowHalt;
use super::changes::{delete, put, steps_of_revision};
use super::state::FollowPosition;
use super::writer::FollowStep;
use crate::client::watches::{Delivery, Watches, revision_of};
use crate::exit::{Exit, code};
use crate::own::pages::under;

/// Time after which the source is asked how far the watch has come, while not everything is here: at first, and at the
/// most. A watch that is being made is begun again by it, so it must not stay short.
const FIRST_PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
const MAX_PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Responses of the watch, and bytes of them, that are written together.
const MAX_DELIVERIES: usize = 64;
const MAX_DELIVERED_BYTES: usize = 4 << 20;

/// Revisions without changes that are filled together, where revisions are kept.
const MAX_FILL_STEPS: i64 = 1024;

impl Follower {
    /// Follows until the destination has caught up, if that is requested, else forever.
    pub(super) async fn follow_changes(&mut self, from: i64) -> Result<(), FollowHalt> {
        let (key, range_end) = under(&self.wish.prefix);
        self.board.applied(from);
        self.board.update(|figures| figures.phase = FollowPhase::Following);
        let source = self.source.client.clone();
        let mut watches = Watches::new(&source);
        let request = pb::WatchCreateRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            start_revision: from + 1,
            progress_notify: true,
            fragment: true,
            ..Default::default()
        };
        watches.create(request);
        let (_, target) = self.source.count((key, range_end)).await?;
        let mut interval = FIRST_PROGRESS_INTERVAL;
        let mut is_behind = true;
        loop {
            if is_behind && self.board.figures().applied >= target {
                is_behind = false;
                interval = MAX_PROGRESS_INTERVAL;
                if self.caught_up().await? {
                    return Ok(());
                }
            }
            if self.leases.take_lost() {
                return Err(self.lease_lost());
            }
            match tokio::time::timeout(interval, watches.next()).await {
                Ok(delivery) => {
                    let deliveries = rest_of(&mut watches, delivery?).await?;
                    self.take_deliveries(deliveries).await?;
                }
                Err(_) if is_behind => {
                    watches.ask_for_progress();
                    interval = (interval * 2).min(MAX_PROGRESS_INTERVAL);
                }
                Err(_) => {}
            }
        }
    }

    /// Says so, and compares both sides if that is requested. Returns whether the command ends.
    async fn caught_up(&mut self) -> Result<bool, FollowHalt> {
        let applied = self.board.figures().applied;
        self.board.note(format!("caught up with revision {applied} of the source"));
        self.store_position(applied).await?;
        self.leases.copy_all().await?;
        if self.wish.verifies {
            self.verify(applied).await?;
            self.board.update(|figures| figures.phase = FollowPhase::Following);
        }
        if self.wish.until_caught_up {
            return Ok(true);
        }
        self.board.note(
            "to switch: stop the writers of the source, run the same command with --until-caught-up --verify \
             --finish, and point the clients to the destination if its exit code is 0",
        );
        Ok(false)
    }

    /// Stores how far the copy has come, where that was no change that is copied.
    async fn store_position(&mut self, applied: i64) -> Result<(), FollowHalt> {
        let position = FollowPosition::Copied { revision: applied };
        if *self.writer.position() == position || self.wish.keeps_revisions {
            return Ok(());
        }
        self.writer.write(vec![FollowStep { operations: Vec::new(), position }]).await
    }

    fn lease_lost(&self) -> FollowHalt {
        if self.wish.keeps_revisions {
            let why = "a lease expired in the destination before it could be renewed, which made a revision there: \
                       begin again with a new cluster";
            return Exit::new(code::ERROR, why).into();
        }
        self.board
            .note("a lease expired in the destination before it could be renewed: its keys are copied again");
        FollowHalt::Compacted(0)
    }

    /// Writes what the watch delivered.
    async fn take_deliveries(&mut self, deliveries: VecDeque<Delivery>) -> Result<(), FollowHalt> {
        let mut steps = Vec::new();
        let mut seen = 0;
        let mut end = None;
        for delivery in deliveries {
            match delivery {
                Delivery::Response(_, response) => {
                    let reached = match response.events.last() {
                        Some(last) => revision_of(last),
                        // Its revision is still incomplete.
                        None if response.fragment => seen,
                        None => response.header.map_or(0, |header| header.revision),
                    };
                    seen = seen.max(reached);
                    let revisions =
                        response.events.chunk_by(|left, right| revision_of(left) == revision_of(right));
                    for events in revisions {
                        self.add_revision(&mut steps, events).await?;
                    }
                }
                Delivery::Ended(response) => end = Some(ended(response)),
            }
        }
        if self.wish.keeps_revisions {
            self.fill_revisions(&mut steps, seen).await?;
        }
        self.writer.write(steps).await?;
        self.board.applied(seen);
        end.map_or(Ok(()), Err)
    }

    /// Adds the step of one revision.
    async fn add_revision(
        &mut self,
        steps: &mut Vec<FollowStep>,
        events: &[mvccpb::Event],
    ) -> Result<(), FollowHalt> {
        let Some(revision) = events.first().map(revision_of) else { return Ok(()) };
        let mut operations = Vec::with_capacity(events.len());
        for kv in events.iter().filter_map(|event| event.kv.as_ref().map(|kv| (event.r#type, kv))) {
            match kv {
                (_, kv) if kv.key == self.wish.state_key => {}
                (0, kv) => operations.push(put(kv.clone(), self.leases.copy(kv.lease, revision).await?)),
                (_, kv) => operations.push(delete(kv.key.clone())),
            }
        }
        if self.wish.keeps_revisions {
            self.fill_revisions(steps, revision - 1).await?;
        } else if operations.is_empty() {
            return Ok(());
        }
        let count = operations.len();
        let more = steps_of_revision(operations, revision, self.wish.max_operations);
        if more.len() > 1 {
            self.say_split(revision, count, more.len())?;
        }
        steps.extend(more);
        Ok(())
    }

    /// Says that a revision becomes several transactions, or refuses that.
    pub(super) fn say_split(&self, revision: i64, changes: usize, steps: usize) -> Result<(), FollowHalt> {
        let limit = self.wish.max_operations;
        if self.wish.keeps_revisions {
            let why = format!(
                "revision {revision} has {changes} changes, more than the {limit} that fit into a transaction beside \
                 the state key: start the destination with a larger --max-txn-ops and say so with the same flag here"
            );
            return Err(Exit::new(code::ERROR, why).into());
        }
        self.board.note(format!(
            "revision {revision} has {changes} changes, more than the {limit} that fit into a transaction beside the \
             state key: they became {steps} transactions (see --max-txn-ops)"
        ));
        Ok(())
    }

    /// Adds steps without changes, so that the next one gets its own revision.
    async fn fill_revisions(&mut self, steps: &mut Vec<FollowStep>, to: i64) -> Result<(), FollowHalt> {
        let position = steps.last().map_or(self.writer.position(), |step| &step.position);
        let (FollowPosition::Copied { revision } | FollowPosition::Copying { revision, .. }) = *position;
        let mut from = revision;
        while from < to {
            let until = to.min(from + MAX_FILL_STEPS);
            let position = |revision| FollowPosition::Copied { revision };
            let fill = |revision| FollowStep { operations: Vec::new(), position: position(revision) };
            steps.extend((from + 1..=until).map(fill));
            if until < to {
                self.writer.write(std::mem::take(steps)).await?;
            }
            from = until;
        }
        Ok(())
    }
}

/// What the watch has delivered meanwhile.
async fn rest_of(watches: &mut Watches<'_>, first: Delivery) -> Result<VecDeque<Delivery>, FollowHalt> {
    let bytes = |delivery: &Delivery| match delivery {
        Delivery::Response(_, response) => response.encoded_len(),
        Delivery::Ended(_) => 0,
    };
    let mut taken = bytes(&first);
    let mut is_over = matches!(first, Delivery::Ended(_));
    let mut deliveries = VecDeque::from([first]);
    while !is_over && deliveries.len() < MAX_DELIVERIES && taken < MAX_DELIVERED_BYTES {
        let Ok(next) = tokio::time::timeout(Duration::ZERO, watches.next()).await else { break };
        let next = next?;
        taken += bytes(&next);
        is_over = matches!(next, Delivery::Ended(_));
        deliveries.push_back(next);
    }
    Ok(deliveries)
}

/// Why a watch ended.
fn ended(response: Option<pb::WatchResponse>) -> FollowHalt {
    match response {
        Some(response) if response.compact_revision != 0 => FollowHalt::Compacted(response.compact_revision),
        Some(response) => {
            Exit::new(code::ERROR, format!("the source ended the watch: {}", response.cancel_reason)).into()
        }
        None => Exit::new(code::ERROR, "the source ended the watch").into(),
    }
}
