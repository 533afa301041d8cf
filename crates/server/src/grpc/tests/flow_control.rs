//! The server sends no faster than the client receives, and a call ends when its client has gone.
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use super::rig::{Client, POURED, POURED_BYTES, grpc, message, request, settings, until, whole};

/// A client that takes so few bytes before it says go on.
async fn narrow(window: u32) -> Client {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window);
    Client::start_with(&builder, settings(Duration::ZERO, Duration::ZERO)).await
}

#[tokio::test]
async fn an_answer_waits_for_the_clients_window() {
    let mut client = narrow(0).await;
    let body = message(&vec![7; 50_000]);
    let (response, mut stream) = client.begin(grpc("/test/Echo")).await;
    stream.send_data(body.clone().into(), true).expect("the server listens");
    let mut answer = response.await.expect("headers need no window").into_body();
    // Meanwhile others are served.
    assert_eq!(client.ask("/test/Fail", [&message(b"x")[..]]).await.status(), "9");
    let mut received = Vec::new();
    // h2 raises the window of a stream only by what was received; so it is the next test that opens a window.
    tokio::select! {
        biased;
        data = answer.data() => received.extend(data.expect("data").expect("data")),
        () = tokio::task::yield_now() => {}
    }
    assert!(received.is_empty(), "{} bytes came without a window", received.len());
}

#[tokio::test]
async fn a_stream_of_answers_stops_when_the_client_does_and_goes_on_with_it() {
    let mut client = narrow(20_000).await;
    let (response, mut stream) = client.begin(grpc("/test/Pour")).await;
    stream.send_data(message(b"").into(), true).expect("the server listens");
    let response = response.await.expect("an answer");
    let poured = client.seen.poured.clone();
    // Other calls go on, and the stream does not.
    for _ in 0..100 {
        assert_eq!(client.ask("/test/Echo", [&message(b"x")[..]]).await.status(), "0");
    }
    assert!(
        poured.load(Ordering::SeqCst) <= 2,
        "{} messages were sent into nothing",
        poured.load(Ordering::SeqCst)
    );
    let mut body = response.into_body();
    let mut received = 0;
    while let Some(data) = body.data().await {
        let data = data.expect("data");
        received += data.len();
        body.flow_control().release_capacity(data.len()).expect("it was received");
    }
    assert_eq!(received, POURED * (POURED_BYTES + 5));
    assert_eq!(poured.load(Ordering::SeqCst), POURED);
    let trailers = body.trailers().await.expect("an orderly end").expect("trailers");
    assert_eq!(trailers["grpc-status"], "0");
}

#[tokio::test]
async fn a_call_ends_when_its_client_resets_it() {
    let mut client = Client::start().await;
    let waiting = client.seen.waiting.clone();
    let (response, mut stream) = client.begin(grpc("/test/Wait")).await;
    stream.send_data(message(b"x").into(), true).expect("the server listens");
    until(|| waiting.load(Ordering::SeqCst) == 1).await;
    stream.send_reset(h2::Reason::CANCEL);
    until(|| waiting.load(Ordering::SeqCst) == 0).await;
    assert!(response.await.is_err());
    // In the middle of a message.
    let (_response, mut stream) = client.begin(grpc("/test/Echo")).await;
    stream.send_data(Bytes::from_static(b"\0\0\0"), false).expect("the server listens");
    stream.send_reset(h2::Reason::CANCEL);
    assert_eq!(client.ask("/test/Echo", [&message(b"x")[..]]).await.status(), "0", "the connection goes on");
}

#[tokio::test]
async fn a_request_that_is_not_grpc_ends_when_its_client_resets_it() {
    let mut client = Client::start().await;
    let waiting = client.seen.waiting.clone();
    let (response, mut stream) = client.begin(request("GET", "/wait", "text/plain")).await;
    stream.send_data(Bytes::new(), true).expect("the server listens");
    until(|| waiting.load(Ordering::SeqCst) == 1).await;
    stream.send_reset(h2::Reason::CANCEL);
    until(|| waiting.load(Ordering::SeqCst) == 0).await;
    assert!(response.await.is_err());
}

#[tokio::test]
async fn calls_end_with_their_connection() {
    let mut client = Client::start().await;
    let waiting = client.seen.waiting.clone();
    let (_response, mut stream) = client.begin(grpc("/test/Wait")).await;
    stream.send_data(message(b"x").into(), true).expect("the server listens");
    until(|| waiting.load(Ordering::SeqCst) == 1).await;
    client.server.abort();
    until(|| waiting.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_server_that_stops_ends_what_it_began() {
    let mut client = Client::start().await;
    let waiting = client.seen.waiting.clone();
    let (response, mut stream) = client.begin(grpc("/test/Wait")).await;
    stream.send_data(message(b"last").into(), true).expect("the server listens");
    until(|| waiting.load(Ordering::SeqCst) == 1).await;
    client.stop.cancel();
    // The client is informed and sends nothing more.
    while !client.is_refused().await {
        tokio::task::yield_now().await;
    }
    assert!(!client.server.is_finished());
    client.seen.release.notify_one();
    assert_eq!(whole(response).await.body, message(b"last"));
    client.server.await.expect("the server ends with its last call");
}

#[tokio::test]
async fn many_calls_of_one_connection_wait_and_are_all_answered() {
    let mut client = Client::start().await;
    let calls = 90;
    let mut responses = Vec::new();
    for call in 0..calls {
        let (response, mut stream) = client.begin(grpc("/test/Wait")).await;
        stream.send_data(message(&[call]).into(), true).expect("the server listens");
        responses.push((call, response));
    }
    until(|| client.seen.waiting.load(Ordering::SeqCst) == usize::from(calls)).await;
    client.seen.release.notify_waiters();
    for (call, response) in responses {
        assert_eq!(whole(response).await.body, message(&[call]));
    }
}

#[tokio::test]
async fn thousands_of_small_messages_may_wait() {
    let mut client = Client::start().await;
    let (response, mut stream) = client.begin(grpc("/test/Count")).await;
    let waiting = client.seen.waiting.clone();
    until(|| waiting.load(Ordering::SeqCst) == 1).await;
    let count: u32 = 30_000;
    for _ in 0..count {
        stream.send_data(message(b"keep alive").into(), false).expect("the server listens");
    }
    // Other calls go on, and meanwhile all of them arrive.
    for _ in 0..100 {
        assert_eq!(client.ask("/test/Echo", [&message(b"x")[..]]).await.status(), "0");
    }
    client.seen.release.notify_one();
    stream.send_data(Bytes::new(), true).expect("the server listens");
    assert_eq!(whole(response).await.body, message(&count.to_be_bytes()));
}
