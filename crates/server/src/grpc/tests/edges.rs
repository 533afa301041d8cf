//! The ends of the connection itself: what it begins with, and how its writes leave.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::super::head::percent_encoded;
use super::super::{ClientProtocol, protocol};
use super::raw::{RawClient, frames, until_idle};

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
    // A client's own request comes back in some: a long one is cut.
    assert_eq!(percent_encoded(&"x".repeat(10_000)), "x".repeat(4_096));
    assert_eq!(percent_encoded(&"\u{e9}".repeat(10_000)).len(), 3 * 4_096);
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
            let (found, mut io) = protocol(ours).await.expect("readable");
            let mut again = String::new();
            io.read_to_string(&mut again).await.expect("readable");
            assert_eq!((found == ClientProtocol::Http2, &again), (is_http2, &text));
        }
    }
}

/// A ping of a client, and its answer.
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_ping_leaves_with_what_is_sent_next_or_by_itself_in_the_end() {
    let mut client = RawClient::greeted().await;
    let begun = Instant::now();
    client.send(&PING).await;
    assert_eq!(client.read().await, PONG);
    assert_eq!(begun.elapsed(), Duration::from_millis(10), "by itself");
    let begun = Instant::now();
    client.send(&[&PING[..], &PING].concat()).await;
    assert_eq!(client.read().await, [PONG, PONG].concat());
    assert_eq!(begun.elapsed(), Duration::ZERO, "a client that pings twice is not kept waiting");
    client.call(1, "/test/Echo", b"hello").await;
    client.read().await;
    let begun = Instant::now();
    client.send(&PING).await;
    until_idle().await;
    client.call(3, "/test/Echo", b"hello").await;
    let together = client.read().await;
    assert!(together.starts_with(&PONG) && together.len() > PONG.len(), "with the next answer");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn the_answers_of_one_read_leave_with_one_write() {
    let mut client = RawClient::greeted().await;
    let calls: Vec<u8> =
        (0..20).flat_map(|call| RawClient::call_frames(2 * call + 1, "/test/Echo", b"hi")).collect();
    client.send(&calls).await;
    let answers = client.read().await;
    let ends = frames(&answers).iter().filter(|(kind, flags, _, _)| *kind == 1 && flags & 1 == 1).count();
    assert_eq!(ends, 20, "trailers in one read");
}
