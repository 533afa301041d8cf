//! How many connections of a kind may be open at a time.
//!
//! A connection beyond the cap is closed as soon as it was accepted: its client tries another member, or this one a
//! little later. Left in the backlog it would wait without knowing for what. The first one that is refused is logged,
//! and from then on one line a minute says how many there were.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::descriptors::DescriptorShares;
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

/// TLS handshakes at a time, of all listeners of a kind: some 20 MiB of buffers, and a second or so of work on one
/// core.
const MAX_HANDSHAKES: usize = 1024;

/// What the listeners of one kind may have open, all together.
#[derive(Clone)]
pub(crate) struct PortCaps {
    pub(crate) connections: ConnectionCap,
    /// Handshakes have a cap of their own for each kind: those of clients keep no member out.
    pub(crate) handshakes: ConnectionCap,
}

/// The caps of all kinds of listeners.
pub(crate) struct ConnectionCaps {
    pub(crate) clients: PortCaps,
    /// Readers of metrics.
    pub(crate) observers: PortCaps,
    /// The peer URLs, until their connections are streams of a member, or HTTP.
    pub(crate) peers: PortCaps,
    /// HTTP on the peer URLs.
    pub(crate) peer_http: ConnectionCap,
}

impl ConnectionCaps {
    /// The caps that follow from the descriptors; `refused` counts by kind.
    pub(crate) fn new(shares: DescriptorShares, refused: &IntCounterVec) -> ConnectionCaps {
        let cap = |kind, max| ConnectionCap::new(kind, max, refused.with_label_values(&[kind]));
        let ports = |connections: &ConnectionCap, kind| PortCaps {
            connections: connections.clone(),
            handshakes: cap(kind, MAX_HANDSHAKES),
        };
        let (clients, peers) = (cap("client", shares.clients), cap("peer", shares.peers));
        let observers = cap("observer", shares.observers);
        let peer_http = cap("peer_http", shares.peer_http);
        ConnectionCaps {
            clients: ports(&clients, "client_handshake"),
            observers: ports(&observers, "observer_handshake"),
            peers: ports(&peers, "peer_handshake"),
            peer_http,
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

    const SHARES: DescriptorShares =
        DescriptorShares { limit: 100, value_files: 1, clients: 1, peers: 1, peer_http: 1, observers: 1 };

    #[test]
    fn handshakes_of_clients_keep_no_member_and_no_observer_out() {
        let refused = IntCounterVec::new(prometheus::Opts::new("refused", "those beyond"), &["kind"]);
        let caps = ConnectionCaps::new(SHARES, &refused.expect("a good name"));
        let _held: Vec<_> = (0..MAX_HANDSHAKES).map(|_| caps.clients.handshakes.admit()).collect();
        assert!(caps.clients.handshakes.admit().is_none());
        assert!(caps.observers.handshakes.admit().is_some());
        assert!(caps.peers.handshakes.admit().is_some());
    }

    #[test]
    fn silent_connections_of_clients_and_observers_keep_no_member_out() {
        let refused = IntCounterVec::new(prometheus::Opts::new("refused", "those beyond"), &["kind"]);
        let caps = ConnectionCaps::new(SHARES, &refused.expect("a good name"));
        let _held = [&caps.clients, &caps.observers].map(|ports| ports.connections.admit());
        assert!(caps.observers.connections.admit().is_none(), "as many as they may have");
        assert!(caps.peers.connections.admit().is_some());
    }
}
