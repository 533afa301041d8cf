//! Connections: gRPC and HTTP on the client port, peer streams and HTTP/1 on the peer port.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use transport::{PREFACE, Peers};

use super::connection_cap::{ConnectionCap, ConnectionPermit};
use super::listen::{Listener, SocketPath};
use crate::grpc::{self, ClientProtocol, ClientTransport, ConnectionSettings, ReplayedStart};
use crate::rpc::{Dispatch, RpcWorkers};

/// Numbers the client connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Delay after a failed accept, which would fail again at once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Silence after which the system asks whether the other end of a connection is still there, as etcd has it.
const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two such questions, and how many may remain without an answer: a machine that was switched off is
/// noticed within a minute, long before the ping of `--grpc-keepalive-interval`.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const MAX_TCP_KEEPALIVES: u32 = 3;

/// Time in which a client must have sent the first bytes, which tell its protocol. It sends them when it connects.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which the head of an HTTP/1 request must have arrived; also how long a connection may be idle between two.
const HTTP1_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Both protocols of the client port: gRPC, and HTTP for all else.
#[derive(Clone)]
pub(crate) struct ClientPort {
    pub(crate) grpc: Dispatch,
    /// None where another port has it.
    pub(crate) http: Option<axum::Router>,
}

/// Accepts client connections until `stop`.
pub(crate) async fn clients(
    listener: Listener,
    port: ClientPort,
    settings: ConnectionSettings,
    workers: Arc<RpcWorkers>,
    cap: ConnectionCap,
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |stream, permit, stop| {
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let port = ClientPort { grpc: port.grpc.for_connection(connection), http: port.http.clone() };
        let settings = settings.clone();
        let detached = stream.leave_runtime();
        workers.spawn(async move {
            let _permit = permit;
            match detached.and_then(AcceptedSocket::join_runtime) {
                Ok(AcceptedSocket::Tcp(stream)) => serve_client(stream, port, &settings, stop).await,
                Ok(AcceptedSocket::Unix(stream)) => serve_client(stream, port, &settings, stop).await,
                Err(error) => tracing::warn!(%error, "cannot move a connection to its worker"),
            }
        });
        std::future::ready(())
    })
    .await;
}

/// Serves one client, in the protocol it begins with.
async fn serve_client<I>(stream: I, port: ClientPort, settings: &ConnectionSettings, stop: CancellationToken)
where
    I: ClientTransport,
{
    match stop.run_until_cancelled(first_bytes(stream)).await.flatten() {
        Some((ClientProtocol::Http2, stream)) => {
            grpc::serve(stream, port.grpc, port.http, settings, stop).await
        }
        Some((ClientProtocol::Http1, stream)) => {
            if let Some(http) = port.http {
                serve_http(stream, http, stop).await;
            }
        }
        // A connection that failed, or said nothing in time, concerns only its client.
        None => {}
    }
}

/// What a client speaks, unless its connection fails or it does not say so in time.
async fn first_bytes<I: ClientTransport>(stream: I) -> Option<(ClientProtocol, ReplayedStart<I>)> {
    tokio::time::timeout(FIRST_BYTES_TIMEOUT, grpc::protocol(stream)).await.ok()?.ok()
}

/// Accepts connections of peers: their streams go to the transport, anything else is HTTP.
pub(crate) async fn peers(
    listener: Listener,
    peers: Arc<Peers>,
    http: axum::Router,
    cap: ConnectionCap,
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |stream, permit, stop| {
        let (peers, http) = (peers.clone(), http.clone());
        async move {
            match stream {
                // From here on the transport limits it.
                AcceptedSocket::Tcp(stream) if speaks_preface(&stream).await => {
                    give_to_transport(&peers, stream)
                }
                other => serve(other, http, permit, stop).await,
            }
        }
    })
    .await;
}

/// Serves HTTP/1 alone, for metrics and health.
pub(crate) async fn http(
    listener: Listener,
    router: axum::Router,
    cap: ConnectionCap,
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |stream, permit, stop| serve(stream, router.clone(), permit, stop))
        .await;
}

/// A connection, of either kind.
enum AcceptedSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on its way from one runtime to another.
enum DetachedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedSocket {
    fn leave_runtime(self) -> io::Result<DetachedSocket> {
        Ok(match self {
            AcceptedSocket::Tcp(stream) => DetachedSocket::Tcp(stream.into_std()?),
            AcceptedSocket::Unix(stream) => DetachedSocket::Unix(stream.into_std()?),
        })
    }

