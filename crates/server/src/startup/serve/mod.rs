//! Connections: gRPC and HTTP on the client port, peer streams and HTTP/1 on the peer port. With TLS, HTTP/2 is served
//! wherever the clients of HTTP connect.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::Extensions;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_util::sync::CancellationToken;
use transport::{AcceptedConnection, PEER_ALPN, PREFACE, Peers};

use super::connection_cap::{ConnectionCap, ConnectionPermit};
use super::listen::{Listener, SocketPath};
use super::sockets::{AcceptedSocket, FIRST_BYTES_TIMEOUT, ListenerSecurity, SecuredSocket};
use crate::gateway::GatewayConnection;
use crate::grpc::{self, ClientProtocol, ClientTransport, ConnectionSettings, NoCalls, ReplayedStart};
use crate::http::{ConnectionRouter, IsSecure};
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

/// Time in which the head of an HTTP/1 request must have arrived; also how long a connection may be idle between two.
const HTTP1_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Both protocols of the client port: gRPC, and HTTP for all else.
#[derive(Clone)]
pub(crate) struct ClientPort {
    /// Serves calls, also those of the JSON gateway.
    pub(crate) dispatch: Dispatch,
    /// Whether gRPC is served, or only HTTP.
    pub(crate) has_grpc: bool,
    /// None where another port has it.
    pub(crate) http: Option<Router>,
    /// Whether the common name of a client's certificate is the name of its user (`--client-cert-auth`).
    pub(crate) certificates_name_users: bool,
}

/// Accepts client connections until `stop`.
pub(crate) async fn clients(
    listener: Listener,
    security: ListenerSecurity,
    port: ClientPort,
    settings: ConnectionSettings,
    workers: Arc<RpcWorkers>,
    cap: ConnectionCap,
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |stream, permit, stop| {
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let source = stream.source();
        let (port, security, settings) = (port.clone(), security.clone(), settings.clone());
        let detached = stream.leave_runtime();
        workers.spawn(async move {
            let permit = Arc::new(permit);
            let socket = match detached.and_then(AcceptedSocket::join_runtime) {
                Ok(socket) => socket,
                Err(error) => return tracing::warn!(%error, "cannot move a connection to its worker"),
            };
            let secured = stop.run_until_cancelled(Box::pin(security.secure(socket))).await.flatten();
            let Some(socket) = secured else { return };
            let common_name = socket.common_name().filter(|_| port.certificates_name_users);
            let gateway = GatewayConnection {
                dispatch: port.dispatch.for_connection(connection, source, None),
                has_common_name: common_name.as_deref().is_some_and(|name| !name.is_empty()),
                stop: stop.clone(),
                _held: permit.clone(),
            };
            let mut extensions = Extensions::new();
            extensions.insert(gateway);
            extensions.insert(IsSecure(matches!(socket, SecuredSocket::Tls(_))));
            let client = Client {
                grpc: port.has_grpc.then(|| port.dispatch.for_connection(connection, source, common_name)),
                http: port.http.map(|router| ConnectionRouter::new(router, extensions)),
            };
            serve_client(socket, client, &settings, stop).await;
        });
        std::future::ready(())
    })
    .await;
}

/// What one connection is served.
struct Client {
    grpc: Option<Dispatch>,
    http: Option<ConnectionRouter>,
}

/// Serves one client, in the protocol it begins with; where there is no gRPC, in HTTP/1 unless the handshake has chosen
/// HTTP/2. What serves a protocol is boxed: a task has the size of its largest state, and there may be 100,000 of them,
/// most of them idle.
async fn serve_client<I>(stream: I, client: Client, settings: &ConnectionSettings, stop: CancellationToken)
where
    I: ClientTransport,
{
    let Some(grpc) = client.grpc else {
        return Box::pin(serve_http_alone(stream, client.http.unwrap_or_default(), settings, stop)).await;
    };
    match stop.run_until_cancelled(first_bytes(stream)).await.flatten() {
        Some((ClientProtocol::Http2, stream)) => {
            Box::pin(grpc::serve(stream, grpc, client.http, settings, stop)).await;
        }
        Some((ClientProtocol::Http1, stream)) => {
            if let Some(http) = client.http {
                Box::pin(serve_http(stream, http, stop)).await;
            }
        }
        // A connection that failed, or said nothing in time, concerns only its client.
        None => {}
    }
}

