//! The member's peers: which are accepted, what arrives from them, and what is sent to them.

mod http_client;
mod snapshots;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use member::snapshot::Outgoing;
use member::{Input, Membership, Notice};
use parking_lot::Mutex;
use store::Reader;
use tokio_util::sync::CancellationToken;
use transport::{
    Admission, DropReason, Error, FrameSink, PeerIdentity, Peers, Refusal, RefusalReason, SendOutcome, Side,
    StreamClass,
};

use crate::logging::NoticeLog;
use crate::metrics::Metrics;
use crate::raft_loop::{Edge, Handoff};
use standing::{ClusterVerdict, PeerStandings};

pub(crate) use http_client::PeerHttp;
pub(crate) use snapshots::IncomingSnapshots;

/// The newest command set that a member can apply which speaks this version of the peer protocol: the two rise
/// together.
fn command_set_of(version: u16) -> u8 {
    u8::try_from(version.saturating_sub(1)).unwrap_or(u8::MAX)
}

/// The oldest version of the peer protocol that a member speaks which can apply this set of commands.
fn version_of(command_set: u8) -> u16 {
    u16::from(command_set) + 1
}

/// Accepts members of the cluster that run on the data directory they first published, and those that this member does
/// not know yet.
pub(crate) struct MembershipGate {
    reader: Reader,
}

impl MembershipGate {
    /// The members as `reader`'s store knows them.
    pub(crate) fn new(reader: Reader) -> MembershipGate {
        MembershipGate { reader }
    }
}

