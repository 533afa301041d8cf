//! The peers by id: those that the owner set, and those that dialled us before they were set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::config::PeerLimits;
use crate::counters::PeerCounters;
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
    /// Counters of peers that were set, to go on with when they are set again. Those of barred peers are gone.
    counters: BTreeMap<u64, Arc<PeerCounters>>,
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
        let counters = state.counters.get(&id).cloned().unwrap_or_default();
        let peer = PeerStreams::new(id, counters, &self.limits).map_err(Error::io("prepare a peer"))?;
        let peer = Arc::new(peer);
        state.peers.insert(id, peer.clone());
        Ok(peer)
    }

    /// Removes a peer and ends its streams. If it comes back, it goes on with the same counters.
    pub(crate) fn remove(&self, id: u64) {
        let removed = {
            let mut state = self.state.write();
            let removed = state.peers.remove(&id);
            if let Some(peer) = removed.as_ref().filter(|peer| peer.info.is_set()) {
                state.counters.insert(id, peer.info.counters.clone());
            }
            removed
        };
        if let Some(peer) = removed {
            peer.stop();
        }
    }

    /// A connection of a peer has ended. Forgets the peer if nothing else uses it and it is not dialled: anyone who
    /// knows the cluster's id may connect under any number of ids.
    pub(crate) fn release(&self, peer: Arc<PeerStreams>) {
        let mut state = self.state.write();
        // Other connections and callers hold a clone of their own, and none is made without the registry's lock.
        let is_last = Arc::strong_count(&peer) == 2;
        let is_current = state.peers.get(&peer.info.id).is_some_and(|current| Arc::ptr_eq(current, &peer));
        if is_last && is_current && !peer.info.is_set() {
            state.peers.remove(&peer.info.id);
        }
    }

    /// Removes a peer for good: it cannot be added any more.
    pub(crate) fn bar(&self, id: u64) {
        let removed = {
            let mut state = self.state.write();
            state.barred.insert(id);
            state.counters.remove(&id);
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

#[cfg(test)]
mod tests {
    //! Who is forgotten.
    use std::time::Instant;

    use super::*;
    use crate::protocol::StreamClass;

    #[test]
    fn a_peer_that_only_connected_is_forgotten_when_its_last_connection_ends() {
        let registry = PeerRegistry::new(PeerLimits::default());
        let first = registry.get_or_insert(7).expect("room");
        let second = registry.get_or_insert(7).expect("room");
        registry.release(first);
        assert!(registry.get(7).is_some(), "one connection is left");
        registry.release(second);
        assert!(registry.get(7).is_none());
        let dialled = registry.get_or_insert(8).expect("room");
        dialled.set_urls(Vec::new());
        registry.release(dialled);
        assert!(registry.get(8).is_some(), "the owner set it");
        let (old, _) = (registry.get_or_insert(9).expect("room"), registry.remove(9));
        let new = registry.get_or_insert(9).expect("room");
        registry.release(old);
        assert!(registry.get(9).is_some(), "it is another one by now");
        drop(new);
    }

    #[test]
    fn a_peer_that_is_set_again_goes_on_counting() {
        let registry = PeerRegistry::new(PeerLimits::default());
        let statistics =
            |peer: &PeerStreams| (peer.info.statistics().sent_bytes, peer.info.statistics().control_since);
        let before = registry.get_or_insert(7).expect("room");
        before.set_urls(Vec::new());
        PeerCounters::add(&before.info.counters.sent_bytes, 10);
        before.info.current.set_since(StreamClass::Control, Some(Instant::now()));
        registry.remove(7);
        let after = registry.get_or_insert(7).expect("room");
        assert_eq!(statistics(&after), (10, None));
        PeerCounters::add(&before.info.counters.sent_bytes, 1); // a stream that is ending
        assert_eq!(statistics(&after), (11, None));
        let stranger = registry.get_or_insert(8).expect("room");
        PeerCounters::add(&stranger.info.counters.sent_bytes, 10);
        registry.remove(8);
        let stranger = registry.get_or_insert(8).expect("room");
        assert_eq!(statistics(&stranger), (0, None), "a peer that was never set is not remembered");
    }
}
