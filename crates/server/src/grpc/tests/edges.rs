//! The ends of the connection itself: what it begins with, and how its writes leave.
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::super::gathering_socket::{ConnectionRound, GatheringSocket};
use super::super::head::percent_encoded;
use super::super::speaks_http2;

#[test]
fn messages_of_failures_are_percent_encoded() {
    for (text, encoded) in [
        ("", ""),
        ("etcdserver: key is not provided", "etcdserver: key is not provided"),
        ("~!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}", "~!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}"),
        ("100%", "100%25"),
        ("a\tb\r\n\0\x7f", "a%09b%0D%0A%00%7F"),
        ("\u{e9}\u{1f980}", "%C3%A9%F0%9F%A6%80"),
    ] {
        assert_eq!(percent_encoded(text), encoded);
    }
}

#[tokio::test]
async fn the_preface_is_found_however_it_arrives_and_read_once_more() {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let texts = [
        (format!("{preface}and more"), true),
        (preface.to_owned(), true),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), false),
        ("PROPFIND / HTTP/1.1\r\n\r\n".to_owned(), false),
        ("PRI * HTTP/2.0\r\n".to_owned(), false),
        (String::new(), false),
    ];
    for (text, is_http2) in texts {
        for cut in [1, 3, 24, 100] {
            let (ours, mut theirs) = tokio::io::duplex(cut);
            let sent = text.clone();
            tokio::spawn(async move { theirs.write_all(sent.as_bytes()).await });
            let (found, mut io) = speaks_http2(ours).await.expect("readable");
            let mut again = String::new();
            io.read_to_string(&mut again).await.expect("readable");
            assert_eq!((found, &again), (is_http2, &text));
        }
    }
}

/// A socket that remembers each write.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Vec<Vec<u8>>>>);

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().expect("lock").push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        self.poll_write(context, &whole)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn writes_of_one_round_leave_together_and_in_order() {
    let (socket, round) = (Socket::default(), ConnectionRound::default());
    let mut gathering = GatheringSocket::new(socket.clone(), round.clone());
    let sizes = || socket.0.lock().expect("lock").iter().map(Vec::len).collect::<Vec<_>>();
    round.hold(true);
    for part in ["a", "bc", "def"] {
        gathering.write_all(part.as_bytes()).await.expect("room");
        gathering.flush().await.expect("held");
    }
    assert!(sizes().is_empty(), "held");
    round.hold(false);
    gathering.flush().await.expect("released");
    assert_eq!(socket.0.lock().expect("lock").concat(), b"abcdef");
    assert_eq!(sizes(), [6], "one write");
    // More than may wait goes through, behind what waited.
    round.hold(true);
    let large = vec![7; 100_000];
    gathering.write_all(b"x").await.expect("room");
    gathering.write_all(&large).await.expect("written");
    assert_eq!(sizes(), [6, 1, 100_000]);
    gathering.write_all(b"last").await.expect("room");
    gathering.shutdown().await.expect("the end releases everything");
    assert_eq!(sizes(), [6, 1, 100_000, 4]);
}

/// The answer to a ping, as the library writes it.
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_ping_leaves_with_what_is_sent_next_or_by_itself_in_the_end() {
    let socket = Socket::default();
    let mut gathering = GatheringSocket::new(socket.clone(), ConnectionRound::default());
    let sizes = || socket.0.lock().expect("lock").iter().map(Vec::len).collect::<Vec<_>>();
    for _ in 0..2 {
        gathering.write_all(&PONG).await.expect("room");
        gathering.flush().await.expect("it waits");
        assert!(sizes().is_empty(), "an answer was sent by itself");
        gathering.write_all(b"message").await.expect("room");
        gathering.flush().await.expect("both go");
        assert_eq!(
            std::mem::take(&mut *socket.0.lock().expect("lock")).concat(),
            [&PONG[..], b"message"].concat()
        );
    }
    gathering.write_all(&PONG).await.expect("room");
    // Its connection flushes when it is woken, as it does at the end of each round.
    let mut waiting = true;
    std::future::poll_fn(|context| {
        let flushed = Pin::new(&mut gathering).poll_flush(context);
        if std::mem::take(&mut waiting) { Poll::Pending } else { flushed }
    })
    .await
    .expect("sent");
    assert_eq!(sizes(), [PONG.len()]);
    for _ in 0..2 {
        gathering.write_all(&PONG).await.expect("room");
    }
    gathering.flush().await.expect("two go");
    assert_eq!(sizes(), [PONG.len(), 2 * PONG.len()], "who pings twice is not kept waiting");
}
