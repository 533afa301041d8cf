//! Connections: gRPC and HTTP on the client port, peer streams and HTTP/1 on the peer port.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use transport::{PREFACE, Peers};

use super::listen::{Listener, SocketPath};
use crate::grpc::{self, ConnectionSettings};
use crate::rpc::{Dispatch, RpcWorkers};

/// Numbers the client connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Delay after a failed accept, which would fail again at once.
const ACCEPT_RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(100);

/// Both protocols of the client port: gRPC, and HTTP for all else.
#[derive(Clone)]
pub(crate) struct ClientPort {
    pub(crate) grpc: Dispatch,
    pub(crate) http: axum::Router,
}

/// Accepts client connections until `stop`.
pub(crate) async fn clients(
    listener: Listener,
    port: ClientPort,
    settings: ConnectionSettings,
    workers: Arc<RpcWorkers>,
    stop: CancellationToken,
) {
    accept(listener, stop, move |stream, stop| {
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let port = ClientPort { grpc: port.grpc.for_connection(connection), http: port.http.clone() };
        let settings = settings.clone();
        let detached = stream.leave_runtime();
        workers.spawn(async move {
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
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match stop.run_until_cancelled(grpc::speaks_http2(stream)).await {
        Some(Ok((true, stream))) => grpc::serve(stream, port.grpc, port.http, settings, stop).await,
        Some(Ok((false, stream))) => {
            serve_http(stream, port.http, stop).await;
        }
        // A failed connection concerns only its client.
        Some(Err(_)) | None => {}
    }
}

/// Accepts connections of peers: their streams go to the transport, anything else is HTTP.
pub(crate) async fn peers(
    listener: Listener,
    peers: Arc<Peers>,
    http: axum::Router,
    stop: CancellationToken,
) {
    accept(listener, stop, move |stream, stop| {
        let (peers, http) = (peers.clone(), http.clone());
        async move {
            match stream {
                AcceptedSocket::Tcp(stream) if speaks_preface(&stream).await => {
                    give_to_transport(&peers, stream)
                }
                other => serve(other, http, stop).await,
            }
        }
    })
    .await;
}

/// Serves HTTP/1 alone, for metrics and health.
pub(crate) async fn http(listener: Listener, router: axum::Router, stop: CancellationToken) {
    accept(listener, stop, move |stream, stop| serve(stream, router.clone(), stop)).await;
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
                Ok(AcceptedSocket::Tcp(stream))
            }
            BoundListener::Unix { listener, .. } => Ok(AcceptedSocket::Unix(listener.accept().await?.0)),
        }
    }
}

async fn accept<F, C>(listener: Listener, stop: CancellationToken, serve: C)
where
    C: Fn(AcceptedSocket, CancellationToken) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let accepting = match BoundListener::new(listener) {
        Ok(accepting) => accepting,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        tokio::select! {
            accepted = accepting.next() => match accepted {
                Ok(connection) => {
                    tokio::spawn(serve(connection, stop.clone()));
                }
                // Usually out of descriptors: wait until connections have been closed.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            () = stop.cancelled() => return,
        }
    }
}

async fn serve(connection: AcceptedSocket, http: axum::Router, stop: CancellationToken) {
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
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
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
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0] == PREFACE[0]
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
