//! Configuration: identity, limits and timeouts, with working defaults.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::owner::PeerTls;
use crate::protocol::{PeerIdentity, StreamClass};

/// The configuration of [`crate::Peers::start`].
#[derive(Debug, Clone)]
pub struct PeersConfig {
    /// Presented in handshakes.
    pub local: PeerIdentity,
    /// Bounds on memory and connections.
    pub limits: PeerLimits,
    /// How long each wait may take.
    pub timeouts: Timeouts,
    /// How connections to `https` URLs are encrypted; without it they cannot be dialled.
    pub tls: Option<Arc<dyn PeerTls>>,
    /// The address of this machine that connections come from; without it the system chooses. Peers of the other family
    /// of addresses, and those at Unix sockets, are dialled as without it.
    pub local_address: Option<IpAddr>,
}

impl PeersConfig {
    /// The defaults for a member of this identity, without TLS.
    pub fn new(local: PeerIdentity) -> PeersConfig {
        PeersConfig {
            local,
            limits: PeerLimits::default(),
            timeouts: Timeouts::default(),
            tls: None,
            local_address: None,
        }
    }
}

/// Bounds on memory and connections.
#[derive(Debug, Clone)]
pub struct PeerLimits {
    /// The longest body of a frame that is sent or accepted. Must be equal on all members.
    pub max_frame_bytes: u32,
    /// Bytes that may wait for the control socket of one peer.
    pub control_queue_bytes: usize,
    /// Bytes that may wait for the bulk socket of one peer.
    pub bulk_queue_bytes: usize,
    /// Incoming connections (each is a thread), handshakes in progress included.
    pub max_inbound_connections: usize,
}

/// The longest body of a frame, unless configured otherwise: twice the largest request that an operator may allow
/// (`--max-request-bytes`), many times the megabyte at which batches are closed.
pub const MAX_FRAME_BYTES: u32 = 64 << 20;
/// Control frames are tens of bytes: a queue of a megabyte holds thousands of heartbeats.
const CONTROL_QUEUE_BYTES: usize = 1 << 20;
/// The appends in flight to one peer; consensus limits itself to a part of it.
const BULK_QUEUE_BYTES: usize = 64 << 20;
/// Seven members need eighteen; the rest is for connections that are being replaced.
const MAX_INBOUND_CONNECTIONS: usize = 256;

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits {
            max_frame_bytes: MAX_FRAME_BYTES,
            control_queue_bytes: CONTROL_QUEUE_BYTES,
            bulk_queue_bytes: BULK_QUEUE_BYTES,
            max_inbound_connections: MAX_INBOUND_CONNECTIONS,
        }
    }
}

impl PeerLimits {
    pub(crate) fn queue_bytes(&self, class: StreamClass) -> usize {
        match class {
            StreamClass::Control => self.control_queue_bytes,
            StreamClass::Bulk => self.bulk_queue_bytes,
        }
    }
}

/// How long each wait may take.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// For TCP to connect to one address.
    pub dial: Duration,
    /// For a whole handshake, on both sides.
    pub handshake: Duration,
    /// Added to the dialler's wait for an answer to its hello over TLS: an acceptor may first ask its resolver whether
    /// the certificate is for the dialler's address.
    pub address_check: Duration,
    /// A socket that takes no byte of a waiting frame for this long is dead, and so is one whose data the
    /// peer's kernel does not acknowledge.
    pub stall: Duration,
    /// From one ping on the control stream to the next.
    pub ping_interval: Duration,
    /// A control stream whose ping is not answered for this long is dead.
    pub pong: Duration,
    /// The delay before the first redial; it doubles with each failure.
    pub min_redial: Duration,
    /// The longest delay between two dials of a peer that does not answer.
    pub max_redial: Duration,
    /// The delay after a refusal, which seldom changes by itself.
    pub refused: Duration,
    /// A snapshot fails when its receiver neither reads nor answers for this long.
    pub snapshot: Duration,
}

/// A loopback or data-centre connect takes a millisecond; a lost SYN is sent again after one second.
const DIAL: Duration = Duration::from_millis(1500);
const HANDSHAKE: Duration = Duration::from_secs(2);
/// What a usual resolver needs to give up a name.
const ADDRESS_CHECK: Duration = Duration::from_secs(10);
/// Longer than any pause of a healthy member, shorter than what an operator would wait for.
const STALL: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Five election timeouts: by then the cluster has elected another leader.
const PONG: Duration = Duration::from_secs(5);
/// A restarted peer should receive a heartbeat well within one heartbeat interval (100 ms).
const MIN_REDIAL: Duration = Duration::from_millis(10);
/// A quarter of the shortest usual election timeout; four dials a second cost nothing.
const MAX_REDIAL: Duration = Duration::from_millis(250);
const REFUSED: Duration = Duration::from_secs(1);
/// Includes a slow disk's sync of what was received.
const SNAPSHOT: Duration = Duration::from_secs(60);

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            dial: DIAL,
            handshake: HANDSHAKE,
            address_check: ADDRESS_CHECK,
            stall: STALL,
            ping_interval: PING_INTERVAL,
            pong: PONG,
            min_redial: MIN_REDIAL,
            max_redial: MAX_REDIAL,
            refused: REFUSED,
            snapshot: SNAPSHOT,
        }
    }
}
