//! What etcd serves although HTTP/2 libraries refuse it, and what it refuses.
use std::time::Duration;

use tokio::time::Instant;

use super::raw::{RawClient, RawFrame, block, call_head, frame};
use super::rig::{Client, message, request};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GO_AWAY: u8 = 7;

/// The end of a stream: its trailers or its reset.
async fn end(client: &mut RawClient, stream: u32) -> RawFrame {
    let is_end = move |frame: &RawFrame| {
        frame.2 == stream && (frame.0 == RST_STREAM || frame.0 == HEADERS && frame.1 & 1 == 1)
    };
    let frames = client.read_until(is_end).await;
    frames.into_iter().find(is_end).expect("an end")
}

/// Whether an answer's trailers have this text. Our headers are literals or refer to earlier ones of the connection.
fn says(end: &RawFrame, text: &str) -> bool {
    end.0 == HEADERS && end.3.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Sends a call whose head has one more header.
async fn call_with(client: &mut RawClient, stream: u32, name: &str, value: &str) -> RawFrame {
    let head = block(&call_head("/test/Echo", name, value));
    let mut frames = Vec::new();
    let parts: Vec<&[u8]> = head.chunks(16_384).collect();
    for (number, part) in parts.iter().enumerate() {
        let ends = if number + 1 == parts.len() { 4 } else { 0 };
        frames.extend(frame(if number == 0 { 1 } else { 9 }, ends, stream, part));
    }
    frames.extend(frame(0, 1, stream, &message(b"x")));
    client.send(&frames).await;
    end(client, stream).await
}

#[tokio::test]
async fn any_authority_is_served() {
    let mut client = RawClient::greeted().await;
    let authorities = [
        "stele",
        "#initially=[host:port]",
        "127.0.0.1:2379,127.0.0.1:22379",
        "",
        "a%2Cb",
        "a b",
        "a/b",
        "/tmp/stele.sock",
    ];
    for (number, authority) in authorities.iter().enumerate() {
        let end = call_with(&mut client, 2 * number as u32 + 1, ":authority", authority).await;
        // `grpc-status: 0`, in full the first time.
        assert!(says(&end, "grpc-status") || end.3.len() == 1, "{authority:?}: {end:?}");
        assert_eq!(end.0, HEADERS);
    }
}

#[tokio::test]
async fn long_headers_are_served() {
    let mut client = RawClient::greeted().await;
    let long = "x".repeat(1 << 20);
    assert!(says(&call_with(&mut client, 1, "a", &long).await, "grpc-status"));
}

#[tokio::test]
async fn heads_get_the_answers_of_grpc_go() {
    let mut client = RawClient::greeted().await;
    let cases = [
        ("grpc-timeout", "1x", "malformed grpc-timeout: transport: timeout unit is not recognized: \"1x\""),
        ("grpc-timeout", "0n", "context deadline exceeded"),
        ("grpc-encoding", "snappy", "grpc: Decompressor is not installed for grpc-encoding \"snappy\""),
    ];
    for (number, (name, value, text)) in cases.into_iter().enumerate() {
        let end = call_with(&mut client, 2 * number as u32 + 1, name, value).await;
        assert!(says(&end, text), "{name}: {value}: {end:?}");
    }
    let end = call_with(&mut client, 7, "connection", "close").await;
    assert_eq!((end.0, end.3), (RST_STREAM, vec![0, 0, 0, 1]));
    let anonymous =
        block(&[(":method", "POST"), (":path", "/test/Echo"), ("content-type", "application/grpc")]);
    client.send(&frame(1, 5, 9, &anonymous)).await;
    assert!(says(&end_of(&mut client, 9).await, "no host or :authority header present"));
    let plain = block(&[(":method", "GET"), (":scheme", "http"), (":path", "")]);
    client.send(&frame(1, 5, 11, &plain)).await;
    assert_eq!(end_of(&mut client, 11).await.0, RST_STREAM, "HTTP needs a path");
}

#[tokio::test]
async fn where_only_grpc_is_served_other_requests_are_refused() {
    let mut client = RawClient::greeted_by_grpc_alone().await;
    let plain =
        block(&[(":method", "GET"), (":scheme", "http"), (":path", "/plain"), (":authority", "stele")]);
    client.send(&frame(1, 5, 1, &plain)).await;
    let end = end(&mut client, 1).await;
    assert!(says(&end, "415") && says(&end, "invalid gRPC request content-type \"\""), "{end:?}");
}

async fn end_of(client: &mut RawClient, stream: u32) -> RawFrame {
    end(client, stream).await
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline() {
    let mut client = RawClient::greeted().await;
    let begun = Instant::now();
    let head = block(&call_head("/test/Wait", "grpc-timeout", "1500m"));
    client.send(&[frame(1, 4, 1, &head), frame(0, 1, 1, &message(b"x"))].concat()).await;
    let end = end(&mut client, 1).await;
    assert_eq!((end.0, end.3), (RST_STREAM, vec![0, 0, 0, 8]), "CANCEL");
    assert!(
        begun.elapsed() >= Duration::from_millis(1_500) && begun.elapsed() < Duration::from_millis(1_600)
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_pings_too_often_is_disconnected() {
    let mut client = RawClient::greeted().await;
    let head = block(&call_head("/test/Wait", "a", "b"));
    client.send(&frame(1, 4, 1, &head)).await;
    for _ in 0..4 {
        client.send(&frame(6, 0, 0, b"12345678")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let frames = client.read_until(|_| false).await;
    let go_away = frames.iter().find(|frame| frame.0 == GO_AWAY).expect("an end");
    assert_eq!(&go_away.3[4..], b"\0\0\0\x0btoo_many_pings");
    drop(client);
}

#[tokio::test]
async fn a_request_of_tens_of_thousands_of_headers_is_reset_unless_it_is_grpc() {
    let mut client = RawClient::greeted().await;
    let names: Vec<String> = (0..30_000).map(|number| format!("n{number}")).collect();
    for (stream, kind) in [(1, "text/plain"), (3, "application/grpc")] {
        let mut fields = call_head("/test/Echo", "te", "trailers").to_vec();
        fields[4].1 = kind;
        fields.extend(names.iter().map(|name| (name.as_str(), "")));
        let head = block(&fields);
        let parts: Vec<&[u8]> = head.chunks(16_384).collect();
        for (number, part) in parts.iter().enumerate() {
            let ends = if number + 1 == parts.len() { 4 } else { 0 };
            client.send(&frame(if number == 0 { 1 } else { 9 }, ends, stream, part)).await;
        }
        client.send(&frame(0, 1, stream, &message(b"x"))).await;
        let end = end(&mut client, stream).await;
        match stream {
            1 => assert_eq!(end.0, RST_STREAM),
            _ => assert!(says(&end, "grpc-status"), "{end:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_that_is_not_grpc_has_a_hundred_headers_at_most() {
    let mut client = Client::start().await;
    for (headers, is_served) in [(100, true), (101, false)] {
        let mut plain = request("GET", "/plain", "text/plain");
        for number in plain.headers().len()..headers {
            let name = http::HeaderName::try_from(format!("n{number}")).expect("a name");
            plain.headers_mut().insert(name, http::HeaderValue::from_static(""));
        }
        let (answer, mut stream) = client.begin(plain).await;
        stream.send_data(Default::default(), true).expect("the server listens");
        assert_eq!(answer.await.is_ok(), is_served, "{headers} headers");
    }
}
