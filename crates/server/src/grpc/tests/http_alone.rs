//! HTTP/2 where there is no gRPC: its requests are those of any client.
use std::time::Duration;

use super::super::NoCalls;
use super::rig::{Client, Seen, grpc, message, request, settings};

#[tokio::test]
async fn a_request_of_grpc_is_one_like_others() {
    let (builder, settings) = (h2::client::Builder::new(), settings(Duration::ZERO, Duration::ZERO));
    let mut client = Client::start_of(&builder, NoCalls, settings, Seen::default()).await;
    let plain = client.ask_as(request("GET", "/plain", "text/plain"), []).await;
    assert_eq!((plain.http, &plain.body[..]), (200, &b"plain text"[..]));
    // The path decides, not the type.
    let heard = client.ask_as(grpc("/heard"), [&b"a body"[..]]).await;
    assert_eq!((heard.http, &heard.body[..]), (200, &b"heard a body"[..]));
    let unknown = client.ask("/test/Echo", [&message(b"x")[..]]).await;
    assert_eq!(
        (unknown.http, unknown.status()),
        (404, ""),
        "no service is asked, and there is no status of gRPC"
    );
    // grpc-go would refuse it for its method.
    assert_eq!(client.ask_as(request("GET", "/plain", "application/grpc"), []).await.http, 200);
}
