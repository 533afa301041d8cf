//! A server of a few methods, asked by a client that may break any rule, over a connection in memory.

mod edges;
mod endings;
mod flow_control;
mod http_alone;
mod idle;
mod keeping;
mod memory;
mod raw;
mod refusals;
mod rig;
mod tolerances;
mod yielding;

use rig::{Answer, Client, message};

#[tokio::test]
async fn messages_come_back_however_they_were_cut() {
    let mut client = Client::start().await;
    for length in [0, 1, 100, 4096, 4097, 8192, 8193, 100_000] {
        let bytes = message(&vec![7; length]);
        for cut in [1, 5, 6, 1000, 16_384, bytes.len()] {
            let most_frames = 20_000;
            if bytes.len() / cut > most_frames {
                continue;
            }
            let answer = client.ask("/test/Echo", bytes.chunks(cut)).await;
            assert_eq!(answer.body, bytes, "{length} bytes in frames of {cut}");
            assert_eq!(answer.status(), "0");
        }
    }
}

#[tokio::test]
async fn answers_have_the_heads_and_ends_of_grpc() {
    let mut client = Client::start().await;
    let answer = client.ask("/test/Echo", [&message(b"hello")[..]]).await;
    assert_eq!(
        (answer.http, &answer.head["content-type"]),
        (200, &"application/grpc".parse().expect("header"))
    );
    assert!(!answer.head.contains_key("grpc-status"), "the status is behind the message");
    let answer = client.ask("/test/Fail", [&message("100% \u{e9}\n".as_bytes())[..]]).await;
    assert_eq!(answer.body, b"");
    assert!(answer.trailers.is_empty(), "headers alone");
    assert_eq!(answer.head["grpc-status"], "9");
    assert_eq!(answer.head["grpc-message"], "100%25 %C3%A9%0A");
    let Answer { head, trailers, body, .. } = client.ask("/test/Twice", [&message(b"x")[..]]).await;
    assert_eq!(body, [message(b"x"), message(b"x")].concat());
    assert!(!head.contains_key("grpc-status"));
    assert_eq!(trailers["grpc-status"], "9");
}
