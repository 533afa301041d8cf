//! What is wrong is said, with grpc-go's codes and texts, and the connection goes on.
use super::super::messages::{EncodedMessage, compressed};
use super::rig::{Client, MAX_BYTES, grpc, message, request, whole};

#[tokio::test]
async fn a_stream_that_ends_inside_a_message_is_refused() {
    let mut client = Client::start().await;
    let none = "cardinality violation: received no request message from non-client-streaming RPC";
    let several = "cardinality violation: received multiple request messages for non-client-streaming RPC";
    let cut = "unexpected EOF";
    let cases: [(&str, &[u8], &str, &str); 12] = [
        ("/test/Echo", b"\0\0\0", "2", "EOF"),
        ("/test/Echo", b"", "2", "EOF"),
        ("/test/Echo", b"\0\0\0\0\x05four", "2", cut),
        ("/test/Echo", b"\0\0\0\0\x01a\0\0\0\0\x01b", "0", ""),
        ("/test/Twice", b"\0\0\0", "13", none),
        ("/test/Twice", b"", "13", none),
        ("/test/Twice", b"\0\0\0\0\x05four", "13", cut),
        ("/test/Twice", b"\0\0\0\0\x01a\0\0\0\0\x01b", "13", several),
        ("/test/Echo", b"\x01\0\0\0\x01a", "13", "grpc: compressed flag set with identity or empty encoding"),
        ("/test/Echo", b"\x07\0\0\0\x01a", "13", "grpc: received unexpected payload format 7"),
        ("/test/Echo", b"\x07\0\0\0\x05a", "2", cut),
        (
            "/test/Echo",
            b"\x07\xff\0\0\x05a",
            "8",
            "grpc: received message larger than max (4278190085 vs. 300000)",
        ),
    ];
    for (path, sent, code, text) in cases {
        let answer = client.ask(path, [sent]).await;
        assert_eq!((answer.http, answer.status(), answer.message()), (200, code, text), "{path} {sent:?}");
    }
    assert_eq!(client.ask("/test/Echo", [&message(b"x")[..]]).await.status(), "0", "the connection goes on");
}

#[tokio::test]
async fn a_huge_message_is_refused_by_its_length() {
    let mut client = Client::start().await;
    let just = vec![7; MAX_BYTES];
    assert_eq!(client.ask("/test/Echo", message(&just).chunks(16_384)).await.status(), "0");
    for length in [MAX_BYTES as u32 + 1, u32::MAX] {
        // The client neither sends the rest nor ends its side.
        let (response, mut stream) = client.begin(grpc("/test/Echo")).await;
        let prefix = [&[0][..], &length.to_be_bytes()].concat();
        stream.send_data(prefix.into(), false).expect("the server listens");
        let answer = whole(response).await;
        assert_eq!(answer.status(), "8");
        let text = format!("grpc: received message larger than max ({length} vs. {MAX_BYTES})");
        assert_eq!(answer.message(), text);
    }
}

#[tokio::test]
async fn heads_that_are_not_those_of_a_call_are_refused() {
    let mut client = Client::start().await;
    let body = message(b"x");
    for content in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        let answer = client.ask_as(request("POST", "/test/Echo", content), [&body[..]]).await;
        assert_eq!((answer.http, answer.status()), (200, "0"), "{content}");
    }
    let answer = client.ask_as(request("POST", "/test/Echo", "application/grpc-web"), [&body[..]]).await;
    assert_eq!((answer.http, answer.status()), (415, "3"));
    assert_eq!(answer.message(), "invalid gRPC request content-type \"application/grpc-web\"");
    let answer = client.ask_as(request("PUT", "/test/Echo", "application/grpc"), [&body[..]]).await;
    assert_eq!((answer.http, answer.status()), (405, "13"));
    assert_eq!(answer.message(), "Received a HEADERS frame with :method \"PUT\" which should be POST");
}

#[tokio::test]
async fn compression_is_served_or_refused_before_anything_is_read() {
    let mut client = Client::start().await;
    let mut head = grpc("/test/Echo");
    head.headers_mut().insert("grpc-encoding", "zstd".parse().expect("header"));
    let answer = client.ask_as(head, [&b"\x01\0\0\0\x01?"[..]]).await;
    assert_eq!((answer.http, answer.status()), (200, "12"));
    assert_eq!(answer.message(), "grpc: Decompressor is not installed for grpc-encoding \"zstd\"");
    let mut head = grpc("/test/Echo");
    head.headers_mut().insert("grpc-encoding", "identity".parse().expect("header"));
    assert_eq!(client.ask_as(head, [&message(b"x")[..]]).await.status(), "0");
    // An answer to gzip is gzip, whether its request used it or not.
    let text = EncodedMessage(vec![vec![7; 1_000].into()]);
    let gzip = compressed(&text).0.concat();
    let framed = [&[1][..], &(gzip.len() as u32).to_be_bytes(), &gzip].concat();
    for sent in [&framed, &message(&[7; 1_000])] {
        let mut head = grpc("/test/Echo");
        head.headers_mut().insert("grpc-encoding", "gzip".parse().expect("header"));
        let answer = client.ask_as(head, [&sent[..]]).await;
        assert_eq!(answer.status(), "0");
        assert_eq!(answer.head["grpc-encoding"], "gzip");
        assert_eq!(answer.body, framed);
    }
    let mut head = grpc("/test/Echo");
    head.headers_mut().insert("grpc-encoding", "gzip".parse().expect("header"));
    let answer = client.ask_as(head, [&b"\x01\0\0\0\x01?"[..]]).await;
    assert_eq!(answer.status(), "13");
    assert!(answer.message().starts_with("grpc: failed to "), "{}", answer.message());
}

#[tokio::test]
async fn what_is_not_grpc_gets_what_http_gets() {
    let mut client = Client::start().await;
    let answer = client.ask_as(request("GET", "/plain", "text/plain"), []).await;
    assert_eq!((answer.http, &answer.body[..]), (200, &b"plain text"[..]));
    let answer = client.ask_as(request("POST", "/heard", "text/plain"), [&b"a wo"[..], b"rd"]).await;
    assert_eq!((answer.http, &answer.body[..]), (200, &b"heard a word"[..]));
    assert_eq!(client.ask_as(request("GET", "/unknown", "text/plain"), []).await.http, 404);
}
