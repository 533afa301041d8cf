//! All streams of one peer: our two to it, and the connections that serve its three to us.

use std::io;
use std::sync::Arc;

use crate::config::PeerLimits;
use crate::connection::CurrentConnection;
use crate::counters::PeerCounters;
use crate::outbound::Outbound;
use crate::peer_info::PeerInfo;
use crate::protocol::{PeerUrl, StreamClass, StreamKind};

/// The streams to and from one peer.
pub(crate) struct PeerStreams {
    pub(crate) info: PeerInfo,
    outbound: [Outbound; 2],
    inbound: [CurrentConnection; 2],
    inbound_snapshot: CurrentConnection,
}

impl PeerStreams {
    pub(crate) fn new(id: u64, counters: Arc<PeerCounters>, limits: &PeerLimits) -> io::Result<PeerStreams> {
        let [control, bulk] = StreamClass::ALL;
        Ok(PeerStreams {
            info: PeerInfo::new(id, counters),
            outbound: [Outbound::new(control, limits)?, Outbound::new(bulk, limits)?],
            inbound: Default::default(),
            inbound_snapshot: CurrentConnection::default(),
        })
    }

    pub(crate) fn outbound(&self, class: StreamClass) -> &Outbound {
        &self.outbound[class as usize]
    }

    pub(crate) fn inbound(&self, kind: StreamKind) -> &CurrentConnection {
        match kind {
            StreamKind::Messages(class) => &self.inbound[class as usize],
            StreamKind::Snapshot => &self.inbound_snapshot,
        }
    }

    /// Dials these URLs from now on; says whether the peer was not set before.
    pub(crate) fn set_urls(&self, urls: Vec<PeerUrl>) -> bool {
        let is_first = self.info.set_urls(urls);
        self.redial_now();
        is_first
    }

    /// Ends the delay of outgoing streams that wait between two dials.
    pub(crate) fn redial_now(&self) {
        self.outbound.iter().for_each(Outbound::redial_now);
    }

    /// Ends all streams, in and out, for good.
    pub(crate) fn stop(&self) {
        self.outbound.iter().for_each(Outbound::stop);
        self.inbound.iter().chain([&self.inbound_snapshot]).for_each(CurrentConnection::close);
    }
}
