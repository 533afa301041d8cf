//! Figures about each peer, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::StreamClass;

/// Figures about one peer since it was set.
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
    /// When our control stream to it was established; none while it is down.
    pub control_since: Option<Instant>,
    /// When our bulk stream to it was established; none while it is down.
    pub bulk_since: Option<Instant>,
    /// The round trip of the last ping.
    pub round_trip: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct PeerCounters {
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) send_failures: AtomicU64,
    pub(crate) receive_failures: AtomicU64,
    current: Mutex<CurrentFigures>,
}

#[derive(Default, Clone, Copy)]
struct CurrentFigures {
    since: [Option<Instant>; 2],
    round_trip: Option<Duration>,
}

impl PeerCounters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    pub(crate) fn set_since(&self, class: StreamClass, since: Option<Instant>) {
        self.current.lock().since[class as usize] = since;
    }

    pub(crate) fn set_round_trip(&self, time: Duration) {
        self.current.lock().round_trip = Some(time);
    }

    pub(crate) fn read(&self, peer: u64) -> PeerStatistics {
        let current = *self.current.lock();
        PeerStatistics {
            peer,
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            send_failures: self.send_failures.load(Relaxed),
            receive_failures: self.receive_failures.load(Relaxed),
            control_since: current.since[StreamClass::Control as usize],
            bulk_since: current.since[StreamClass::Bulk as usize],
            round_trip: current.round_trip,
        }
    }
}
