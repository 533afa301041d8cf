//! What the streams of one peer share: its id, its URLs, its figures.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::counters::{CurrentFigures, PeerCounters, PeerStatistics};
use crate::protocol::PeerUrl;

/// One peer, as its streams see it.
pub(crate) struct PeerInfo {
    pub(crate) id: u64,
    pub(crate) counters: Arc<PeerCounters>,
    pub(crate) current: CurrentFigures,
    /// None until the owner sets the peer: it may dial us before we know its URLs.
    urls: Mutex<Option<Arc<[PeerUrl]>>>,
}

impl PeerInfo {
    /// `counters` are those of the peer's streams before, if it had some.
    pub(crate) fn new(id: u64, counters: Arc<PeerCounters>) -> PeerInfo {
        PeerInfo { id, counters, current: CurrentFigures::default(), urls: Mutex::default() }
    }

    /// Its figures now.
    pub(crate) fn statistics(&self) -> PeerStatistics {
        self.counters.read(self.id, &self.current)
    }

    /// The id as etcd writes member ids.
    pub(crate) fn id_hex(&self) -> String {
        format!("{:x}", self.id)
    }

    /// Empty until the peer is set.
    pub(crate) fn urls(&self) -> Arc<[PeerUrl]> {
        self.urls.lock().clone().unwrap_or_default()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.urls.lock().is_some()
    }

    /// Replaces the URLs; says whether the peer was not set before.
    pub(crate) fn set_urls(&self, urls: Vec<PeerUrl>) -> bool {
        self.urls.lock().replace(urls.into()).is_none()
    }
}
