//! How many connections of a kind may be open at a time.
//!
//! A connection beyond the cap is closed as soon as it was accepted: its client tries another member, or this one a
//! little later. Left in the backlog it would wait without knowing for what. The first one that is refused is logged,
//! and from then on one line a minute says how many there were.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::IntCounter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::logging::RepeatedFailures;

/// Counts a connection until it is dropped.
pub(crate) type ConnectionPermit = OwnedSemaphorePermit;

/// The cap on the connections of one kind. Clones share it.
#[derive(Clone)]
pub(crate) struct ConnectionCap {
    permits: Arc<Semaphore>,
    max: usize,
    /// Whose connections these are, for the log.
    kind: &'static str,
    refused: IntCounter,
    failures: Arc<Mutex<RepeatedFailures>>,
}

impl ConnectionCap {
    /// At most `max` connections of `kind`; `refused` counts those beyond.
    pub(crate) fn new(kind: &'static str, max: usize, refused: IntCounter) -> ConnectionCap {
        let permits = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        ConnectionCap { permits, max, kind, refused, failures: Arc::default() }
    }

    /// A permit for a connection that was accepted, or `None` if it is one too many.
    pub(crate) fn admit(&self) -> Option<ConnectionPermit> {
        // The semaphore is never closed.
        let permit = self.permits.clone().try_acquire_owned().ok();
        if permit.is_none() {
            self.refused.inc();
            if let Some(count) = self.failures.lock().due("refused", Instant::now()) {
                let (kind, max) = (self.kind, self.max);
                tracing::warn!(kind, max, count, "refused connections: too many are open");
            }
        }
        permit
    }

    /// Accepting a connection failed.
    pub(crate) fn accept_failed(&self, error: &std::io::Error) {
        if let Some(count) = self.failures.lock().due(&error.to_string(), Instant::now()) {
            tracing::warn!(kind = self.kind, count, %error, "cannot accept a connection");
        }
    }
}

#[cfg(test)]
mod tests {
    //! The one too many is refused and counted, and a closed one makes room.
    use super::*;

    #[test]
    fn a_connection_beyond_the_cap_is_refused_until_another_one_ends() {
        let refused = IntCounter::new("refused", "those beyond").expect("a good name");
        let cap = ConnectionCap::new("test", 2, refused.clone());
        let first = cap.admit().expect("the first of two");
        let _second = cap.clone().admit().expect("the second of two");
        assert!(cap.admit().is_none());
        assert_eq!(refused.get(), 1);
        drop(first);
        assert!(cap.admit().is_some());
        assert_eq!(refused.get(), 1);
    }
}