    fn join_runtime(detached: DetachedSocket) -> io::Result<AcceptedSocket> {
        Ok(match detached {
            DetachedSocket::Tcp(stream) => AcceptedSocket::Tcp(TcpStream::from_std(stream)?),
            DetachedSocket::Unix(stream) => AcceptedSocket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

/// A listener, registered with the runtime; the path of a Unix socket is removed when this is dropped.
enum BoundListener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _path: SocketPath },
}

impl BoundListener {
    fn new(listener: Listener) -> io::Result<BoundListener> {
        Ok(match listener {
            Listener::Tcp(listener) => BoundListener::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener, path) => {
                BoundListener::Unix { listener: UnixListener::from_std(listener)?, _path: path }
            }
        })
    }

    async fn next(&self) -> io::Result<AcceptedSocket> {
        match self {
            BoundListener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it small responses would wait for acknowledgements.
                let _ = stream.set_nodelay(true);
                // A connection without it works too, but may outlive its client.
                let _ = SockRef::from(&stream).set_tcp_keepalive(&tcp_keepalive());
                Ok(AcceptedSocket::Tcp(stream))
            }
            BoundListener::Unix { listener, .. } => Ok(AcceptedSocket::Unix(listener.accept().await?.0)),
        }
    }
}

fn tcp_keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE_IDLE)
        .with_interval(TCP_KEEPALIVE_INTERVAL)
        .with_retries(MAX_TCP_KEEPALIVES)
}

async fn accept<F, C>(listener: Listener, cap: ConnectionCap, stop: CancellationToken, serve: C)
where
    C: Fn(AcceptedSocket, ConnectionPermit, CancellationToken) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let accepting = match BoundListener::new(listener) {
        Ok(accepting) => accepting,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        tokio::select! {
            accepted = accepting.next() => match accepted {
                Ok(connection) => if let Some(permit) = cap.admit() {
                    tokio::spawn(serve(connection, permit, stop.clone()));
                },
                // The system is out of descriptors or memory: wait until connections have been closed.
                Err(error) => {
                    cap.accept_failed(&error);
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            () = stop.cancelled() => return,
        }
    }
}

async fn serve(
    connection: AcceptedSocket,
    http: axum::Router,
    _permit: ConnectionPermit,
    stop: CancellationToken,
) {
    match connection {
        AcceptedSocket::Tcp(stream) => serve_http(stream, http, stop).await,
        AcceptedSocket::Unix(stream) => serve_http(stream, http, stop).await,
    }
}

async fn serve_http<I>(stream: I, http: axum::Router, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(http);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP1_HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // A failed connection concerns only its client.
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Whether the connection begins like a peer stream. The first byte decides: no other protocol begins with it.
async fn speaks_preface(stream: &TcpStream) -> bool {
    let mut first = [0; 1];
    let peeked = tokio::time::timeout(FIRST_BYTES_TIMEOUT, stream.peek(&mut first)).await;
    matches!(peeked, Ok(Ok(1))) && first[0] == PREFACE[0]
}

fn give_to_transport(peers: &Peers, stream: TcpStream) {
    let blocking = stream.into_std().and_then(|stream| {
        stream.set_nonblocking(false)?;
        Ok(stream)
    });
    match blocking {
        Ok(stream) => {
            if let Err(error) = peers.accept(stream) {
                tracing::warn!(%error, "cannot accept the connection of a peer");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot accept the connection of a peer"),
    }
}

#[cfg(test)]
mod tests {
    //! Silent and superfluous connections are closed.
    use prometheus::IntCounter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

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
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"GET /health HTTP/1.1\r\nHost: ").await.expect("room");
        let begun = Instant::now();
        serve_http(ours, axum::Router::new(), CancellationToken::new()).await;
        assert_eq!(begun.elapsed().as_secs(), HTTP1_HEAD_TIMEOUT.as_secs());
    }

    #[tokio::test]
    async fn a_connection_beyond_the_cap_is_closed_and_counted() {
        let (listener, address) = listener();
        let refused = IntCounter::new("refused", "those beyond").expect("a good name");
        let cap = ConnectionCap::new("test", 1, refused.clone());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(http(listener, axum::Router::new(), cap, stop.clone()));
        let mut first = TcpStream::connect(address).await.expect("it listens");
        first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("open");
        first.read_u8().await.expect("an answer");
        let mut second = TcpStream::connect(address).await.expect("it listens");
        assert_eq!(second.read(&mut [0]).await.expect("an orderly end"), 0);
        assert_eq!(refused.get(), 1);
        stop.cancel();
        serving.await.expect("it ends");
    }
}
