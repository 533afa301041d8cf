//! Silent and superfluous connections are closed.

use prometheus::IntCounter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use transport::{
    Admission, FrameSink, PeerIdentity, PeersConfig, Refusal, Side, SnapshotReceiver, SnapshotSink,
    StreamClass,
};

use super::*;

fn listener() -> (Listener, std::net::SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("bound");
    (Listener::Tcp(listener), address)
}

#[tokio::test]
async fn the_system_looks_after_accepted_connections() {
    let (listener, address) = listener();
    let _client = TcpStream::connect(address).await.expect("it listens");
    let listener = BoundListener::new(listener).expect("a socket");
    let Ok(AcceptedSocket::Tcp(stream)) = listener.next().await else { panic!("another socket") };
    let socket = SockRef::from(&stream);
    assert!(socket.keepalive().expect("a socket"));
    assert_eq!(socket.tcp_keepalive_time().expect("a socket"), TCP_KEEPALIVE_IDLE);
    assert_eq!(socket.tcp_keepalive_interval().expect("a socket"), TCP_KEEPALIVE_INTERVAL);
    assert_eq!(socket.tcp_keepalive_retries().expect("a socket"), MAX_TCP_KEEPALIVES);
}

#[tokio::test(start_paused = true)]
async fn a_connection_must_say_what_it_speaks() {
    for said in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(said).await.expect("room");
        let begun = Instant::now();
        assert!(first_bytes(ours).await.is_none());
        assert_eq!(begun.elapsed().as_secs(), FIRST_BYTES_TIMEOUT.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_request_must_arrive_in_time() {
    // The second time behind a request that is answered.
    for before in ["", "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"] {
        for begins in ["GET /health HTTP/1.1\r\nHost: ", ""] {
            let (ours, mut theirs) = tokio::io::duplex(4096);
            theirs.write_all(format!("{before}{begins}").as_bytes()).await.expect("room");
            let begun = Instant::now();
            serve_http(ours, Router::new(), CancellationToken::new()).await;
            assert_eq!(begun.elapsed().as_secs(), HTTP1_HEAD_TIMEOUT.as_secs(), "{before}{begins}");
        }
    }
}

#[tokio::test]
async fn a_connection_beyond_the_cap_is_closed_and_counted() {
    let (listener, address) = listener();
    let refused = IntCounter::new("refused", "those beyond").expect("a good name");
    let cap = ConnectionCap::new("test", 1, refused.clone());
    let stop = CancellationToken::new();
    let keepalive = crate::config::GrpcKeepalive {
        interval: Duration::ZERO,
        timeout: Duration::ZERO,
        min_client_interval: Duration::ZERO,
    };
    let settings = ConnectionSettings {
        max_concurrent_streams: Arc::new(1.into()),
        keepalive,
        memory: Default::default(),
    };
    let plain = ListenerSecurity::Plain;
    let serving = tokio::spawn(http(listener, plain, Router::new(), settings, cap, stop.clone()));
    let mut first = TcpStream::connect(address).await.expect("it listens");
    first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("open");
    first.read_u8().await.expect("an answer");
    let mut second = TcpStream::connect(address).await.expect("it listens");
    assert_eq!(second.read(&mut [0]).await.expect("an orderly end"), 0);
    assert_eq!(refused.get(), 1);
    stop.cancel();
    serving.await.expect("it ends");
}

/// Members whose streams never come.
struct NoMembers;

impl Admission for NoMembers {
    fn admit(&self, _: &PeerIdentity) -> Result<(), Refusal> {
        Ok(())
    }
}

impl FrameSink for NoMembers {
    fn frame(&self, _: u64, _: StreamClass, _: bytes::Bytes, _: bool) {}

    fn up(&self, _: u64, _: StreamClass, _: u64, _: u16) {}

    fn down(&self, _: u64, _: StreamClass, _: u64, _: &transport::Error) {}

    fn refused(&self, _: u64, _: Side, _: &Refusal) {}
}

impl SnapshotSink for NoMembers {
    fn begin(&self, _: u64, _: bytes::Bytes) -> Result<(u64, Box<dyn SnapshotReceiver>), String> {
        Err("none is expected".to_owned())
    }
}

/// A peer port with one place for connections that have shown nothing, and one for HTTP; what each has refused.
fn peer_port() -> (std::net::SocketAddr, [IntCounter; 2], CancellationToken) {
    let (listener, address) = listener();
    let config = PeersConfig::new(PeerIdentity { cluster_id: 7, member_id: 1, incarnation: 1 });
    let none = || Arc::new(NoMembers);
    let transport = Arc::new(Peers::start(config, none(), none(), none()));
    let refused = [(); 2].map(|()| IntCounter::new("refused", "those beyond").expect("a good name"));
    let caps = refused.each_ref().map(|refused| ConnectionCap::new("test", 1, refused.clone()));
    let stop = CancellationToken::new();
    let router = axum::Router::new();
    tokio::spawn(peers(listener, ListenerSecurity::Plain, transport, router, caps.into(), stop.clone()));
    (address, refused, stop)
}

#[tokio::test]
async fn http_on_the_peer_port_keeps_no_member_out() {
    let (address, [unknown, http], stop) = peer_port();
    let mut first = TcpStream::connect(address).await.expect("it listens");
    first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("open");
    first.read_u8().await.expect("an answer");
    let mut second = TcpStream::connect(address).await.expect("it listens");
    second.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("open");
    assert!(matches!(second.read(&mut [0]).await, Ok(0) | Err(_)), "it is closed");
    assert_eq!((unknown.get(), http.get()), (0, 1), "the first keeps the place of HTTP alone");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_to_the_peer_port_is_closed_soon() {
    let (address, _, stop) = peer_port();
    let begun = Instant::now();
    let mut silent = TcpStream::connect(address).await.expect("it listens");
    assert_eq!(silent.read(&mut [0]).await.expect("an orderly end"), 0);
    assert_eq!(begun.elapsed().as_secs(), PEER_FIRST_BYTE_TIMEOUT.as_secs());
    stop.cancel();
}
