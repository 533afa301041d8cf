//! All that belongs to one peer: its URLs, our streams to it, the places of its streams to us, its figures.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::counters::Counters;
use crate::outbound::Outbound;
use crate::peers::Shared;
use crate::slot::Slot;
use crate::url::PeerUrl;
use crate::{StreamClass, StreamKind};

pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) counters: Arc<Counters>,
    /// None until the peer was set: it may dial us before we know where it is.
    urls: Mutex<Option<Arc<[PeerUrl]>>>,
    outbound: [Outbound; 2],
    messages: [Slot; 2],
    snapshot: Slot,
}

impl Peer {
    pub(crate) fn new(id: u64, shared: &Shared) -> io::Result<Peer> {
        let [control, bulk] = StreamClass::ALL;
        Ok(Peer {
            id,
            counters: Arc::default(),
            urls: Mutex::default(),
            outbound: [Outbound::new(control, shared)?, Outbound::new(bulk, shared)?],
            messages: Default::default(),
            snapshot: Slot::default(),
        })
    }

    /// Member ids are written as etcd writes them.
    pub(crate) fn id_hex(&self) -> String {
        format!("{:x}", self.id)
    }

    pub(crate) fn outbound(&self, class: StreamClass) -> &Outbound {
        &self.outbound[class as usize]
    }

    pub(crate) fn slot(&self, kind: StreamKind) -> &Slot {
        match kind {
            StreamKind::Messages(class) => &self.messages[class as usize],
            StreamKind::Snapshot => &self.snapshot,
        }
    }

    pub(crate) fn urls(&self) -> Arc<[PeerUrl]> {
        self.urls.lock().clone().unwrap_or_default()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.urls.lock().is_some()
    }

    /// Dials these from now on; says whether it is the first time.
    pub(crate) fn set_urls(&self, urls: Vec<PeerUrl>) -> bool {
        let before = self.urls.lock().replace(urls.into());
        self.hurry();
        before.is_none()
    }

    /// Lets streams that rest between two dials dial at once.
    pub(crate) fn hurry(&self) {
        self.outbound.iter().for_each(Outbound::hurry);
    }

    /// Ends all streams, in and out, for good.
    pub(crate) fn stop(&self) {
        self.outbound.iter().for_each(Outbound::stop);
        self.messages.iter().chain([&self.snapshot]).for_each(Slot::close);
    }
}
