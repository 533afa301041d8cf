//! Leases at the destination: each has the id of the source's, and does not expire before it.
//!
//! The source decides how long a lease lives. When it ends there, its keys are deleted there, and that is copied as
//! any change is; the destination's own clock must not be earlier. So a lease is renewed at the destination when the
//! source was seen to renew it, and when it is about to expire although the source still has it.
//!
//! ```text
//! remaining at the source         20  13   6 20  13   6 20  |          its holder renews it at 6
//! remaining at the destination    20  13 7 20  13 7  20  13 |  ...     renewed once the source has more
//! ```
//!
//! A lease is granted for its whole time to live if at least half of that is left: its holder renews it. With less left
//! no client seems to renew it (Kubernetes' events), and it is granted for what is left.
//!
//! A source may have many leases of a short time: it is asked for many of them at once, and all are renewed on one
//! stream.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use api::{etcdserverpb as pb, methods};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::board::FollowBoard;
use super::calls::{CALL_TIMEOUT, PatientClient};
use crate::client::CallError;
use crate::client::keep_alive::LeaseRenewals;

/// Time between two looks at the leases that are due.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Time between two lists of the source's leases, which find those without keys.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// A lease that is about to expire is renewed so long before. Clocks of both sides count in whole seconds.
const MARGIN: Duration = Duration::from_secs(2);

/// Leases that are known to be gone; more are asked for again.
const MAX_GONE: usize = 100_000;

/// Calls about leases that are under way at once: enough for 3,000 leases a second over 20 ms, and few beside what a
/// cluster serves.
const MAX_CALLS: usize = 64;

/// Leases that are examined, then renewed together: few enough that the first is renewed before it ends.
const MAX_LEASES_TOGETHER: usize = 256;

/// A lease at the destination.
struct CopiedLease {
    /// Its whole time to live there.
    ttl: Duration,
    /// When it expires there, if it is not renewed.
    until: Instant,
    /// When to look at it again.
    due: Instant,
    /// The source does not have it at this revision.
    gone_at: Option<i64>,
}

impl CopiedLease {
    fn new(ttl: Duration, left: Duration) -> Self {
        let now = Instant::now();
        let mut lease = Self { ttl, until: now + left, due: now, gone_at: None };
        lease.plan(now);
        lease
    }

    /// Whether to renew it, when the source's has so much time left.
    fn wants_renewal(&self, now: Instant, at_source: Duration) -> bool {
        let left = self.until.saturating_duration_since(now);
        left <= MARGIN || at_source > left + MARGIN
    }

    /// Decides when to look at it again: three times in its life, and before it ends.
    fn plan(&mut self, now: Instant) {
        let left = self.until.saturating_duration_since(now);
        let soon = (self.ttl / 3).min(left.saturating_sub(MARGIN));
        self.due = now + soon.max(LOOK_INTERVAL);
    }
}

/// The leases of one copy.
pub(super) struct LeaseCopies {
    source: Rc<PatientClient>,
    destination: Rc<PatientClient>,
    board: Rc<FollowBoard>,
    leases: RefCell<BTreeMap<i64, CopiedLease>>,
    /// The revision at which the source did not have them. Clients may choose ids, so a later one may be granted again.
    gone: RefCell<BTreeMap<i64, i64>>,
    /// Whether a lease expired at the destination that the source still had.
    lost: Cell<bool>,
}

impl LeaseCopies {
    pub(super) fn new(
        source: Rc<PatientClient>,
        destination: Rc<PatientClient>,
        board: Rc<FollowBoard>,
    ) -> Self {
        let (leases, gone, lost) = Default::default();
        Self { source, destination, board, leases, gone, lost }
    }

