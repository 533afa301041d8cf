//! Figures about each peer, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::StreamClass;

/// Figures about one peer. Numbers count from when it was set first, also over [`Peers::remove`](crate::Peers::remove).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStatistics {
    /// The peer.
    pub peer: u64,
    /// Bytes its message sockets took, headers and pings included; snapshots are not counted.
    pub sent_bytes: u64,
    /// Bytes of frames read from its message streams, headers included.
    pub received_bytes: u64,
    /// Frames that were dropped instead of sent or queued.
    pub send_failures: u64,
    /// Incoming connections that ended by an error other than being closed or replaced.
    pub receive_failures: u64,
    /// Times that our control stream to it was lost.
    pub disconnects: u64,
    /// When our control stream to it was established; none while it is down.
    pub control_since: Option<Instant>,
    /// When our bulk stream to it was established; none while it is down.
    pub bulk_since: Option<Instant>,
    /// The round trip of the last ping.
    pub round_trip: Option<Duration>,
}

/// What is counted of a peer. It outlives the peer's streams: one that is removed and set again goes on counting.
#[derive(Default)]
pub(crate) struct PeerCounters {
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) send_failures: AtomicU64,
    pub(crate) receive_failures: AtomicU64,
    pub(crate) disconnects: AtomicU64,
}

/// The state of a peer's outgoing streams.
#[derive(Default)]
pub(crate) struct CurrentFigures(Mutex<StreamFigures>);

#[derive(Default, Clone, Copy)]
struct StreamFigures {
    since: [Option<Instant>; 2],
    round_trip: Option<Duration>,
}

impl PeerCounters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    pub(crate) fn read(&self, peer: u64, current: &CurrentFigures) -> PeerStatistics {
        let current = *current.0.lock();
        PeerStatistics {
            peer,
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            send_failures: self.send_failures.load(Relaxed),
            receive_failures: self.receive_failures.load(Relaxed),
            disconnects: self.disconnects.load(Relaxed),
            control_since: current.since[StreamClass::Control as usize],
            bulk_since: current.since[StreamClass::Bulk as usize],
            round_trip: current.round_trip,
        }
    }
}

impl CurrentFigures {
    pub(crate) fn set_since(&self, class: StreamClass, since: Option<Instant>) {
        self.0.lock().since[class as usize] = since;
    }

    pub(crate) fn set_round_trip(&self, time: Duration) {
        self.0.lock().round_trip = Some(time);
    }
}