impl Admission for MembershipGate {
    fn admit(&self, peer: &PeerIdentity) -> Result<(), Refusal> {
        let id = peer.member_id;
        if self.reader.was_removed(id) {
            let text = format!(
                "member {id:x} has been permanently removed from the cluster; its id is never used again"
            );
            return Err(Refusal::new(RefusalReason::RemovedMember, text));
        }
        let Some(member) = self.reader.members().into_iter().find(|member| member.id == id) else {
            // It may have been added while this member was away, and may even lead: it says where it listens.
            if self.reader.command_set() > store::FIRST_COMMAND_SET {
                return Ok(());
            }
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

    fn min_version(&self) -> u16 {
        version_of(self.reader.command_set())
    }
}

/// What an operator does about a member that peers refuse.
const REMEDY_IF_DISPUTED: &str = "If it was removed, or its data was lost, stop it and remove its data directory; if \
                                  not, start the other members, and see who answers at the peer URLs of those that \
                                  refuse it";

/// Passes what arrives from peers to the raft loop.
pub(crate) struct PeerInbound {
    handoff: Handoff,
    /// Locked until what follows from a report is submitted, so that inputs have the order of the reports.
    standings: Mutex<PeerStandings>,
    metrics: Arc<Metrics>,
    is_disputed: Arc<AtomicBool>,
    wiped: Box<dyn Fn(&Refusal) + Send + Sync>,
}

impl PeerInbound {
    /// `wiped` is called when the peers say that this member was removed, or that its data directory is not the one the
    /// cluster knows, and are trusted. `is_disputed` is set while some say so, too few accept it, and too few are left
    /// to be trusted.
    pub(crate) fn new(
        handoff: Handoff,
        metrics: Arc<Metrics>,
        is_disputed: Arc<AtomicBool>,
        wiped: impl Fn(&Refusal) + Send + Sync + 'static,
    ) -> PeerInbound {
        PeerInbound { handoff, standings: Mutex::default(), metrics, is_disputed, wiped: Box::new(wiped) }
    }

    /// Follows what the peers say now about this member; `refusal` is the last that was heard. Returns whether it ends.
    fn judge(&self, standings: &PeerStandings, refusal: Option<&Refusal>) -> bool {
        let verdict = standings.verdict();
        let is_disputed = verdict == ClusterVerdict::Disputed;
        let was_disputed = self.is_disputed.swap(is_disputed, Ordering::Relaxed);
        match refusal {
            Some(refusal) if is_disputed && !was_disputed => tracing::error!(
                reason = %refusal,
                remedy = REMEDY_IF_DISPUTED,
                "peers refuse this member; reads are disabled"
            ),
            _ if was_disputed && verdict == ClusterVerdict::Accepted => {
                tracing::info!("the peers accept this member again")
            }
            _ => {}
        }
        verdict == ClusterVerdict::Refused
    }
}

impl FrameSink for PeerInbound {
    fn frame(&self, from: u64, class: StreamClass, bytes: Bytes, more: bool) {
        match class {
            StreamClass::Control => self.handoff.control_frame(from, bytes),
            StreamClass::Bulk => self.handoff.bulk_frame(from, bytes, more),
        }
    }

    fn up(&self, peer: u64, class: StreamClass, connection: u64, version: u16) {
        let mut standings = self.standings.lock();
        self.handoff.submit(Input::PeerAnnounced { peer, command_set: command_set_of(version) });
        if standings.up(peer, class, connection) {
            tracing::info!(remote_peer_id = format!("{peer:x}"), "peer became active");
            self.handoff.submit(Input::PeerUp(peer));
        }
        self.judge(&standings, None);
    }

    fn down(&self, peer: u64, class: StreamClass, connection: u64, why: &Error) {
        let mut standings = self.standings.lock();
        if standings.down(peer, class, connection) {
            tracing::warn!(remote_peer_id = format!("{peer:x}"), error = %why, "peer became inactive");
            self.handoff.submit(Input::PeerDown(peer));
        }
    }

    fn not_listening(&self, peer: u64, _: StreamClass) {
        let mut standings = self.standings.lock();
        if standings.not_listening(peer) {
            tracing::info!(
                remote_peer_id = format!("{peer:x}"),
                "the peer's address refuses connections; its process has probably exited"
            );
            self.handoff.submit(Input::PeerNotListening(peer));
        }
    }

    fn round_trip(&self, peer: u64, time: Duration) {
        self.metrics.events.round_trips(peer).observe(time.as_secs_f64());
    }

    fn refused(&self, peer: u64, by: Side, refusal: &Refusal) {
        if by == Side::Local {
            return;
        }
        let for_good =
            [RefusalReason::WrongIncarnation, RefusalReason::RemovedMember].contains(&refusal.reason);
        let mut standings = self.standings.lock();
        standings.refused(peer, for_good);
        let ends = self.judge(&standings, Some(refusal).filter(|_| for_good));
        drop(standings);
        if ends && for_good {
            (self.wiped)(refusal);
        }
    }
}

/// Carries out, over the transport and the log for operators, what the raft loop decided.
pub(crate) struct PeerEdge {
    peers: Arc<Peers>,
    inbound: Arc<PeerInbound>,
    handoff: Handoff,
    reader: Reader,
    notices: NoticeLog,
    own_id: u64,
    /// Whether the last notice said that this member leads.
    leads: AtomicBool,
    /// The members as they were told last.
    members: Mutex<Option<Membership>>,
    /// Cancelled when this member has applied its own removal.
    removed: CancellationToken,
}

impl PeerEdge {
    /// The edge of the member `own_id`, whose state `reader` reads. `removed` is cancelled when the member has applied
    /// its own removal.
    pub(crate) fn new(
        peers: Arc<Peers>,
        inbound: Arc<PeerInbound>,
        handoff: Handoff,
        reader: Reader,
        (own_id, removed): (u64, CancellationToken),
    ) -> PeerEdge {
        let notices = NoticeLog::new(own_id);
        let leads = AtomicBool::new(false);
        let members = Mutex::default();
        PeerEdge { peers, inbound, handoff, reader, notices, own_id, leads, members, removed }
    }

    fn dial(&self, id: u64, peer_urls: &[String]) {
        if let Err(error) = self.peers.set(id, peer_urls) {
            tracing::error!(remote_peer_id = format!("{id:x}"), %error, "cannot dial the peer");
        }
    }
}

/// The peer URLs of all members that are dialled, by id: those of the state, those that a peer gave itself, which this
/// member may lag behind, and those of removed members whose streams stay for now. Dialled again, these refuse, or are
/// refused.
fn dialled(membership: &Membership) -> BTreeMap<u64, Vec<String>> {
    let listed = membership.members.iter().map(|member| (member.id, member.peer_urls.clone()));
    let mut all: BTreeMap<u64, Vec<String>> = listed.chain(membership.parting.iter().cloned()).collect();
    for (id, urls) in &membership.introduced {
        let known = all.entry(*id).or_default();
        let others: Vec<String> = urls.iter().filter(|url| !known.contains(url)).cloned().collect();
        known.extend(others);
    }
    all
}

/// The voters; of a member that joins, the members that it was told.
fn voters(membership: &Membership) -> BTreeSet<u64> {
    let Membership { conf_state, members, .. } = membership;
    match conf_state.voters.is_empty() {
        true => members.iter().map(|member| member.id).collect(),
        false => conf_state.voters.iter().chain(&conf_state.voters_outgoing).copied().collect(),
    }
}

impl Edge for PeerEdge {
    fn removed(&self) {
        self.removed.cancel();
    }

    fn follow_members(&self, membership: &Membership) {
        self.inbound.standings.lock().follow_voters(self.own_id, voters(membership));
        let mut known = self.members.lock();
        let before = known.as_ref().map(dialled).unwrap_or_default();
        let now = dialled(membership);
        for gone in before.keys().filter(|id| !now.contains_key(id)) {
            // The gate refuses it already: its removal is part of the state.
            if self.reader.was_removed(*gone) {
                self.peers.bar(*gone);
            } else {
                self.peers.remove(*gone);
            }
            self.inbound.standings.lock().forget(*gone);
            self.inbound.metrics.events.forget_peer(*gone);
            tracing::info!(remote_peer_id = format!("{gone:x}"), "removed remote peer");
        }
        for (id, peer_urls) in now.iter().filter(|(id, _)| **id != self.own_id) {
            if before.get(id) != Some(peer_urls) {
                self.dial(*id, peer_urls);
            }
        }
        let command_set = membership.command_set;
        if known.as_ref().is_some_and(|known| known.command_set != command_set) {
            tracing::info!(
                command_set,
                "all members can apply a newer set of commands; it is used from now on"
            );
        }
        *known = Some(membership.clone());
    }

    fn send(&self, peer: u64, class: member::MessageClass, parts: &[Bytes]) {
        let class = match class {
            member::MessageClass::Control => StreamClass::Control,
            member::MessageClass::Bulk => StreamClass::Bulk,
        };
        // A frame that was dropped for another reason is sent again by its sender: consensus, or a caller.
        if self.peers.send(peer, class, parts) == SendOutcome::Dropped(DropReason::TooLarge) {
            self.notices.unsendable(peer, parts.iter().map(Bytes::len).sum());
        }
    }

    fn stream(&self, snapshot: Box<Outgoing>) {
        snapshots::send(self.peers.clone(), self.handoff.clone(), snapshot);
    }

    fn disconnect(&self, peer: u64) {
        let known = self.members.lock().as_ref().map(dialled).unwrap_or_default();
        let Some(peer_urls) = known.get(&peer) else { return };
        self.peers.remove(peer);
        self.dial(peer, peer_urls);
        tracing::warn!(
            remote_peer_id = format!("{peer:x}"),
            "disconnected a peer that sent an invalid message"
        );
    }

    fn notice(&self, notice: &Notice) {
        let events = &self.inbound.metrics.events;
        match notice {
            Notice::Damage { .. } => events.damage_found.inc(),
            Notice::Repaired { .. } => events.damage_repaired.inc(),
            Notice::TickLate(_) if self.leads.load(Ordering::Relaxed) => {
                events.heartbeat_send_failures.inc();
            }
            Notice::Leadership { leading, .. } => self.leads.store(*leading, Ordering::Relaxed),
            _ => {}
        }
        self.notices.report(notice);
    }
}

#[cfg(test)]
mod order_tests;

#[cfg(test)]
mod tests {
    //! A frame that no peer can receive does not vanish without a word.
    use member::MessageClass;
    use store::{Damaged, Limits, Store, ValueRef, Values};
    use transport::{PeersConfig, SnapshotReceiver, SnapshotSink};

    use super::*;
    use crate::config::FeatureGates;

    struct NoValues;

    impl Values for NoValues {
        fn read(&self, _: &ValueRef) -> Result<Bytes, Damaged> {
            unreachable!("the store is empty")
        }

        fn retain(&self, _: &ValueRef) {}

        fn release(&self, _: &ValueRef) {}
    }

    struct NoSnapshots;

    impl SnapshotSink for NoSnapshots {
        fn begin(&self, _: u64, _: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String> {
            Err("none is expected".to_owned())
        }
    }

    /// The edge of member 1, whose frames have at most ten bytes, and a peer 2 that it never reaches.
    fn edge() -> PeerEdge {
        let metrics =
            Arc::new(Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("metrics"));
        let handoff = Handoff::new(1, metrics.clone());
        let (_, reader) = Store::new(Arc::new(NoValues), Limits::default());
        let mut config = PeersConfig::new(PeerIdentity { cluster_id: 7, member_id: 1, incarnation: 1 });
        config.limits.max_frame_bytes = 10;
        let inbound = Arc::new(PeerInbound::new(handoff.clone(), metrics, Arc::default(), |_| {}));
        let gate = Arc::new(MembershipGate::new(reader.clone()));
        let peers = Peers::start(config, gate, inbound.clone(), Arc::new(NoSnapshots));
        peers.set(2, &["http://127.0.0.1:1".to_owned()]).expect("a good URL");
        PeerEdge::new(Arc::new(peers), inbound, handoff, reader, (1, CancellationToken::new()))
    }

    #[test]
    fn this_release_speaks_the_version_of_its_command_set() {
        assert_eq!(version_of(member::NEWEST_COMMAND_SET), transport::MAX_VERSION);
        assert_eq!(command_set_of(transport::MAX_VERSION), member::NEWEST_COMMAND_SET);
        assert_eq!(version_of(store::FIRST_COMMAND_SET), transport::MIN_VERSION);
    }

    #[test]
    fn a_peer_is_dialled_where_the_state_says_and_where_it_says_itself() {
        let url = |text: &str| vec![text.to_owned()];
        let member = |id, text| store::ClusterMember { id, peer_urls: url(text), ..Default::default() };
        let membership = Membership {
            members: vec![member(1, "http://a:1"), member(2, "http://b:1")],
            introduced: vec![(2, url("http://moved:1")), (3, url("http://c:1"))],
            conf_state: Default::default(),
            command_set: 2,
            parting: vec![(4, url("http://d:1"))],
            is_removed: false,
        };
        let expected = [
            (1, url("http://a:1")),
            (2, vec!["http://b:1".to_owned(), "http://moved:1".to_owned()]),
            (3, url("http://c:1")),
            (4, url("http://d:1")),
        ];
        assert_eq!(dialled(&membership), BTreeMap::from(expected));
    }

    #[test]
    fn a_frame_that_is_too_large_is_logged_once_and_others_that_are_dropped_are_not() {
        let edge = edge();
        let log = tempfile::NamedTempFile::new().expect("a file");
        let writer = Arc::new(log.reopen().expect("the same file"));
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            edge.send(2, MessageClass::Bulk, &[Bytes::from_static(b"12345"), Bytes::from_static(b"67890")]);
            edge.send(2, MessageClass::Bulk, &[Bytes::from_static(b"12345"), Bytes::from_static(b"678901")]);
            edge.send(2, MessageClass::Bulk, &[Bytes::from_static(b"12345678901")]);
        });
        let text = std::fs::read_to_string(log.path()).expect("the log");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("cannot send a frame to the peer") && text.contains("bytes=11"), "{text}");
    }
}
