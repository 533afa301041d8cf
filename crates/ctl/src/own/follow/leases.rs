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

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use api::{etcdserverpb as pb, methods};
use tokio::time::Instant;

use super::board::FollowBoard;
use super::calls::PatientClient;
use crate::client::CallError;
use crate::client::keep_alive::once;

/// Time between two looks at the leases that are due.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Time between two lists of the source's leases, which find those without keys.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// A lease that is about to expire is renewed so long before. Clocks of both sides count in whole seconds.
const MARGIN: Duration = Duration::from_secs(2);

/// Leases that are known to be gone; more are asked for again.
const MAX_GONE: usize = 100_000;

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
        for lease in leases.leases {
            self.copy(lease.id, revision).await?;
        }
        Ok(())
    }

    /// Looks after the leases, for ever.
    ///
    /// # Errors
    ///
    /// A side refused.
    pub(super) async fn look_after(&self) -> Result<std::convert::Infallible, CallError> {
        let mut listed: Option<Instant> = None;
        loop {
            if listed.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
                listed = Some(Instant::now());
                self.copy_all().await?;
            }
            let now = Instant::now();
            let due: Vec<i64> = {
                let leases = self.leases.borrow();
                leases.iter().filter(|(_, lease)| lease.due <= now).map(|(id, _)| *id).collect()
            };
            for lease in due {
                self.look_at(lease).await?;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn look_at(&self, id: i64) -> Result<(), CallError> {
        let at_source = time_to_live(&self.source, id).await?;
        let revision = at_source.header.map_or(0, |header| header.revision);
        let now = Instant::now();
        let wants_renewal = {
            let mut leases = self.leases.borrow_mut();
            let Some(lease) = leases.get_mut(&id) else { return Ok(()) };
            match at_source.ttl {
                0.. => lease.gone_at = None,
                _ => _ = lease.gone_at.get_or_insert(revision),
            }
            match lease.gone_at {
                // Its keys are deleted here too. What is left of it expires by itself: no key may have it by mistake.
                Some(gone_at) if gone_at <= self.board.figures().applied => {
                    leases.remove(&id);
                    self.note_gone(id, gone_at);
                    return Ok(());
                }
                Some(_) => lease.wants_renewal(now, Duration::ZERO),
                None => lease.wants_renewal(now, seconds(at_source.ttl)),
            }
        };
        if wants_renewal {
            self.renew(id).await?;
        }
        if let Some(lease) = self.leases.borrow_mut().get_mut(&id) {
            lease.plan(Instant::now());
        }
        Ok(())
    }

    async fn renew(&self, id: i64) -> Result<(), CallError> {
        let asked = Instant::now();
        match once(&self.destination.client, id).await {
            Ok(answer) => {
                if let Some(lease) = self.leases.borrow_mut().get_mut(&id) {
                    lease.until = asked + seconds(answer.ttl);
                }
                Ok(())
            }
            Err(error) if error.says("etcdserver: requested lease not found") => {
                self.forget(id);
                self.lost.set(true);
                Ok(())
            }
            Err(error) => Err(error),
        }
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
