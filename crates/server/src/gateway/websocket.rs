//! A call over a WebSocket, for pages in browsers: they cannot read an answer while they send.
//!
//! The client's messages are the parts of a request's body, each followed by a line end; each line of the answer is a
//! message. The call ends with the WebSocket, and the WebSocket with the call. What a browser cannot put into
//! `Authorization` it says as a sub-protocol, `Bearer, TOKEN`, or in the cookie `token`; no other header reaches the
//! call. All this is as in etcd.

use std::pin::pin;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::header::{AUTHORIZATION, CONNECTION, COOKIE, HeaderName, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use gateway::{error_body, error_line};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::answers::next_line;
use super::gateway_call::{self, GatewayCall};
use super::gateway_request::GatewayRequest;
use super::json_requests::JSON_PER_MESSAGE;
use crate::grpc::{Failure, GrpcService as _};

/// The sub-protocol that brings a token.
const BEARER: &str = "Bearer";

/// The cookie that does.
const TOKEN_COOKIE: &str = "token";

/// Bytes of each of the library's buffers; it would take 128 KiB.
const BUFFER_BYTES: usize = 8 << 10;

/// Messages between the socket and the call in each direction: neither side runs ahead.
const MAX_WAITING_MESSAGES: usize = 1;

/// The time in which a client may take the news that its WebSocket is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a request asks for a WebSocket.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// Answers the handshake, and serves the call once it is done.
pub(super) async fn serve(mut request: GatewayRequest) -> Response {
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut request.head, &()).await {
        Ok(upgrade) => upgrade,
        Err(refusal) => return refusal.into_response(),
    };
    let authorization = token(&request.head.headers).and_then(|token| HeaderValue::try_from(token).ok());
    request.head.headers = authorization.into_iter().map(|token| (AUTHORIZATION, token)).collect();
    let max_bytes = request.connection.dispatch.max_message_bytes().saturating_mul(JSON_PER_MESSAGE);
    upgrade
        .protocols([BEARER])
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(max_bytes)
        .max_frame_size(max_bytes)
        .on_upgrade(move |socket| run(socket, request))
}

/// What stands for `Authorization`.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let cookies = text(COOKIE).unwrap_or_default().split(';').filter_map(|pair| pair.trim().split_once('='));
    let cookie = cookies.filter(|(name, _)| *name == TOKEN_COOKIE).map(|(_, token)| token).next();
    let protocol = || text(SEC_WEBSOCKET_PROTOCOL)?.split_once("Bearer,").map(|(_, token)| token.trim());
    cookie.or_else(protocol).map(|token| format!("{BEARER} {token}"))
}

/// Serves a call until it ends, its client goes, or the member stops.
async fn run(mut socket: WebSocket, request: GatewayRequest) {
    let (requests, body) = channel(MAX_WAITING_MESSAGES);
    let (answers, mut lines) = channel(MAX_WAITING_MESSAGES);
    let stop = request.connection.stop.clone();
    let mut work = pin!(call(request, body, answers));
    let mut is_over = false;
    while !is_over {
        tokio::select! {
            // A method that takes no more lets go of its end; what the client sends then is not looked at.
            (room, message) = async { (requests.reserve().await.ok(), socket.recv().await) } => {
                let Some(Ok(message)) = message else { return };
                let part = match message {
                    Message::Text(text) => Bytes::from(text),
                    Message::Binary(bytes) => bytes,
                    Message::Ping(_) | Message::Pong(_) => continue,
                    Message::Close(_) => return,
                };
                room.into_iter().for_each(|room| room.send(line_of(&part)));
            }
            line = lines.recv() => match line {
                Some(line) => {
                    // A client that does not read must not hold up the stop.
                    let sent = stop.run_until_cancelled(socket.send(Message::Text(line))).await;
                    if !matches!(sent, Some(Ok(()))) { return }
                }
                None => is_over = true,
            },
            () = &mut work, if !lines.is_closed() => {}
            () = stop.cancelled() => is_over = true,
        }
    }
    // A client that is gone does not need to hear it.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, socket.send(Message::Close(None))).await;
}

fn line_of(part: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(part.len() + 1);
    line.put_slice(part);
    line.put_u8(b'\n');
    line.freeze()
}

/// The call: takes its body from one channel and gives its lines to the other.
async fn call(request: GatewayRequest, body: Receiver<Bytes>, answers: Sender<Utf8Bytes>) {
    let body = stream::unfold(body, |mut body| async { Some((Ok(body.recv().await?), body)) });
    match gateway_call::begin(&request, Box::pin(body), false).await {
        Ok(mut call) => while send_next(&mut call, &answers).await {},
        Err(error) => drop(answers.send(text(error_body(error.code, &error.message))).await),
    }
}

/// Sends the next line; whether another may follow.
async fn send_next(call: &mut GatewayCall, answers: &Sender<Utf8Bytes>) -> bool {
    let Some(line) = next(call).await else { return false };
    let goes_on = line.is_ok() && call.answers_stream();
    let line = line.unwrap_or_else(|Failure { code, message, .. }| match call.answers_stream() {
        true => error_line(code, &message),
        false => error_body(code, &message),
    });
    answers.send(text(line)).await.is_ok() && goes_on
}

async fn next(call: &mut GatewayCall) -> Option<Result<Vec<u8>, Failure>> {
    if call.answers_stream() {
        return next_line(call).await;
    }
    match call.only().await {
        Ok(message) => Some(call.json(message).await),
        Err(error) => Some(Err(error)),
    }
}

/// A line as a message.
fn text(mut line: Vec<u8>) -> Utf8Bytes {
    line.pop_if(|byte| *byte == b'\n');
    // JSON that was written here is UTF-8.
    Utf8Bytes::try_from(Bytes::from(line)).unwrap_or_default()
}