/// Serves HTTP without gRPC: HTTP/2 if the handshake has chosen that.
async fn serve_http_alone<I: ClientTransport>(
    stream: I,
    http: ConnectionRouter,
    settings: &ConnectionSettings,
    stop: CancellationToken,
) {
    match stream.protocol() {
        Some(ClientProtocol::Http2) => grpc::serve(stream, NoCalls, Some(http), settings, stop).await,
        Some(ClientProtocol::Http1) | None => serve_http(stream, http, stop).await,
    }
}

/// What a client speaks, unless its connection fails or it does not say so in time.
async fn first_bytes<I: ClientTransport>(stream: I) -> Option<(ClientProtocol, ReplayedStart<I>)> {
    tokio::time::timeout(FIRST_BYTES_TIMEOUT, grpc::protocol(stream)).await.ok()?.ok()
}

/// Time in which a connection to a peer URL must have sent its first byte. Members send it as they connect; a silent
/// connection has a place that a member may need.
const PEER_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts connections of peers: their streams go to the transport, anything else is HTTP. `cap` is for those that are
/// not known to be one or the other, `http_cap` for HTTP, whose connections stay open while their clients like.
pub(crate) async fn peers(
    listener: Listener,
    security: ListenerSecurity,
    peers: Arc<Peers>,
    http: Router,
    (cap, http_cap): (ConnectionCap, ConnectionCap),
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |socket, permit, stop| {
        let (peers, http, security) = (peers.clone(), http.clone(), security.clone());
        let http_cap = http_cap.clone();
        let serve_as_http = move |socket, permit, stop| async move {
            if let Some(held) = http_cap.admit() {
                drop(permit);
                serve(socket, http, held, stop).await;
            }
        };
        async move {
            let first = tokio::time::timeout(PEER_FIRST_BYTE_TIMEOUT, socket.first_byte()).await;
            let Some(first) = first.ok().flatten() else { return };
            match security.secure(socket).await {
                // A stream of a member begins with a byte that no other protocol begins with. From here on the
                // transport limits it.
                Some(SecuredSocket::Plain(socket)) => match socket.into_stream() {
                    Ok(stream) if first == PREFACE[0] => {
                        give_to_transport(&peers, stream, AcceptedConnection::Plain);
                    }
                    Ok(stream) => {
                        let socket = SecuredSocket::Plain(AcceptedSocket::Tcp(stream));
                        serve_as_http(socket, permit, stop).await;
                    }
                    Err(error) => tracing::warn!(%error, "cannot take the connection of a peer"),
                },
                Some(SecuredSocket::Tls(stream)) if stream.get_ref().1.alpn_protocol() == Some(PEER_ALPN) => {
                    let (socket, session) = stream.into_inner();
                    match socket.into_stream() {
                        Ok(stream) => give_to_transport(&peers, stream, |stream| {
                            AcceptedConnection::Tls(stream, Box::new(session))
                        }),
                        Err(error) => tracing::warn!(%error, "cannot take the connection of a peer"),
                    }
                }
                Some(other) => serve_as_http(other, permit, stop).await,
                None => {}
            }
        }
    })
    .await;
}

/// Serves HTTP alone, for metrics and health.
pub(crate) async fn http(
    listener: Listener,
    security: ListenerSecurity,
    router: Router,
    settings: ConnectionSettings,
    cap: ConnectionCap,
    stop: CancellationToken,
) {
    accept(listener, cap, stop, move |socket, permit, stop| {
        let (router, security, settings) = (router.clone(), security.clone(), settings.clone());
        async move {
            if let Some(socket) = security.secure(socket).await {
                serve_http_alone(socket, router.into(), &settings, stop).await;
            }
            drop(permit);
        }
    })
    .await;
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

async fn serve(socket: SecuredSocket, http: Router, _permit: ConnectionPermit, stop: CancellationToken) {
    serve_http(socket, http, stop).await;
}

async fn serve_http<I>(stream: I, http: impl Into<ConnectionRouter>, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(http.into());
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP1_HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
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

fn give_to_transport(
    peers: &Peers,
    stream: TcpStream,
    connection: impl FnOnce(std::net::TcpStream) -> AcceptedConnection,
) {
    let blocking = stream.into_std().and_then(|stream| {
        stream.set_nonblocking(false)?;
        Ok(stream)
    });
    match blocking {
        Ok(stream) => {
            if let Err(error) = peers.accept(connection(stream)) {
                tracing::warn!(%error, "cannot accept the connection of a peer");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot accept the connection of a peer"),
    }
}
