//! Connections: gRPC and HTTP/1 on the client port, peer streams and HTTP/1 on the peer port.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;
use transport::{PREFACE, Peers};

use crate::config::Keepalive;
use crate::listen::{Listener, SocketPath};
use crate::rpc::Dispatch;
use crate::workers::Workers;

/// Received bytes that may wait in one HTTP/2 stream, and in one connection: enough that a large request flows without
/// waiting for the window, small enough that a thousand connections cannot fill the memory.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// The rest after a failed accept, which would only fail again at once.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// How client connections behave.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) max_concurrent_streams: u32,
    pub(crate) keepalive: Keepalive,
}

/// Both protocols of the client port behind one service: what says it is gRPC goes there, all else is HTTP.
#[derive(Clone)]
pub(crate) struct ClientPort {
    pub(crate) grpc: Dispatch,
    pub(crate) http: axum::Router,
}

impl hyper::service::Service<Request<Incoming>> for ClientPort {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if is_grpc(&request) {
            return self.grpc.clone().call(request);
        }
        let mut http = self.http.clone();
        Box::pin(async move { Ok(http.call(request).await?.map(Body::new)) })
    }
}

fn is_grpc<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"application/grpc"))
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
        let (port, settings) = (port.clone(), settings.clone());
        let moved = stream.leave_runtime();
        workers.spawn(async move {
            match moved.and_then(Connection::join_runtime) {
                Ok(stream) => serve(stream, port, &settings, stop).await,
                Err(error) => tracing::warn!(%error, "cannot hand a connection to its worker"),
            }
        });
        std::future::ready(())
    })
    .await;
}

/// Accepts connections of peers: their streams go to the transport, anything else is HTTP.
pub(crate) async fn peers(
    listener: Listener,
    peers: Arc<Peers>,
    http: axum::Router,
    settings: Settings,
    stop: CancellationToken,
) {
    accept(listener, stop, move |stream, stop| {
        let (peers, http, settings) = (peers.clone(), http.clone(), settings.clone());
        async move {
            match stream {
                Connection::Tcp(stream) if speaks_preface(&stream).await => hand_over(&peers, stream),
                other => {
                    let service = hyper_util::service::TowerToHyperService::new(http);
                    serve(other, service, &settings, stop).await;
                }
            }
        }
    })
    .await;
}

/// Serves HTTP alone, for metrics and health.
pub(crate) async fn http(
    listener: Listener,
    router: axum::Router,
    settings: Settings,
    stop: CancellationToken,
) {
    accept(listener, stop, move |stream, stop| {
        let (service, settings) =
            (hyper_util::service::TowerToHyperService::new(router.clone()), settings.clone());
        async move { serve(stream, service, &settings, stop).await }
    })
    .await;
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

async fn serve<S, B>(connection: Connection, service: S, settings: &Settings, stop: CancellationToken)
where
    S: hyper::service::Service<Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match connection {
        Connection::Tcp(stream) => serve_stream(stream, service, settings, stop).await,
        Connection::Unix(stream) => serve_stream(stream, service, settings, stop).await,
    }
}

async fn serve_stream<I, S, B>(stream: I, service: S, settings: &Settings, stop: CancellationToken)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: hyper::service::Service<Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let builder = http_builder(settings);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
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

fn http_builder(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let Keepalive { interval, timeout, .. } = settings.keepalive;
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(settings.max_concurrent_streams)
        .keep_alive_interval((!interval.is_zero()).then_some(interval))
        .keep_alive_timeout(timeout);
    builder
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