    /// The lease to attach at the destination to a key that has this one at the source at a revision: none, if the
    /// source no longer has it. Then it has deleted the key meanwhile, and that will be copied.
    ///
    /// # Errors
    ///
    /// A side refused.
    pub(super) async fn copy(&self, lease: i64, revision: i64) -> Result<i64, CallError> {
        if lease == 0 || self.gone.borrow().get(&lease).is_some_and(|gone_at| revision <= *gone_at) {
            return Ok(0);
        }
        if self.leases.borrow().contains_key(&lease) {
            return Ok(lease);
        }
        let at_source = time_to_live(&self.source, lease).await?;
        if at_source.ttl < 0 {
            self.note_gone(lease, at_source.header.map_or(0, |header| header.revision));
            return Ok(0);
        }
        let ttl = ttl_to_grant(at_source.granted_ttl, at_source.ttl);
        let request = pb::LeaseGrantRequest { ttl, id: lease };
        let granted: Result<pb::LeaseGrantResponse, _> =
            self.destination.call(methods::LEASE_GRANT, &request).await;
        let copied = match granted {
            Ok(granted) => CopiedLease::new(seconds(granted.ttl), seconds(granted.ttl)),
            Err(error) if error.says("etcdserver: lease already exists") => {
                let known = time_to_live(&self.destination, lease).await?;
                CopiedLease::new(seconds(known.granted_ttl), seconds(known.ttl))
            }
            Err(error) => return Err(error),
        };
        self.leases.borrow_mut().insert(lease, copied);
        Ok(lease)
    }

    /// Forgets a lease that the destination does not have: it is granted again when it is needed.
    pub(super) fn forget(&self, lease: i64) {
        self.leases.borrow_mut().remove(&lease);
    }

