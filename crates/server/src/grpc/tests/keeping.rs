//! Silent clients are pinged, and disconnected when they do not answer.
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rig::{Client, Seen, message, server, settings};

const INTERVAL: Duration = Duration::from_secs(100);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Time until a client without a call is pinged, and until it must have answered.
const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The preface and empty settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A request for the path `/`, in headers that every decoder knows.
const REQUEST: &[u8] = b"\0\0\x03\x01\x05\0\0\0\x01\x82\x86\x84";

/// A client that sends these bytes and then nothing: when the server let it go, if it did.
async fn silent_client(sent: &[&[u8]], timeout: Duration) -> Option<Duration> {
    let (serving, mut theirs) =
        server(settings(INTERVAL, timeout), Seen::default(), CancellationToken::new());
    theirs.write_all(&sent.concat()).await.expect("room");
    let begun = Instant::now();
    let ended = tokio::time::timeout(INTERVAL * 10, serving).await;
    ended.ok().map(|()| begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_is_let_go() {
    let took = silent_client(&[GREETING, REQUEST], TIMEOUT).await.expect("disconnected");
    assert!(took >= INTERVAL + TIMEOUT && took < INTERVAL + TIMEOUT * 2, "after {took:?}");
    assert_eq!(
        silent_client(&[GREETING, REQUEST], Duration::ZERO).await,
        None,
        "without a time-out it may stay"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_stays() {
    let mut client = Client::start_with(&h2::client::Builder::new(), settings(INTERVAL, TIMEOUT)).await;
    tokio::time::sleep(INTERVAL * 50).await;
    assert_eq!(client.ask("/test/Echo", [&message(b"x")[..]]).await.status(), "0");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_neither_calls_nor_answers_is_let_go_soon() {
    for timeout in [TIMEOUT, Duration::ZERO] {
        let took = silent_client(&[GREETING], timeout).await.expect("disconnected");
        assert!(took >= FIRST_CALL_TIMEOUT && took <= FIRST_CALL_TIMEOUT * 3, "after {took:?}");
    }
    let took = silent_client(&[&GREETING[..20]], Duration::ZERO).await.expect("disconnected");
    assert!(took >= FIRST_CALL_TIMEOUT && took <= FIRST_CALL_TIMEOUT * 3, "after {took:?}");
}
