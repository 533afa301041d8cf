//! What a connection holds for its client is bounded, and a client that keeps to windows is served to the end.
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::super::ConnectionSettings;
use super::super::room::ClientMemory;
use super::rig::{Client, MAX_BYTES, grpc, message, settings, until, whole};

/// Any number of streams, and what connections hold.
fn unlimited() -> (ConnectionSettings, ClientMemory) {
    let memory = ClientMemory::default();
    let settings = settings(Duration::ZERO, Duration::ZERO);
    (
        ConnectionSettings {
            max_concurrent_streams: Arc::new(u32::MAX.into()),
            memory: memory.clone(),
            ..settings
        },
        memory,
    )
}

/// A client with these windows.
async fn client(stream: u32, connection: u32) -> (Client, ClientMemory) {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(stream).initial_connection_window_size(connection);
    let (settings, memory) = unlimited();
    (Client::start_with(&builder, settings).await, memory)
}

#[tokio::test]
async fn more_large_messages_than_have_room_are_all_received() {
    let (mut client, memory) = client(1 << 20, 1 << 30).await;
    // 60 MB in all; 16 MiB have room at a time, the others a window of 256 KiB each.
    let body = message(&vec![7; MAX_BYTES]);
    let mut begun = Vec::new();
    for _ in 0..200 {
        let (response, mut stream) = client.begin(grpc("/test/Echo")).await;
        stream.send_data(Bytes::copy_from_slice(&body[..body.len() - 1]), false).expect("the server listens");
        begun.push((response, stream));
    }
    until(|| memory.load(Ordering::Relaxed) > 50 << 20).await;
    let most = memory.load(Ordering::Relaxed);
    assert!(most <= (16 << 20) + 200 * (256 << 10) + (1 << 20), "{most} bytes are held");
    for (_, stream) in &mut begun {
        stream.send_data(Bytes::copy_from_slice(&body[..1]), true).expect("the server listens");
    }
    for (response, _) in begun {
        assert_eq!(whole(response).await.body.len(), body.len());
    }
    until(|| memory.load(Ordering::Relaxed) < 1 << 20).await;
}

#[tokio::test]
async fn calls_wait_while_their_client_takes_no_answers() {
    let (mut client, memory) = client(0, 1 << 30).await;
    let (mut responses, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let (response, stream) = client.begin(grpc("/test/Large")).await;
        responses.push(response);
        streams.push(stream);
    }
    // All have begun before there is anything to wait for.
    until(|| client.seen.waiting.load(Ordering::SeqCst) == 400).await;
    for stream in &mut streams {
        stream.send_data(message(b"x").into(), true).expect("the server listens");
    }
    drop(streams);
    until(|| memory.load(Ordering::Relaxed) > 15 << 20).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let most = memory.load(Ordering::Relaxed);
    assert!(most <= 17 << 20, "{most} bytes are held of 120 MB of answers");
    let made = client.seen.made.load(Ordering::SeqCst);
    assert!(made <= (17 << 20) / MAX_BYTES, "{made} answers were made");
    until(|| client.seen.waiting.load(Ordering::SeqCst) == 400 - made).await;
    // Calls that are given up end, although there is no room.
    responses.truncate(300);
    until(|| client.seen.waiting.load(Ordering::SeqCst) == 300 - made).await;
    assert_eq!(client.seen.made.load(Ordering::SeqCst), made);
    // Answers that are given up make room for others.
    responses.drain(..made);
    until(|| client.seen.made.load(Ordering::SeqCst) > made).await;
    drop(responses);
    until(|| memory.load(Ordering::Relaxed) < 1 << 20).await;
}

#[tokio::test]
async fn calls_that_wait_for_room_are_answered_in_the_end() {
    let (mut client, _) = client(1 << 20, 1 << 30).await;
    let mut responses = Vec::new();
    for _ in 0..400 {
        let (response, mut stream) = client.begin(grpc("/test/Large")).await;
        stream.send_data(message(b"x").into(), true).expect("the server listens");
        responses.push(response);
    }
    for response in responses {
        assert_eq!(whole(response).await.body.len(), MAX_BYTES + 5);
    }
}

/// A call whose messages are announced as gzip.
fn gzip(path: &str) -> Request<()> {
    let mut request = grpc(path);
    request.headers_mut().insert("grpc-encoding", "gzip".parse().expect("a value"));
    request
}

#[tokio::test]
async fn large_answers_are_sent_as_they_are() {
    let (mut client, _) = client(1 << 20, 1 << 30).await;
    for (bytes, is_compressed) in [(0, 0), (1, 1), (64 << 10, 1), ((64 << 10) + 1, 0), (MAX_BYTES, 0)] {
        let body = message(&vec![7; bytes]);
        let answer = client.ask_as(gzip("/test/Echo"), [&body[..]]).await;
        assert_eq!((answer.status(), answer.body[0]), ("0", is_compressed), "{bytes} bytes");
        assert!(is_compressed == 1 || answer.body == body);
    }
}
