//! One HTTP/2 connection to a member.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, SendStream};
use http::{Method, Request};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::error::CallError;
use super::options::ClientOptions;
use super::socket::{Duplex, connect};

/// Bytes that a server may send before we have read them: enough for a snapshot to fill a fast line.
const WINDOW_BYTES: u32 = 8 << 20;

/// Size of the largest frame that we accept.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Servers refuse connections that ping more often (gRPC's libraries enforce the same minimum).
const MIN_PING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection that calls can be made on; clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    authority: Arc<str>,
    open: Arc<AtomicBool>,
}

impl Connection {
    /// Connects to a member.
    pub(super) async fn open_to(endpoint: &Endpoint, options: &ClientOptions) -> Result<Self, CallError> {
        let connecting = async {
            let socket = connect(endpoint, options).await?;
            Self::start(socket, endpoint, options).await
        };
        let late = CallError::status(
            api::Code::Unavailable.number(),
            "no connection within the dial timeout".to_owned(),
        );
        tokio::time::timeout(options.dial_timeout, connecting).await.unwrap_or(Err(late))
    }

    async fn start(
        socket: Box<dyn Duplex>,
        endpoint: &Endpoint,
        options: &ClientOptions,
    ) -> Result<Self, CallError> {
        let (requests, mut connection) = Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .handshake(socket)
            .await
            .map_err(CallError::from_h2)?;
        let open = Arc::new(AtomicBool::new(true));
        let pings = connection.ping_pong();
        let closed = open.clone();
        let interval = options.keepalive_interval.max(MIN_PING_INTERVAL);
        let timeout = options.keepalive_timeout;
        let (ready, answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = ping(pings, ready, interval, timeout) => {}
            }
            closed.store(false, Ordering::Relaxed);
        });
        // A server that refuses our certificate, or speaks no HTTP/2, does so after the handshake: only its first
        // answer says that calls can be made.
        let refused = || {
            CallError::status(api::Code::Unavailable.number(), "the server closed the connection".to_owned())
        };
        answered.await.map_err(|_| refused())?;
        Ok(Self { requests, authority: endpoint.authority().into(), open })
    }

    /// Whether calls can still be made on it.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Begins a call.
    pub(super) async fn open(
        &mut self,
        method: &str,
        token: Option<&str>,
        deadline: Option<Instant>,
    ) -> Result<(SendStream<Bytes>, ResponseFuture), CallError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{method}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", concat!("stele-ctl/", env!("CARGO_PKG_VERSION")))
            .header("client-api-version", "3.7");
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            request = request.header("grpc-timeout", format!("{}m", left.as_millis()));
        }
        if let Some(token) = token {
            request = request.header("token", token).header("authorization", token);
        }
        if method == api::methods::WATCH_WATCH || method == api::methods::LEASE_KEEP_ALIVE {
            request = request.header("hasleader", "true");
        }
        let request = request.body(()).map_err(|error| CallError::status(13, error.to_string()))?;
        std::future::poll_fn(|context| self.requests.poll_ready(context))
            .await
            .map_err(CallError::from_h2)?;
        let (answer, send) = self.requests.send_request(request, false).map_err(CallError::from_h2)?;
        Ok((send, answer))
    }
}

/// Asks the peer for signs of life, says when the first has come, and returns when there is none.
async fn ping(pings: Option<PingPong>, ready: oneshot::Sender<()>, interval: Duration, timeout: Duration) {
    let Some(mut pings) = pings else { return };
    let mut ready = Some(ready);
    loop {
        let answer = tokio::time::timeout(timeout, pings.ping(Ping::opaque())).await;
        if !matches!(answer, Ok(Ok(_))) {
            return;
        }
        if let Some(ready) = ready.take() {
            // The dial timeout may have passed meanwhile.
            let _ = ready.send(());
        }
        tokio::time::sleep(interval).await;
    }
}
