//! The peers by id: those that the owner set, and those that dialled us before they were set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::config::PeerLimits;
use crate::error::Error;
use crate::peer::PeerStreams;

/// All peers. Reads happen for every frame sent, writes only when a peer comes or goes.
pub(crate) struct PeerRegistry {
    limits: PeerLimits,
    state: RwLock<RegisteredPeers>,
}

#[derive(Default)]
struct RegisteredPeers {
    peers: BTreeMap<u64, Arc<PeerStreams>>,
    /// Peers that never come back: a handshake with one may have been admitted before, and end after its removal.
    barred: BTreeSet<u64>,
    stopped: bool,
}

impl PeerRegistry {
    pub(crate) fn new(limits: PeerLimits) -> PeerRegistry {
        PeerRegistry { limits, state: RwLock::default() }
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<PeerStreams>> {
        self.state.read().peers.get(&id).cloned()
    }

    /// The peers, in the order of their ids; no peer comes or goes before the guard is dropped.
    pub(crate) fn read(&self) -> RegistryGuard<'_> {
        RegistryGuard(self.state.read())
    }

    /// The peer of this id, which is created if it does not exist yet.
    pub(crate) fn get_or_insert(&self, id: u64) -> Result<Arc<PeerStreams>, Error> {
        let mut state = self.state.write();
        if state.stopped {
            return Err(Error::Stopped);
        }
        if state.barred.contains(&id) {
            return Err(Error::UnknownPeer(id));
        }
        if let Some(peer) = state.peers.get(&id) {
            return Ok(peer.clone());
        }
        let peer = Arc::new(PeerStreams::new(id, &self.limits).map_err(Error::io("prepare a peer"))?);
        state.peers.insert(id, peer.clone());
        Ok(peer)
    }

    /// Removes a peer and ends its streams.
    pub(crate) fn remove(&self, id: u64) {
        let removed = self.state.write().peers.remove(&id);
        if let Some(peer) = removed {
            peer.stop();
        }
    }

    /// Removes a peer for good: it cannot be added any more.
    pub(crate) fn bar(&self, id: u64) {
        let removed = {
            let mut state = self.state.write();
            state.barred.insert(id);
            state.peers.remove(&id)
        };
        if let Some(peer) = removed {
            peer.stop();
        }
    }

    /// Ends the streams of all peers; no peer can be added any more.
    pub(crate) fn stop(&self) {
        let mut state = self.state.write();
        state.stopped = true;
        state.peers.values().for_each(|peer| peer.stop());
        state.peers.clear();
    }
}

/// See [`PeerRegistry::read`].
pub(crate) struct RegistryGuard<'a>(RwLockReadGuard<'a, RegisteredPeers>);

impl RegistryGuard<'_> {
    pub(crate) fn get(&self, id: u64) -> Option<&PeerStreams> {
        self.0.peers.get(&id).map(Arc::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerStreams> {
        self.0.peers.values().map(Arc::as_ref)
    }
}
