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

use crate::grpc::{self, Settings};
use crate::listen::{Listener, SocketPath};
use crate::rpc::Dispatch;
use crate::workers::Workers;

/// Numbers the client connections of this process.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// The rest after a failed accept, which would only fail again at once.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

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
    settings: Settings,
    workers: Arc<Workers>,
    stop: CancellationToken,
) {
    accept(listener, stop, move |stream, stop| {
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let port = ClientPort { grpc: port.grpc.for_connection(connection), http: port.http.clone() };
        let settings = settings.clone();
        let moved = stream.leave_runtime();
        workers.spawn(async move {
            match moved.and_then(Connection::join_runtime) {
                Ok(Connection::Tcp(stream)) => serve_client(stream, port, &settings, stop).await,
                Ok(Connection::Unix(stream)) => serve_client(stream, port, &settings, stop).await,
                Err(error) => tracing::warn!(%error, "cannot hand a connection to its worker"),
            }
        });
        std::future::ready(())
    })
    .await;
}

/// Serves one client, in the protocol it begins with.
async fn serve_client<I>(stream: I, port: ClientPort, settings: &Settings, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match stop.run_until_cancelled(grpc::speaks_http2(stream)).await {
        Some(Ok((true, stream))) => grpc::serve(stream, port.grpc, port.http, settings, stop).await,
        Some(Ok((false, stream))) => {
            serve_http(stream, port.http, stop).await;
        }
        // A connection that breaks is its client's business.
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
                Connection::Tcp(stream) if speaks_preface(&stream).await => hand_over(&peers, stream),
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
enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection between two runtimes.
enum Moving {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Connection {
    fn leave_runtime(self) -> io::Result<Moving> {
        Ok(match self {
            Connection::Tcp(stream) => Moving::Tcp(stream.into_std()?),
            Connection::Unix(stream) => Moving::Unix(stream.into_std()?),
        })
    }

    fn join_runtime(moving: Moving) -> io::Result<Connection> {
        Ok(match moving {
            Moving::Tcp(stream) => Connection::Tcp(TcpStream::from_std(stream)?),
            Moving::Unix(stream) => Connection::Unix(UnixStream::from_std(stream)?),
        })
    }
}

/// A listener as the runtime knows it; the socket's path is kept until the end.
enum Accepting {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _path: SocketPath },
}

impl Accepting {
    fn new(listener: Listener) -> io::Result<Accepting> {
        Ok(match listener {
            Listener::Tcp(listener) => Accepting::Tcp(TcpListener::from_std(listener)?),
            Listener::Unix(listener, path) => {
                Accepting::Unix { listener: UnixListener::from_std(listener)?, _path: path }
            }
        })
    }

    async fn next(&self) -> io::Result<Connection> {
        match self {
            Accepting::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Without it small answers would wait for acknowledgements.
                let _ = stream.set_nodelay(true);
                Ok(Connection::Tcp(stream))
            }
            Accepting::Unix { listener, .. } => Ok(Connection::Unix(listener.accept().await?.0)),
        }
    }
}

async fn accept<F, C>(listener: Listener, stop: CancellationToken, serve: C)
where
    C: Fn(Connection, CancellationToken) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let accepting = match Accepting::new(listener) {
        Ok(accepting) => accepting,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    loop {
        tokio::select! {
            accepted = accepting.next() => match accepted {
                Ok(connection) => {
                    tokio::spawn(serve(connection, stop.clone()));
                }
                // Out of descriptors, as a rule: give others time to close theirs.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = stop.cancelled() => return,
        }
    }
}

async fn serve(connection: Connection, http: axum::Router, stop: CancellationToken) {
    match connection {
        Connection::Tcp(stream) => serve_http(stream, http, stop).await,
        Connection::Unix(stream) => serve_http(stream, http, stop).await,
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
        // A connection that breaks is its client's business.
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

fn hand_over(peers: &Peers, stream: TcpStream) {
    let handed = stream.into_std().and_then(|stream| {
        stream.set_nonblocking(false)?;
        Ok(stream)
    });
    match handed {
        Ok(stream) => {
            if let Err(error) = peers.accept(stream) {
                tracing::warn!(%error, "cannot take a peer's connection");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot take a peer's connection"),
    }
}
