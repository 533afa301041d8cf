//! A client that sends frames as they are written here.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::super::serve;
use super::rig::{Seen, message, server, settings};

/// Type, flags, stream, payload.
pub(super) type RawFrame = (u8, u8, u32, Vec<u8>);

/// See the module.
pub(super) struct RawClient {
    socket: DuplexStream,
}

impl RawClient {
    /// One that has greeted, and has read the greeting.
    pub(super) async fn greeted() -> RawClient {
        let settings = settings(Duration::ZERO, Duration::ZERO);
        let (serving, socket) = server(settings, Seen::default(), CancellationToken::new());
        tokio::spawn(serving);
        RawClient::greet(socket).await
    }

    /// The same of a server that serves gRPC alone.
    pub(super) async fn greeted_by_grpc_alone() -> RawClient {
        let (ours, socket) = tokio::io::duplex(64 << 10);
        tokio::spawn(async move {
            let settings = settings(Duration::ZERO, Duration::ZERO);
            serve(ours, Seen::default(), None, &settings, CancellationToken::new()).await;
        });
        RawClient::greet(socket).await
    }

    /// One that greets over this connection.
    pub(super) async fn greet(socket: DuplexStream) -> RawClient {
        let mut client = RawClient { socket };
        client.send(&[&http2::PREFACE[..], &frame(4, 0, 0, &[])].concat()).await;
        client.read().await;
        client
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.expect("the server listens");
    }

    /// All that can be read once the server has done what it can; nothing at the end.
    pub(super) async fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let count = self.socket.read(&mut bytes).await.expect("readable");
        bytes.truncate(count);
        bytes
    }

    /// Reads frames until one satisfies the condition, or the connection ends.
    pub(super) async fn read_until(&mut self, found: impl Fn(&RawFrame) -> bool) -> Vec<RawFrame> {
        let mut bytes = Vec::new();
        loop {
            let more = self.read().await;
            bytes.extend_from_slice(&more);
            let frames = frames(&bytes);
            if more.is_empty() || frames.iter().any(&found) {
                return frames;
            }
        }
    }

    /// Sends a call of one message.
    pub(super) async fn call(&mut self, stream: u32, path: &str, body: &[u8]) {
        self.send(&RawClient::call_frames(stream, path, body)).await;
    }

    /// Its frames.
    pub(super) fn call_frames(stream: u32, path: &str, body: &[u8]) -> Vec<u8> {
        let head = block(&call_head(path, ":authority", "stele"));
        [frame(1, 4, stream, &head), frame(0, 1, stream, &message(body))].concat()
    }
}

/// The headers of a call, and one more.
pub(super) fn call_head<'a>(path: &'a str, name: &'a str, value: &'a str) -> [(&'a str, &'a str); 6] {
    let kind = ("content-type", "application/grpc");
    let method = (":method", "POST");
    let more = (name, value);
    match name.starts_with(':') {
        true => [method, (":scheme", "http"), (":path", path), more, kind, ("te", "trailers")],
        false => [method, (":scheme", "http"), (":path", path), (":authority", "stele"), kind, more],
    }
}

/// A header block of literals, names and values of any length.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            match text.len() {
                short @ 0..0x7f => block.push(short as u8),
                long => {
                    let rest = long - 0x7f;
                    block.extend([0x7f, rest as u8 | 0x80, (rest >> 7) as u8 | 0x80, (rest >> 14) as u8]);
                }
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// A frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The whole frames that bytes begin with.
pub(super) fn frames(mut bytes: &[u8]) -> Vec<RawFrame> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, s, t, u, v, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((*kind, *flags, u32::from_be_bytes([*s, *t, *u, *v]), payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// Lets the server do what it can.
pub(super) async fn until_idle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}
