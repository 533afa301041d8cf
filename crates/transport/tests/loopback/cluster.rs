//! Members on loopback sockets that write down what reaches them. Tests wait for conditions, never for time.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustls::{ServerConfig, ServerConnection};
use transport::{
    AcceptedConnection, Admission, Error, FrameSink, PeerIdentity, Peers, PeersConfig, Refusal,
    RefusalReason, SendOutcome, Side, SnapshotReceiver, SnapshotSink, StreamClass,
};

/// Long enough for any loaded machine: reached only by a test that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const CLUSTER: u64 = 0xc1;

pub(crate) fn identity(member_id: u64) -> PeerIdentity {
    PeerIdentity { cluster_id: CLUSTER, member_id, incarnation: member_id * 100 }
}

/// What a member has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) frames: Vec<(u64, StreamClass, Bytes)>,
    pub(crate) ups: BTreeMap<(u64, StreamClass), usize>,
    pub(crate) downs: Vec<(u64, StreamClass, String)>,
    pub(crate) not_listening: Vec<(u64, StreamClass)>,
    pub(crate) refusals: Vec<(u64, Side, Refusal)>,
    pub(crate) round_trips: usize,
    /// While set, the sink blocks on bulk frames.
    pub(crate) bulk_blocked: bool,
    /// Bulk frames that were handed to the sink, whether it has let them pass or not.
    pub(crate) bulk_begun: usize,
    /// Members that are turned away.
    pub(crate) barred: BTreeMap<u64, Refusal>,
    /// The oldest version that a peer must speak.
    pub(crate) min_version: u16,
    pub(crate) snapshots: Snapshots,
}

/// Where the snapshots of a member go.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Survives broken streams, as a file would.
    pub(crate) kept: Vec<u8>,
    pub(crate) begun: Vec<(u64, Bytes)>,
    pub(crate) ended: Vec<u64>,
    pub(crate) dropped: usize,
    /// The chunk at or after this offset fails.
    pub(crate) fail_at: Option<u64>,
    pub(crate) refuse: Option<String>,
}

impl Seen {
    pub(crate) fn bodies(&self, class: StreamClass) -> Vec<Bytes> {
        let of_class = self.frames.iter().filter(|(_, found, _)| *found == class);
        of_class.map(|(_, _, body)| body.clone()).collect()
    }
}

#[derive(Default)]
pub(crate) struct Journal {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Journal {
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.seen.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `condition` holds.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.seen.lock();
        while !condition(&seen) {
            assert!(!self.changed.wait_until(&mut seen, deadline).timed_out(), "waited in vain: {what}");
        }
        seen
    }

    pub(crate) fn wait_up(&self, peer: u64, times: usize) {
        for class in StreamClass::ALL {
            drop(self.wait_for("streams to stand", |seen| {
                seen.ups.get(&(peer, class)).is_some_and(|ups| *ups >= times)
            }));
        }
    }
}

impl Admission for Journal {
    fn admit(&self, peer: &PeerIdentity) -> Result<(), Refusal> {
        if peer.incarnation != identity(peer.member_id).incarnation {
            return Err(Refusal::new(RefusalReason::WrongIncarnation, "the member was wiped"));
        }
        self.seen.lock().barred.get(&peer.member_id).map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    fn min_version(&self) -> u16 {
        self.seen.lock().min_version
    }
}

impl FrameSink for Journal {
    fn frame(&self, from: u64, class: StreamClass, frame: Bytes, _more: bool) {
        if class == StreamClass::Bulk {
            self.change(|seen| seen.bulk_begun += 1);
            drop(self.wait_for("bulk to be released", |seen| !seen.bulk_blocked));
        }
        self.change(|seen| seen.frames.push((from, class, frame)));
    }

    fn up(&self, peer: u64, class: StreamClass, _connection: u64, version: u16) {
        assert_eq!(version, transport::MAX_VERSION, "both sides speak it");
        self.change(|seen| *seen.ups.entry((peer, class)).or_default() += 1);
    }

    fn down(&self, peer: u64, class: StreamClass, _connection: u64, why: &Error) {
        self.change(|seen| seen.downs.push((peer, class, why.to_string())));
    }

    fn not_listening(&self, peer: u64, class: StreamClass) {
        self.change(|seen| seen.not_listening.push((peer, class)));
    }

    fn refused(&self, peer: u64, by: Side, refusal: &Refusal) {
        self.change(|seen| seen.refusals.push((peer, by, refusal.clone())));
    }

