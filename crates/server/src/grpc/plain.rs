//! HTTP/2 requests that are not gRPC: they get what HTTP/1 gets.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame};
use tower::Service as _;

use super::reply::{ClientGone, send_in_window};

/// Serves one request.
pub(super) async fn serve(mut router: Router, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    let Ok(response) = router.call(request.map(|body| Body::new(RequestBody(body)))).await;
    // A client that is gone does not need its answer.
    let _ = answer(response, respond).await;
}

async fn answer(response: Response<Body>, mut respond: SendResponse<Bytes>) -> Result<(), ClientGone> {
    let (head, mut body) = response.into_parts();
    let is_empty = body.is_end_stream();
    let mut stream = respond.send_response(Response::from_parts(head, ()), is_empty)?;
    if is_empty {
        return Ok(());
    }
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        // Nothing is left to say when the handler fails midway: the stream is reset.
        let Ok(frame) = frame else { return Ok(()) };
        if let Ok(data) = frame.into_data() {
            send_in_window(&mut stream, data).await?;
        }
    }
    Ok(stream.send_data(Bytes::new(), true)?)
}

/// The body of a request, as the router reads it.
struct RequestBody(RecvStream);

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(context)) else {
            return self.0.poll_trailers(context).map(|end| end.transpose().map(trailers));
        };
        let data = data.and_then(|data| {
            self.0.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        });
        Poll::Ready(Some(data))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

fn trailers(trailers: Result<HeaderMap, h2::Error>) -> Result<Frame<Bytes>, h2::Error> {
    trailers.map(Frame::trailers)
}
