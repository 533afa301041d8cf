//! The peers of this member: the face of the crate.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::RwLock;
use tracing::warn;

use crate::peer::Peer;
use crate::refusal::RefusalLog;
use crate::snapshot::SnapshotSender;
use crate::url::PeerUrl;
use crate::{
    Config, DropReason, Error, Gate, Identity, Inbound, PeerStatistics, Reason, Refusal, Sent, Side,
    SnapshotSink, StreamClass, inbound,
};

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sink: Arc<dyn Inbound>,
    pub(crate) snapshots: Arc<dyn SnapshotSink>,
    pub(crate) inbound_connections: AtomicUsize,
    gate: Arc<dyn Gate>,
    refusals: RefusalLog,
    peers: RwLock<Registry>,
}

#[derive(Default)]
struct Registry {
    peers: BTreeMap<u64, Arc<Peer>>,
    stopped: bool,
}

impl Shared {
    /// Whether this is a member of our cluster (the `expected` one, if given) that the gate lets in.
    pub(crate) fn admit(&self, peer: &Identity, expected: Option<u64>) -> Result<(), Refusal> {
        let local = &self.config.local;
        if peer.cluster_id != local.cluster_id {
            let text = format!("cluster {:x} was met, expected {:x}", peer.cluster_id, local.cluster_id);
            return Err(Refusal::new(Reason::WrongCluster, text));
        }
        if let Some(expected) = expected.filter(|expected| *expected != peer.member_id) {
            let text = format!("member {:x} was met, expected {expected:x}", peer.member_id);
            return Err(Refusal::new(Reason::WrongMember, text));
        }
        if peer.member_id == local.member_id {
            let text = format!("member {:x} cannot be its own peer", peer.member_id);
            return Err(Refusal::new(Reason::WrongMember, text));
        }
        self.gate.admit(peer)
    }

    /// Whether a dialler that means to reach `to` has reached it.
    pub(crate) fn check_addressee(&self, to: u64) -> Result<(), Refusal> {
        let own = self.config.local.member_id;
        if to == own {
            return Ok(());
        }
        Err(Refusal::new(Reason::WrongMember, format!("this is member {own:x}, not {to:x}")))
    }

    /// Tells the owner about a refusal, and the log when it is news.
    pub(crate) fn note_refusal(&self, peer: u64, by: Side, refusal: &Refusal) {
        if self.refusals.is_news(peer, by, refusal.reason, Instant::now()) {
            let name = format!("{peer:x}");
            match by {
                Side::Local => warn!(peer = name, %refusal, "refused a peer"),
                Side::Remote => warn!(peer = name, %refusal, "a peer refused this member"),
            }
        }
        self.sink.refused(peer, by, refusal);
    }

    fn peer(&self, id: u64) -> Option<Arc<Peer>> {
        self.peers.read().peers.get(&id).cloned()
    }

    /// The peer of this id; one that dials us before it was set gets its place now.
    pub(crate) fn peer_or_insert(&self, id: u64) -> Result<Arc<Peer>, Error> {
        let mut registry = self.peers.write();
        if registry.stopped {
            return Err(Error::Stopped);
        }
        if let Some(peer) = registry.peers.get(&id) {
            return Ok(peer.clone());
        }
        let peer = Arc::new(Peer::new(id, self).map_err(Error::io("prepare a peer"))?);
        registry.peers.insert(id, peer.clone());
        Ok(peer)
    }
}

/// The streams to and from all peers. Dropping it ends them; calls of the sink that have begun may still run.
pub struct Peers {
    shared: Arc<Shared>,
}

impl Peers {
    /// Begins without peers. Frames, events and snapshots go to `sink` and `snapshots`.
    pub fn start(
        config: Config,
        gate: Arc<dyn Gate>,
        sink: Arc<dyn Inbound>,
        snapshots: Arc<dyn SnapshotSink>,
    ) -> Peers {
        let shared = Shared {
            config,
            sink,
            snapshots,
            inbound_connections: AtomicUsize::new(0),
            gate,
            refusals: RefusalLog::default(),
            peers: RwLock::default(),
        };
        Peers { shared: Arc::new(shared) }
    }

    /// Takes a connection that begins with [`crate::PREFACE`], which must not have been read. Does not block.
    /// The error is for the log: the connection is closed then.
    pub fn accept(&self, connection: TcpStream) -> Result<(), Error> {
        inbound::accept(&self.shared, connection)
    }

    /// Keeps streams to this peer, at any of these `http://host:port` URLs. Streams that stand are kept when the
    /// URLs change; the next dial uses the new ones. Does not block.
    pub fn set(&self, peer: u64, urls: &[String]) -> Result<(), Error> {
        let urls: Vec<PeerUrl> = urls.iter().map(|url| PeerUrl::parse(url)).collect::<Result<_, _>>()?;
        let peer = self.shared.peer_or_insert(peer)?;
        if peer.set_urls(urls) {
            for class in StreamClass::ALL {
                self.start_outbound(&peer, class)?;
            }
        }
        Ok(())
    }

    fn start_outbound(&self, peer: &Arc<Peer>, class: StreamClass) -> Result<(), Error> {
        let (shared, peer) = (self.shared.clone(), peer.clone());
        let thread = std::thread::Builder::new().name(format!("peer-{class}"));
        let run = move || peer.outbound(class).run(&shared, &peer);
        thread.spawn(run).map_err(Error::io("start a thread")).map(drop)
    }

    /// Ends all streams to and from this peer. Does not block. That it is not let in again is the gate's to see.
    pub fn remove(&self, peer: u64) {
        let removed = self.shared.peers.write().peers.remove(&peer);
        if let Some(peer) = removed {
            peer.stop();
        }
    }

    /// Sends a frame whose body is `pieces`, one after another. Writes to the socket from the calling thread when
    /// nothing waits before it, else queues; never blocks on the network and copies no piece.
    pub fn send(&self, peer: u64, class: StreamClass, pieces: &[Bytes]) -> Sent {
        let registry = self.shared.peers.read();
        match registry.peers.get(&peer) {
            Some(peer) => peer.outbound(class).send_message(peer, pieces),
            None => Sent::Dropped(DropReason::UnknownPeer),
        }
    }

    /// Bytes accepted by [`Peers::send`] that the socket has not taken yet.
    pub fn in_flight_bytes(&self, peer: u64, class: StreamClass) -> usize {
        self.shared.peer(peer).map_or(0, |peer| peer.outbound(class).queued_bytes())
    }

    /// Figures about each peer that was set.
    pub fn statistics(&self) -> Vec<PeerStatistics> {
        let registry = self.shared.peers.read();
        let set = registry.peers.values().filter(|peer| peer.is_set());
        set.map(|peer| peer.counters.read(peer.id)).collect()
    }

    /// Opens a snapshot stream to a peer that was set and waits until its receiver says from which offset it
    /// wants the snapshot ([`SnapshotSender::offset`]). Blocks: for a thread of its own.
    pub fn open_snapshot(&self, peer: u64, header: Bytes) -> Result<SnapshotSender, Error> {
        let known = self.shared.peer(peer).filter(|peer| peer.is_set());
        let known = known.ok_or(Error::UnknownPeer(peer))?;
        SnapshotSender::open(&self.shared, &known, header)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let mut registry = self.shared.peers.write();
        registry.stopped = true;
        registry.peers.values().for_each(|peer| peer.stop());
        registry.peers.clear();
    }
}