    fn round_trip(&self, _peer: u64, _time: Duration) {
        self.change(|seen| seen.round_trips += 1);
    }
}

/// The snapshot end of a journal.
pub(crate) struct KeptSnapshots(pub Arc<Journal>);

impl SnapshotSink for KeptSnapshots {
    fn begin(&self, from: u64, header: Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String> {
        let journal = self.0.clone();
        self.0.change(|seen| match seen.snapshots.refuse.clone() {
            Some(reason) => Err(reason),
            None => {
                seen.snapshots.begun.push((from, header));
                Ok((seen.snapshots.kept.len() as u64, Box::new(Taking(journal)) as _))
            }
        })
    }
}

struct Taking(Arc<Journal>);

impl SnapshotReceiver for Taking {
    fn chunk(&mut self, offset: u64, bytes: Bytes) -> Result<(), String> {
        self.0.change(|seen| {
            let kept = &mut seen.snapshots;
            if kept.fail_at.is_some_and(|fail_at| offset >= fail_at) {
                return Err("no space left on device".into());
            }
            assert_eq!(offset, kept.kept.len() as u64);
            kept.kept.extend_from_slice(&bytes);
            Ok(())
        })
    }

    fn end(self: Box<Self>, length: u64) -> Result<(), String> {
        self.0.change(|seen| seen.snapshots.ended.push(length));
        Ok(())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.change(|seen| seen.snapshots.dropped += 1);
    }
}

/// A member: a listener whose connections all go to its peers.
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) peers: Arc<Peers>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) address: SocketAddr,
    scheme: &'static str,
    /// Clones of the sockets it accepted, so that a test can cut them.
    pub(crate) accepted: Arc<Mutex<Vec<TcpStream>>>,
    stop: Arc<Mutex<bool>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Member {
    pub(crate) fn start(id: u64) -> Member {
        Member::configured(PeersConfig::new(identity(id)))
    }

    pub(crate) fn configured(config: PeersConfig) -> Member {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Member::listening(config, listener)
    }

    pub(crate) fn listening(config: PeersConfig, listener: TcpListener) -> Member {
        Member::accepting(config, listener, None)
    }

    /// A member whose listener does TLS first, if it has a configuration for it.
    pub(crate) fn accepting(
        config: PeersConfig,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
    ) -> Member {
        let id = config.local.member_id;
        let journal = Arc::new(Journal::default());
        let kept = Arc::new(KeptSnapshots(journal.clone()));
        let peers = Arc::new(Peers::start(config, journal.clone(), journal.clone(), kept));
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(Mutex::new(false));
        let acceptor = {
            let (peers, accepted, stop, tls) = (peers.clone(), accepted.clone(), stop.clone(), tls.clone());
            std::thread::spawn(move || {
                for connection in listener.incoming() {
                    if *stop.lock() {
                        return;
                    }
                    let connection = connection.unwrap();
                    accepted.lock().push(connection.try_clone().unwrap());
                    // A dialler that has given up meanwhile, or is refused by its certificate, is no peer.
                    if let Some(connection) = begin(connection, tls.as_ref()) {
                        let _ = peers.accept(connection);
                    }
                }
            })
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        Member { id, peers, journal, address, scheme, accepted, stop, acceptor: Some(acceptor) }
    }

    pub(crate) fn url(&self) -> Vec<String> {
        vec![format!("{}://{}", self.scheme, self.address)]
    }

    /// Breaks all connections that were accepted so far.
    pub(crate) fn cut(&self) {
        for connection in self.accepted.lock().drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Sends a frame, which must be taken.
    pub(crate) fn send(&self, to: u64, class: StreamClass, body: impl Into<Bytes>) {
        assert_eq!(self.peers.send(to, class, &[body.into()]), SendOutcome::Queued);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        *self.stop.lock() = true;
        self.journal.change(|seen| seen.bulk_blocked = false);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Does the acceptor's side of the TLS handshake, if there is one.
pub(crate) fn begin(mut tcp: TcpStream, tls: Option<&Arc<ServerConfig>>) -> Option<AcceptedConnection> {
    let Some(config) = tls else { return Some(AcceptedConnection::Plain(tcp)) };
    let mut session = Box::new(ServerConnection::new(config.clone()).unwrap());
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut tcp).ok()?;
    }
    tcp.set_read_timeout(None).unwrap();
    Some(AcceptedConnection::Tls(tcp, session))
}

/// Two members that know each other, with all streams standing.
pub(crate) fn pair(first: PeersConfig, second: PeersConfig) -> (Member, Member) {
    introduce(Member::configured(first), Member::configured(second))
}

/// Makes two members know each other, and waits until all streams stand.
pub(crate) fn introduce(first: Member, second: Member) -> (Member, Member) {
    first.peers.set(second.id, &second.url()).unwrap();
    second.peers.set(first.id, &first.url()).unwrap();
    first.journal.wait_up(second.id, 1);
    second.journal.wait_up(first.id, 1);
    (first, second)
}