    /// Whether keys were lost at the destination because a lease expired there first. Asked, it is forgotten.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.take()
    }

    /// Copies all leases that the source has, those without keys too.
    ///
    /// # Errors
    ///
    /// A side refused.
    pub(super) async fn copy_all(&self) -> Result<(), CallError> {
        let leases: pb::LeaseLeasesResponse =
            self.source.call(methods::LEASE_LEASES, &pb::LeaseLeasesRequest {}).await?;
        let revision = leases.header.map_or(0, |header| header.revision);
        let copies =
            leases.leases.into_iter().map(|lease| async move { self.copy(lease.id, revision).await });
        stream::iter(copies).buffer_unordered(MAX_CALLS).try_for_each(async |_| Ok(())).await
    }

    /// Copies new leases and renews those that are due, until an error.
    ///
    /// # Errors
    ///
    /// A side refused.
    pub(super) async fn keep(&self) -> Result<std::convert::Infallible, CallError> {
        // A long list must not delay a renewal.
        tokio::select! {
            end = self.copy_new() => end,
            end = self.renew_due() => end,
        }
    }

    async fn copy_new(&self) -> Result<std::convert::Infallible, CallError> {
        loop {
            self.copy_all().await?;
            tokio::time::sleep(LIST_INTERVAL).await;
        }
    }

    async fn renew_due(&self) -> Result<std::convert::Infallible, CallError> {
        let mut renewals = LeaseRenewals::default();
        loop {
            let now = Instant::now();
            let mut due: Vec<(Instant, i64)> = {
                let leases = self.leases.borrow();
                leases
                    .iter()
                    .filter(|(_, lease)| lease.due <= now)
                    .map(|(id, lease)| (lease.until, *id))
                    .collect()
            };
            // First those that end first.
            due.sort_unstable();
            for together in due.chunks(MAX_LEASES_TOGETHER) {
                let ending = self.examine(together).await?;
                self.renew(&mut renewals, &ending).await?;
                let now = Instant::now();
                let mut leases = self.leases.borrow_mut();
                for (_, id) in together {
                    if let Some(lease) = leases.get_mut(id) {
                        lease.plan(now);
                    }
                }
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Asks the source how long these leases have left. Returns those to renew.
    async fn examine(&self, leases: &[(Instant, i64)]) -> Result<Vec<i64>, CallError> {
        let answers = leases
            .iter()
            .map(|(_, id)| async move { time_to_live(&self.source, *id).await.map(|answer| (*id, answer)) });
        let answers: Vec<_> = stream::iter(answers).buffer_unordered(MAX_CALLS).try_collect().await?;
        let now = Instant::now();
        Ok(answers
            .iter()
            .filter(|(id, at_source)| self.wants_renewal(*id, at_source, now))
            .map(|(id, _)| *id)
            .collect())
    }

    /// Whether to renew a lease, of which the source has said how long it has left.
    fn wants_renewal(&self, id: i64, at_source: &pb::LeaseTimeToLiveResponse, now: Instant) -> bool {
        let revision = at_source.header.as_ref().map_or(0, |header| header.revision);
        let mut leases = self.leases.borrow_mut();
        let Some(lease) = leases.get_mut(&id) else { return false };
        match at_source.ttl {
            0.. => lease.gone_at = None,
            _ => _ = lease.gone_at.get_or_insert(revision),
        }
        match lease.gone_at {
            // Its keys are deleted here too. What is left of it expires by itself: no key may have it by mistake.
            Some(gone_at) if gone_at <= self.board.figures().applied => {
                leases.remove(&id);
                self.note_gone(id, gone_at);
                false
            }
            Some(_) => lease.wants_renewal(now, Duration::ZERO),
            None => lease.wants_renewal(now, seconds(at_source.ttl)),
        }
    }

    /// Renews leases at the destination, until that succeeds.
    async fn renew(&self, renewals: &mut LeaseRenewals, ending: &[i64]) -> Result<(), CallError> {
        if ending.is_empty() {
            return Ok(());
        }
        let mut failures = 0;
        let (asked, answers) = loop {
            let asked = Instant::now();
            match renewals.renew(&self.destination.client, ending, asked + CALL_TIMEOUT).await {
                Ok(answers) => break (asked, answers),
                Err(error) if error.is_passing() => self.destination.wait(&error, &mut failures).await,
                Err(error) => return Err(error),
            }
        };
        for (id, answer) in ending.iter().zip(answers) {
            match self.leases.borrow_mut().get_mut(id) {
                Some(lease) if answer.ttl > 0 => lease.until = asked + seconds(answer.ttl),
                // Forgotten meanwhile: it is granted again.
                None => continue,
                Some(_) => self.lost.set(true),
            }
            if answer.ttl <= 0 {
                self.forget(*id);
            }
        }
        Ok(())
    }

    fn note_gone(&self, lease: i64, revision: i64) {
        let mut gone = self.gone.borrow_mut();
        if gone.len() >= MAX_GONE {
            gone.clear();
        }
        gone.insert(lease, revision);
    }
}

async fn time_to_live(side: &PatientClient, id: i64) -> Result<pb::LeaseTimeToLiveResponse, CallError> {
    let request = pb::LeaseTimeToLiveRequest { id, keys: false };
    side.call(methods::LEASE_TIME_TO_LIVE, &request).await
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The time to live to grant for a lease with this one, of which so much is left, in seconds.
fn ttl_to_grant(whole: i64, left: i64) -> i64 {
    if left >= whole - left { whole } else { left.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_renewed_keeps_its_time_and_another_what_is_left() {
        assert_eq!(ttl_to_grant(60, 60), 60);
        assert_eq!(ttl_to_grant(60, 40), 60);
        assert_eq!(ttl_to_grant(60, 30), 60);
        assert_eq!(ttl_to_grant(3600, 1200), 1200);
        assert_eq!(ttl_to_grant(3600, 0), 1);
    }

    #[test]
    fn a_lease_is_renewed_after_the_source_renewed_it_or_before_it_ends() {
        let now = Instant::now();
        let lease = |left| CopiedLease::new(seconds(60), seconds(left));
        assert!(!lease(40).wants_renewal(now, seconds(40)), "the source has not renewed it");
        assert!(!lease(40).wants_renewal(now, seconds(41)), "whole seconds are not exact");
        assert!(lease(40).wants_renewal(now, seconds(60)), "the source has renewed it");
        assert!(lease(1).wants_renewal(now, seconds(1)), "the source's lives a little longer");
    }

    #[test]
    fn a_lease_is_looked_at_before_it_ends() {
        let lease = CopiedLease::new(seconds(60), seconds(60));
        assert_eq!(lease.until - lease.due, seconds(40));
        let lease = CopiedLease::new(seconds(60), seconds(10));
        assert_eq!(lease.until - lease.due, MARGIN);
        let lease = CopiedLease::new(seconds(60), seconds(1));
        assert_eq!(lease.until - lease.due, seconds(1) - LOOK_INTERVAL);
    }
}
