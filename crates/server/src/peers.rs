//! The member's peers: who is let in, and where their frames go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use member::snapshot::Outgoing;
use member::{Input, Notice};
use parking_lot::Mutex;
use store::Reader;
use transport::{
    Admission, Error, FrameSink, PeerIdentity, Peers, Refusal, RefusalReason, Side, StreamClass,
};

use crate::driver::{Edge, LogDesk, Mailbox};
use crate::metrics::Metrics;
use crate::notices::Notices;

/// Lets in members of the cluster that speak from the data directory they first published.
pub(crate) struct Membership {
    reader: Reader,
}

impl Membership {
    /// The members as `reader`'s store knows them.
    pub(crate) fn new(reader: Reader) -> Membership {
        Membership { reader }
    }
}

impl Admission for Membership {
    fn admit(&self, peer: &PeerIdentity) -> Result<(), Refusal> {
        let id = peer.member_id;
        if self.reader.was_removed(id) {
            let text = format!("member {id:x} was removed from the cluster; its id is never used again");
            return Err(Refusal::new(RefusalReason::RemovedMember, text));
        }
        let Some(member) = self.reader.members().into_iter().find(|member| member.id == id) else {
            let text =
                format!("member {id:x} is not in the cluster; add it first, or check --initial-cluster");
            return Err(Refusal::new(RefusalReason::UnknownMember, text));
        };
        if member.incarnation != 0 && member.incarnation != peer.incarnation {
            let text = format!(
                "member {id:x} comes with another data directory than the one the cluster knows: if its data was \
                 lost, remove the member and add it again"
            );
            return Err(Refusal::new(RefusalReason::WrongIncarnation, text));
        }
        Ok(())
    }
}

/// Passes what arrives to the deciding thread.
pub(crate) struct Arrivals {
    mailbox: Arc<Mailbox>,
    log: Arc<LogDesk>,
    /// Which of a peer's two streams are up: (control, bulk).
    up: Mutex<BTreeMap<u64, (bool, bool)>>,
    metrics: Arc<Metrics>,
    wiped: Box<dyn Fn(&Refusal) + Send + Sync>,
}

impl Arrivals {
    /// `wiped` is called when a peer says that this member's data directory is not the one the cluster knows.
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        log: Arc<LogDesk>,
        metrics: Arc<Metrics>,
        wiped: impl Fn(&Refusal) + Send + Sync + 'static,
    ) -> Arrivals {
        Arrivals { mailbox, log, up: Mutex::default(), metrics, wiped: Box::new(wiped) }
    }

    /// Records one stream; true when that changed whether both are up.
    fn set(&self, peer: u64, class: StreamClass, is_up: bool) -> bool {
        let mut up = self.up.lock();
        let streams = up.entry(peer).or_default();
        let before = *streams == (true, true);
        match class {
            StreamClass::Control => streams.0 = is_up,
            StreamClass::Bulk => streams.1 = is_up,
        }
        before != (*streams == (true, true))
    }
}

impl FrameSink for Arrivals {
    fn frame(&self, from: u64, class: StreamClass, bytes: Bytes, more: bool) {
        let len = bytes.len();
        let bring = || self.mailbox.bring(vec![Input::Frame { from, bytes }]);
        if class == StreamClass::Control {
            return bring();
        }
        self.mailbox.make_room(len);
        // What follows close behind is better written together with it.
        if more { bring() } else { self.log.volunteer(bring) }
    }

    fn up(&self, peer: u64, class: StreamClass) {
        if self.set(peer, class, true) {
            tracing::info!(remote_peer_id = format!("{peer:x}"), "peer became active");
            self.mailbox.send(Input::PeerUp(peer));
        }
    }

    fn down(&self, peer: u64, class: StreamClass, why: &Error) {
        if self.set(peer, class, false) {
            tracing::warn!(remote_peer_id = format!("{peer:x}"), error = %why, "peer became inactive");
            self.mailbox.send(Input::PeerDown(peer));
        }
    }

    fn round_trip(&self, peer: u64, time: Duration) {
        self.metrics.events.round_trips(peer).observe(time.as_secs_f64());
    }

    fn refused(&self, _peer: u64, by: Side, refusal: &Refusal) {
        let fatal = [RefusalReason::WrongIncarnation, RefusalReason::RemovedMember];
        if by == Side::Remote && fatal.contains(&refusal.reason) {
            (self.wiped)(refusal);
        }
    }
}

/// What the deciding thread carries out through the transport and the log of events.
pub(crate) struct PeerEdge {
    pub(crate) peers: Arc<Peers>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) reader: Reader,
    pub(crate) notices: Notices,
}

impl Edge for PeerEdge {
    fn send(&self, peer: u64, class: member::MessageClass, pieces: &[Bytes]) {
        let class = match class {
            member::MessageClass::Control => StreamClass::Control,
            member::MessageClass::Bulk => StreamClass::Bulk,
        };
        // What is dropped is sent again by whoever needs it: consensus, or the one who asked.
        let _ = self.peers.send(peer, class, pieces);
    }

    fn stream(&self, snapshot: Box<Outgoing>) {
        crate::snapshots::send(self.peers.clone(), self.mailbox.clone(), snapshot);
    }

    fn disconnect(&self, peer: u64) {
        let members = self.reader.members();
        let Some(member) = members.into_iter().find(|member| member.id == peer) else { return };
        self.peers.remove(peer);
        if let Err(error) = self.peers.set(peer, &member.peer_urls) {
            tracing::warn!(remote_peer_id = format!("{peer:x}"), %error, "cannot dial the peer again");
        }
        tracing::warn!(remote_peer_id = format!("{peer:x}"), "peer sent what no sound member sends");
    }

    fn notice(&self, notice: &Notice) {
        self.notices.report(notice);
    }
}
