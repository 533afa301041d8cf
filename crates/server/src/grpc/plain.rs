//! HTTP/2 requests that are not gRPC, and all of a listener without gRPC: they get what HTTP/1 gets.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http::header::{HOST, HeaderName};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body::{Body as _, Frame};
use http2::{ErrorCode, Field, RequestHead};
use tower::Service as _;

use super::handle::{ClientGone, StreamHandle};
use super::room::BodyRoom;
use crate::http::ConnectionRouter;

/// Headers of a request that is not gRPC: as many as over HTTP/1. A map of headers refuses tens of thousands with a
/// panic.
const MAX_PLAIN_FIELDS: usize = 100;

/// Serves one request, until its client goes. A malformed one has its stream reset.
pub(super) async fn serve(
    mut router: ConnectionRouter,
    head: std::sync::Arc<RequestHead>,
    stream: StreamHandle,
) {
    let Some(request) = request(&head) else { return stream.reset(ErrorCode::Protocol) };
    drop(head);
    let body = RequestBody { stream: stream.clone(), has_ended: false };
    let mut request = request.map(|()| Body::new(body));
    request.extensions_mut().insert(BodyRoom::of(stream.clone()));
    let response = unless_gone(&stream, router.call(request)).await;
    let Ok(Ok(response)) = response else { return };
    // A client that is gone does not need its answer. A handler that fails midway has nothing left to say.
    let _ = answer(response, &stream).await;
    stream.reset(ErrorCode::Internal);
}

/// The request as HTTP knows it; `None` if it is none: a method, a scheme and a path are missing, or a header is of
/// HTTP/1 (RFC 9113, sections 8.2.2 and 8.3.1).
fn request(head: &RequestHead) -> Option<Request<()>> {
    head.pseudo(":scheme")?;
    let method = Method::from_bytes(head.method()).ok()?;
    let uri = Uri::try_from(head.path()).ok()?;
    if head.all("te").any(|te| te != b"trailers") {
        return None;
    }
    if head.fields().nth(MAX_PLAIN_FIELDS).is_some() {
        return None;
    }
    let mut request = Request::builder().method(method).uri(uri).body(()).ok()?;
    let headers = request.headers_mut();
    for (name, value) in head.fields() {
        headers.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    if let Some(authority) = head.pseudo(":authority") {
        headers.insert(HOST, HeaderValue::from_bytes(authority).ok()?);
    }
    Some(request)
}

/// Awaits `work`; drops it if the client goes first.
async fn unless_gone<T>(stream: &StreamHandle, work: impl Future<Output = T>) -> Result<T, ClientGone> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => stream.poll_gone(context).map(Err),
    })
    .await
}

async fn answer(response: Response<Body>, stream: &StreamHandle) -> Result<(), ClientGone> {
    let (head, mut body) = response.into_parts();
    let is_empty = body.is_end_stream();
    let status = Field { name: ":status", value: head.status.as_str().as_bytes(), is_usual: false };
    let header = |(name, value): (&'_ HeaderName, &'_ HeaderValue)| (name.clone(), value.clone());
    let headers: Vec<_> = head.headers.iter().map(header).collect();
    let fields = headers.iter().map(|(name, value)| Field {
        name: name.as_str(),
        value: value.as_bytes(),
        is_usual: false,
    });
    let fields: Vec<_> = std::iter::once(status).chain(fields).collect();
    stream.with(|connection, stream| connection.send_headers(stream, &fields, is_empty))?;
    if is_empty {
        return Ok(());
    }
    loop {
        let frame = unless_gone(stream, poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await?;
        let Some(frame) = frame else { break };
        let Ok(frame) = frame else { return Ok(()) };
        if let Ok(data) = frame.into_data() {
            stream.with(|connection, stream| connection.send_data(stream, data))?;
            poll_fn(|context| stream.poll_sent(context)).await?;
        }
    }
    stream.with(|connection, stream| connection.finish(stream, &[]))
}

/// The body of a request, as the router reads it.
struct RequestBody {
    stream: StreamHandle,
    has_ended: bool,
}

/// The client has reset the request.
#[derive(Debug, thiserror::Error)]
#[error("the client has gone")]
struct BodyGone;

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = BodyGone;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyGone>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let data = ready!(self.stream.poll_body(context));
        self.has_ended = data.as_ref().map_or(true, Vec::is_empty);
        Poll::Ready(match data {
            Ok(data) if data.is_empty() => None,
            Ok(data) => Some(Ok(Frame::data(data.into()))),
            Err(ClientGone) => Some(Err(BodyGone)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.stream.is_finished()
    }
}
