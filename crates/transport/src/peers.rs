//! [`Peers`]: what the owner of the streams calls.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::PeersConfig;
use crate::context::StreamContext;
use crate::counters::PeerStatistics;
use crate::error::Error;
use crate::inbound::Acceptor;
use crate::outbound::{DropReason, SendOutcome};
use crate::owner::{AcceptedConnection, Admission, FrameSink, SnapshotSink};
use crate::peer::PeerStreams;
use crate::peer_info::PeerInfo;
use crate::protocol::{PeerUrl, StreamClass};
use crate::registry::PeerRegistry;
use crate::snapshot::SnapshotSender;

/// The streams to and from all peers. Dropping it ends them; calls of the sink that have begun may still run.
pub struct Peers {
    context: Arc<StreamContext>,
    registry: Arc<PeerRegistry>,
    acceptor: Acceptor,
}

impl Peers {
    /// Starts without peers. `admission` decides on peers; frames, events and snapshots go to `sink` and `snapshots`.
    pub fn start(
        config: PeersConfig,
        admission: Arc<dyn Admission>,
        sink: Arc<dyn FrameSink>,
        snapshots: Arc<dyn SnapshotSink>,
    ) -> Peers {
        let registry = Arc::new(PeerRegistry::new(config.limits.clone()));
        let context = Arc::new(StreamContext::new(config, admission, sink, snapshots));
        let acceptor = Acceptor::new(context.clone(), registry.clone());
        Peers { context, registry, acceptor }
    }

    /// Takes a connection that begins with [`crate::PREFACE`], which must not have been read. Does not block. The error
    /// is for the log: the connection is closed then.
    pub fn accept(&self, connection: AcceptedConnection) -> Result<(), Error> {
        self.acceptor.accept(connection)
    }

    /// Keeps streams to this peer, at any of these URLs, `http://host:port` or `https://host:port`. When the URLs change, established streams
    /// are kept, and the next dial uses the new URLs. Does not block.
    pub fn set(&self, peer: u64, urls: &[String]) -> Result<(), Error> {
        let urls: Vec<PeerUrl> = urls.iter().map(|url| PeerUrl::parse(url)).collect::<Result<_, _>>()?;
        let peer = self.registry.get_or_insert(peer)?;
        if peer.set_urls(urls) {
            for class in StreamClass::ALL {
                self.start_outbound(&peer, class)?;
            }
        }
        Ok(())
    }

    fn start_outbound(&self, peer: &Arc<PeerStreams>, class: StreamClass) -> Result<(), Error> {
        let (context, peer) = (self.context.clone(), peer.clone());
        let thread = std::thread::Builder::new().name(format!("peer-{class}"));
        let run = move || peer.outbound(class).run(&context, &peer.info);
        thread.spawn(run).map_err(Error::io("start a thread")).map(drop)
    }

    /// Ends all streams to and from this peer. Does not block. The peer may dial again; [`Admission`] decides then.
    pub fn remove(&self, peer: u64) {
        self.registry.remove(peer);
    }

    /// Ends all streams to and from this peer for good: no connection of it is taken any more, also none whose
    /// handshake was admitted before this call. Does not block.
    pub fn bar(&self, peer: u64) {
        self.registry.bar(peer);
    }

    /// Sends a frame whose body is `parts`, one after another. Writes to the socket from the calling thread when
    /// nothing waits before it, else queues; never blocks on the network and copies no part.
    pub fn send(&self, peer: u64, class: StreamClass, parts: &[Bytes]) -> SendOutcome {
        match self.registry.read().get(peer) {
            Some(peer) => peer.outbound(class).send_message(&peer.info, parts),
            None => SendOutcome::Dropped(DropReason::UnknownPeer),
        }
    }

    /// Bytes accepted by [`Peers::send`] that the socket has not taken yet.
    pub fn in_flight_bytes(&self, peer: u64, class: StreamClass) -> usize {
        self.registry.get(peer).map_or(0, |peer| peer.outbound(class).queued_bytes())
    }

    /// Figures about each peer that was set.
    pub fn statistics(&self) -> Vec<PeerStatistics> {
        let peers = self.registry.read();
        let set = peers.iter().map(|peer| &peer.info).filter(|info| info.is_set());
        set.map(PeerInfo::statistics).collect()
    }

    /// Opens a snapshot stream to a peer that was set, and waits until its receiver answers from which offset it
    /// continues ([`SnapshotSender::offset`]). Blocks: for a thread of its own.
    pub fn open_snapshot(&self, peer: u64, header: Bytes) -> Result<SnapshotSender, Error> {
        let known = self.registry.get(peer).filter(|peer| peer.info.is_set());
        let known = known.ok_or(Error::UnknownPeer(peer))?;
        SnapshotSender::open(&self.context, &known.info, header)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.registry.stop();
    }
}
