//! What happens by time: silent clients, deadlines, graceful ends.
use std::time::Duration;

use super::super::Event;
use super::rig::{Client, Sent, code, field, settings};
use crate::frame::FrameType;
use crate::{ErrorCode, HttpSettings, Keepalive, PREFACE};

const INTERVAL: Duration = Duration::from_secs(100);
const TIMEOUT: Duration = Duration::from_secs(20);

fn kinds(sent: &[Sent]) -> Vec<FrameType> {
    sent.iter().map(|sent| sent.kind).collect()
}

/// Lets time pass until the next deadline; when that was, unless there is none.
fn wait(client: &mut Client) -> Option<u64> {
    let at = client.server.deadline()?;
    client.server.on_time(at.saturating_sub(Duration::from_nanos(1)));
    assert!(client.server.output().is_empty() && !client.server.is_closed(), "it is not time yet");
    client.now = at;
    client.server.on_time(at);
    Some(at.as_secs())
}

fn with_pings(timeout: Duration) -> HttpSettings {
    let keepalive = Keepalive { interval: INTERVAL, timeout, ..settings().keepalive };
    HttpSettings { keepalive, ..settings() }
}

fn greeted(settings: HttpSettings) -> Client {
    let mut client = Client::silent(settings);
    client.server.receive(PREFACE, client.now);
    client.frame(FrameType::Settings, 0, 0, &[]);
    client.sent();
    client
}

#[test]
fn a_silent_client_is_pinged_and_given_up() {
    let mut client = greeted(with_pings(TIMEOUT));
    client.request(1, false);
    assert_eq!(wait(&mut client), Some(101));
    assert_eq!(kinds(&client.sent()), [FrameType::Ping]);
    client.frame(FrameType::Ping, 1, 0, b"stele...");
    assert_eq!(wait(&mut client), Some(201), "an interval after it was heard");
    client.sent();
    assert_eq!(wait(&mut client), Some(221));
    assert!(client.server.is_closed());
    // Without a time-out it may stay.
    let mut client = greeted(with_pings(Duration::ZERO));
    client.request(1, false);
    for at in [101, 201, 301] {
        assert_eq!(wait(&mut client), Some(at));
        assert_eq!(kinds(&client.sent()), [FrameType::Ping]);
    }
    let mut client = Client::new();
    client.request(1, false);
    assert_eq!(wait(&mut client), None, "pings are turned off");
}

#[test]
fn a_client_that_neither_asks_nor_answers_is_given_up_soon() {
    let mut client = Client::new();
    assert_eq!(wait(&mut client), Some(10));
    assert_eq!(kinds(&client.sent()), [FrameType::Ping]);
    assert_eq!(wait(&mut client), Some(20));
    assert!(client.server.is_closed());
    let mut client = Client::new();
    wait(&mut client);
    client.frame(FrameType::Ping, 1, 0, b"stele...");
    client.sent();
    assert_eq!(wait(&mut client), None, "it answers, so it may connect ahead of need");
}

#[test]
fn a_greeting_and_a_header_block_must_be_complete_in_time() {
    let mut client = Client::silent(settings());
    client.server.receive(&PREFACE[..20], client.now);
    client.sent();
    assert_eq!(wait(&mut client), Some(10));
    assert!(client.server.is_closed());
    let mut client = Client::new();
    client.request(1, true);
    client.events();
    client.frame(FrameType::Headers, 0, 3, b"\x84");
    client.now = Duration::from_secs(5);
    client.frame(FrameType::Continuation, 0, 3, b"\x84");
    assert_eq!(wait(&mut client), Some(11), "counted from the first frame");
    assert!(client.server.is_closed());
}

#[test]
fn a_stream_is_reset_at_its_deadline() {
    let mut client = Client::new();
    [1, 3, 5].into_iter().for_each(|stream| client.request(stream, true));
    client.events();
    for (stream, at) in [(1, 50), (3, 40), (5, 60)] {
        *client.server.slot(stream).expect("open") = stream;
        client.server.set_deadline(stream, Duration::from_secs(at)).expect("open");
    }
    client.server.set_deadline(3, Duration::from_secs(55)).expect("open");
    client.server.finish(5, &[field("grpc-status", "0")]).expect("open");
    client.sent();
    assert_eq!(wait(&mut client), Some(50));
    assert_eq!(client.resets(), [(1, code(ErrorCode::Cancel))]);
    assert!(matches!(client.events()[..], [Event::Gone { stream: 1, slot: 1 }]));
    assert_eq!(wait(&mut client), Some(55));
    assert_eq!(client.resets(), [(3, code(ErrorCode::Cancel))]);
    assert_eq!(wait(&mut client), None, "the one that ended has none");
}

#[test]
fn a_graceful_end_has_two_steps() {
    for answers in [true, false] {
        let mut client = Client::new();
        client.request(1, true);
        client.server.shut_down(client.now);
        client.server.shut_down(client.now);
        let sent = client.sent();
        assert_eq!(kinds(&sent), [FrameType::GoAway, FrameType::Ping]);
        assert_eq!(sent[0].number(), u32::MAX >> 1);
        // On its way before the client could know.
        client.request(3, true);
        if answers {
            client.frame(FrameType::Ping, 1, 0, &sent[1].payload);
        } else {
            assert_eq!(wait(&mut client), Some(1));
            assert_eq!(client.now, Duration::from_millis(1_500), "half a second later");
        }
        let sent = client.sent();
        assert_eq!((sent[0].kind, sent[0].number()), (FrameType::GoAway, 3));
        client.request(5, true);
        assert_eq!(client.begun(), [1, 3], "a stream that begins now is ignored");
        client.server.finish(1, &[]).expect("open");
        assert!(!client.server.is_closed());
        client.server.finish(3, &[]).expect("open");
        assert!(client.server.is_closed(), "with the last stream");
        assert_eq!(kinds(&client.sent()), [FrameType::Data, FrameType::Data]);
    }
}

#[test]
fn a_connection_without_streams_ends_at_once() {
    let mut client = Client::new();
    client.server.shut_down(client.now);
    let ping = client.sent()[1].payload.clone();
    client.frame(FrameType::Ping, 1, 0, &ping);
    assert!(client.server.is_closed());
}

#[test]
fn an_abandoned_connection_says_nothing_of_its_streams() {
    let mut client = Client::new();
    client.request(1, true);
    client.server.shut_down(client.now);
    let ping = client.sent()[1].payload.clone();
    assert!(!client.server.is_draining(), "a request may be on its way");
    client.frame(FrameType::Ping, 1, 0, &ping);
    assert!(client.server.is_draining() && !client.server.is_closed());
    assert_eq!(kinds(&client.sent()), [FrameType::GoAway]);
    client.server.abandon();
    assert!(client.server.is_closed());
    client.server.reset(1, ErrorCode::Cancel);
    assert!(client.sent().is_empty(), "to the client it ends with the connection");
}
