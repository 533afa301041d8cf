//! How calls end when the server stops, or leaves them to another one.
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::raw::{RawClient, frame};
use super::rig::{Client, Seen, grpc, message, server, settings, whole};

/// More than a server that stops gives a client which does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_stop_waits_for_calls_but_not_for_endless_ones() {
    let mut client = Client::start().await;
    let mut answers = Vec::new();
    for (path, count) in [("/test/Wait", 1), ("/test/Endless", 2)] {
        let (answer, mut stream) = client.begin(grpc(path)).await;
        stream.send_data(message(b"x").into(), true).expect("the server listens");
        answers.push(answer);
        let waits = async {
            while client.seen.waiting.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.expect("the call begins");
    }
    client.stop.cancel();
    let is_told = async {
        while !client.is_refused().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, is_told).await.expect("it takes no more calls");
    assert!(!client.server.is_finished(), "a call has no answer yet");
    // The first to wait is the first to go on.
    client.seen.release.notify_one();
    let ended = tokio::time::timeout(PATIENCE, &mut client.server).await;
    ended.expect("the server ends").expect("without a panic");
    assert_eq!(client.seen.waiting.load(Ordering::SeqCst), 0);
    let error = answers.pop().expect("two calls").await.expect_err("the endless call has no answer");
    assert!(!error.is_reset(), "a client that was told of an end would not begin again: {error}");
    assert_eq!(whole(answers.pop().expect("two calls")).await.status(), "0");
}

#[tokio::test]
async fn a_stop_ends_a_connection_with_endless_calls_alone() {
    let mut client = Client::start().await;
    let (answer, mut stream) = client.begin(grpc("/test/Endless")).await;
    stream.send_data(message(b"x").into(), true).expect("the server listens");
    assert_eq!(client.ask("/test/Echo", [&message(b"y")[..]]).await.status(), "0");
    client.stop.cancel();
    let ended = tokio::time::timeout(PATIENCE, &mut client.server).await;
    ended.expect("the server ends").expect("without a panic");
    let error = answer.await.expect_err("it has no answer");
    assert!(!error.is_reset(), "a client that was told of an end would not begin again: {error}");
}

/// GOAWAY, RST_STREAM, and the reset that asks a client to send the request again.
const GO_AWAY: u8 = 7;
const RST_STREAM: u8 = 3;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

#[tokio::test]
async fn a_call_that_is_not_taken_is_refused_on_a_connection_that_ends() {
    let mut client = RawClient::greeted().await;
    client.call(1, "/test/NotTaken", b"").await;
    let frames = client.read_until(|(kind, ..)| *kind == RST_STREAM).await;
    let at = |wanted: u8| frames.iter().position(|(kind, ..)| *kind == wanted).expect("sent");
    assert!(at(GO_AWAY) < at(RST_STREAM), "or the client might send it here again");
    let (_, _, stream, code) = &frames[at(RST_STREAM)];
    assert_eq!((*stream, &code[..]), (1, &REFUSED_STREAM[..]));
    // What the client has sent before it could know of it is served.
    client.call(3, "/test/Echo", b"hello").await;
    let frames =
        client.read_until(|(kind, flags, stream, _)| (*kind, *flags & 1, *stream) == (1, 1, 3)).await;
    assert!(!frames.is_empty(), "trailers");
}

#[tokio::test(start_paused = true)]
async fn a_client_has_a_second_to_read_why_its_connection_ends() {
    let settings = settings(Duration::ZERO, Duration::ZERO);
    let (serving, socket) = server(settings, Seen::default(), CancellationToken::new());
    let serving = tokio::spawn(serving);
    let mut client = RawClient::greet(socket).await;
    let began = tokio::time::Instant::now();
    // Data that belongs to no stream.
    client.send(&frame(0, 0, 0, b"x")).await;
    serving.await.expect("it ends although the client closes nothing");
    assert_eq!(began.elapsed().as_secs(), 1);
    let frames = client.read_until(|frame| frame.0 == GO_AWAY).await;
    assert!(frames.iter().any(|frame| frame.0 == GO_AWAY), "{frames:?}");
}
