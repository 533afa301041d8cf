//! A call that an HTTP request has begun, until its deadline.

use api::Code;
use bytes::Bytes;
use futures_util::stream;
use gateway::Route;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::gateway_request::GatewayRequest;
use super::json_requests::JsonRequests;
use super::metadata;
use super::transcoder::Transcoder;
use crate::grpc::{BodyRoom, Failure, GrpcService as _, LocalCall, LocalRequests};

/// A call and what its answers become.
pub(super) struct GatewayCall {
    route: Route,
    call: LocalCall,
    deadline: Option<Instant>,
    stop: CancellationToken,
    transcoder: Transcoder,
}

/// Begins the call of a request with this body. A method that takes one message gets the first value of the body, and
/// an empty message if there is none; what follows is not looked at. The body of a POST is read to its end before
/// such a call, as in etcd; a WebSocket has no end of a body.
///
/// # Errors
/// When the headers or that value are not what they should be, or the time of the call is over. A member that stops
/// serves the requests that it has begun to read.
pub(super) async fn begin(
    request: &GatewayRequest,
    body: LocalRequests,
    has_end: bool,
) -> Result<GatewayCall, Failure> {
    let GatewayRequest { route, connection, head, transcoder } = request;
    let max_message_bytes = connection.dispatch.max_message_bytes();
    let room = head.extensions.get::<BodyRoom>().cloned();
    // A connection of HTTP/1 has one call at a time.
    let ranges = room.as_ref().map(BodyRoom::ranges).unwrap_or_default();
    let requests = JsonRequests::new(route.clone(), body, max_message_bytes, transcoder.clone(), room);
    let deadline = match metadata::timeout(&head.headers) {
        Ok(time) => time.and_then(|time| Instant::now().checked_add(time)),
        Err(failure) => return Err(refused(requests, failure, has_end).await),
    };
    let stop = connection.stop.clone();
    let requests: LocalRequests = if route.takes_stream {
        Box::pin(stream::try_unfold(requests, |mut requests| async {
            Ok(requests.next().await?.map(|message| (message, requests)))
        }))
    } else {
        let message = tokio::select! {
            biased;
            late = late(deadline) => return Err(late),
            message = only_message(requests, has_end) => message?,
        };
        Box::pin(stream::iter([Ok(message)]))
    };
    let call_head = metadata::call_head(route.method, &head.headers);
    let call = LocalCall::begin(&connection.dispatch, &call_head, requests, ranges);
    Ok(GatewayCall { route: route.clone(), call, deadline, stop, transcoder: transcoder.clone() })
}

async fn only_message(mut requests: JsonRequests, has_end: bool) -> Result<Bytes, Failure> {
    match requests.next().await {
        Ok(message) if has_end => requests.finish().await.map(|()| message.unwrap_or_default()),
        Ok(message) => Ok(message.unwrap_or_default()),
        Err(failure) => Err(refused(requests, failure, has_end).await),
    }
}

/// What a body is refused with, once it was read as far as that is useful.
async fn refused(requests: JsonRequests, failure: Failure, has_end: bool) -> Failure {
    if has_end {
        requests.discard().await;
    }
    failure
}

/// Waits for the end of the time of a call.
async fn late(deadline: Option<Instant>) -> Failure {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
    Failure::new(Code::DeadlineExceeded, "context deadline exceeded")
}

impl GatewayCall {
    /// Whether the answer is a stream.
    pub(super) fn answers_stream(&self) -> bool {
        self.route.answers_stream
    }

    /// The next message of the answer, encoded; `None` at its end. Nothing is lost if this is dropped.
    ///
    /// # Errors
    /// How the call failed. A stream also fails when the member stops.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        tokio::select! {
            // A call that always has an answer would otherwise have neither.
            biased;
            late = late(self.deadline) => Some(Err(late)),
            () = self.stop.cancelled(), if self.route.answers_stream => Some(Err(api::Error::Stopped.into())),
            answer = self.call.next() => answer,
        }
    }

    /// The one message of a call that does not stream, encoded. The call is over then, and counted as it ended.
    ///
    /// # Errors
    /// How the call failed.
    pub(super) async fn only(&mut self) -> Result<Bytes, Failure> {
        let message = self.next().await.unwrap_or_else(|| Err(Failure::unexpected()))?;
        match self.next().await {
            None => Ok(message),
            Some(Err(failure)) => Err(failure),
            Some(Ok(_)) => Err(Failure::unexpected()),
        }
    }

    /// The JSON of a message of the answer.
    ///
    /// # Errors
    /// When it is no such message: a fault of this process.
    pub(super) async fn json(&mut self, message: Bytes) -> Result<Vec<u8>, Failure> {
        let route = self.route.clone();
        let json = self.transcoder.run(message, move |message| route.json(&message)).await;
        json.map_err(|error| Failure::new(Code::Internal, error))
    }
}
