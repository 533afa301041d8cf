//! The client's side against frames written by hand.

use std::task::{Context, Waker};

use super::frames::{HEAD_BYTES, Prefix, head, kind};
use super::*;

/// What the wire wants to send, as heads and payloads.
fn sent(wire: &mut Wire) -> Vec<(Prefix, Vec<u8>)> {
    let output = std::mem::take(&mut wire.output);
    let mut rest = output.strip_prefix(http2::PREFACE.as_slice()).unwrap_or(&output);
    let mut frames = Vec::new();
    while let Some(first) = rest.first_chunk::<HEAD_BYTES>() {
        let prefix = Prefix::read(first);
        frames.push((prefix, rest[HEAD_BYTES..HEAD_BYTES + prefix.length].to_vec()));
        rest = &rest[HEAD_BYTES + prefix.length..];
    }
    frames
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    head(payload.len(), kind, flags, stream, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn wire() -> Wire {
    let mut wire = Wire::new("localhost:1", "http", None);
    wire.output.clear();
    wire
}

/// `:status: 200` and `content-type: application/grpc`, the second as a literal without indexing.
fn response_head(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, 4, stream, &[&[0x88, 0x0f, 0x10, 16][..], b"application/grpc"].concat())
}

/// Trailers with a status, and a message if it is not 0.
fn trailers(stream: u32, code: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [&[0, 11][..], b"grpc-status", &[code.len() as u8], code].concat();
    block.extend_from_slice(&[&[0, 12][..], b"grpc-message", &[message.len() as u8], message].concat());
    frame(kind::HEADERS, 5, stream, &block)
}

#[test]
fn an_answer_is_a_message_and_a_status_however_it_is_cut() {
    let message = frame(kind::DATA, 0, 1, &[0, 0, 0, 0, 2, 7, 8]);
    let answer = [response_head(1), message, trailers(1, b"0", b"")].concat();
    for cut in 0..answer.len() {
        let mut wire = wire();
        assert_eq!(wire.open("/a/b", b"hello", true), Ok(1));
        wire.receive(&answer[..cut]).expect("good frames");
        wire.receive(&answer[cut..]).expect("good frames");
        let call = wire.call(1).expect("it is not closed");
        assert_eq!((call.take_message(), call.end.clone()), (Some(vec![7, 8]), Some(Ok(()))));
    }
}

#[test]
fn equal_calls_have_equal_heads_from_the_second_on() {
    let mut wire = wire();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let stream = wire.open("/etcdserverpb.KV/Put", b"x", true).expect("open");
        let frames = sent(&mut wire);
        assert_eq!((frames[0].0.stream, frames[1].1.as_slice()), (stream, &[0, 0, 0, 0, 1, b'x'][..]));
        lengths.push(frames[0].1.len());
    }
    assert!(lengths[0] > 60 && lengths[1] < 12 && lengths[1] == lengths[2], "{lengths:?}");
}

#[test]
fn a_failed_call_has_the_servers_text() {
    let mut wire = wire();
    wire.open("/a/b", b"", true).expect("open");
    wire.receive(&trailers(1, b"14", b"etcdserver%3A no leader")).expect("good frames");
    let end = wire.call(1).and_then(|call| call.end.clone());
    assert_eq!(end, Some(Err(CallError::status(14, "etcdserver: no leader".to_owned()))));
}

#[test]
fn the_servers_windows_and_its_limit_of_calls_are_respected() {
    let mut wire = wire();
    // One stream at a time, a window of 10 bytes.
    let settings = [0, 3, 0, 0, 0, 1, 0, 4, 0, 0, 0, 10];
    wire.receive(&frame(kind::SETTINGS, 0, 0, &settings)).expect("good frames");
    sent(&mut wire);
    let cx = Context::from_waker(Waker::noop());
    let mut queued = None;
    assert!(wire.has_room(&mut queued, &cx));
    wire.open("/a/b", &[1; 20], true).expect("open");
    assert!(!wire.has_room(&mut queued, &cx));
    let frames = sent(&mut wire);
    assert_eq!((frames[1].1.len(), frames[1].0.flags), (10, 0), "as much as the window takes");
    wire.receive(&frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100])).expect("good frames");
    let frames = sent(&mut wire);
    assert_eq!((frames[0].1.len(), frames[0].0.flags), (15, 1), "the rest, and the end");
    wire.close(1);
    assert!(wire.has_room(&mut queued, &cx));
}

#[test]
fn a_hundred_calls_are_open_until_the_server_names_its_limit() {
    let cx = Context::from_waker(Waker::noop());
    for (settings, room) in [(&[][..], true), (&[0, 3, 0, 0, 0, 100][..], false)] {
        let mut wire = wire();
        for _ in 0..100 {
            assert!(wire.has_room(&mut None, &cx));
            wire.open("/a/b", b"", true).expect("open");
        }
        let mut queued = None;
        assert!(!wire.has_room(&mut queued, &cx));
        wire.receive(&frame(kind::SETTINGS, 0, 0, settings)).expect("good frames");
        assert_eq!(wire.has_room(&mut queued, &cx), room);
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn those_who_wait_come_in_order() {
    let woken = [(); 2].map(|()| std::sync::Arc::new(Woken::default()));
    let wakers = woken.clone().map(Waker::from);
    let [first, second] = [0, 1].map(|number: usize| Context::from_waker(&wakers[number]));
    let times = || [0, 1].map(|number: usize| woken[number].0.load(std::sync::atomic::Ordering::Relaxed));
    let limit = |calls: u8| frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, calls]);
    let mut wire = wire();
    wire.receive(&limit(1)).expect("good frames");
    wire.open("/a/b", b"", true).expect("open");
    let (mut one, mut two) = (None, None);
    assert!(!wire.has_room(&mut one, &first) && !wire.has_room(&mut two, &second));
    wire.close(1);
    assert_eq!(times(), [1, 0]);
    assert!(
        !wire.has_room(&mut None, &Context::from_waker(Waker::noop())),
        "who comes later waits behind them"
    );
    assert!(!wire.has_room(&mut two, &second) && wire.has_room(&mut one, &first));
    wire.open("/a/b", b"", true).expect("open");
    assert_eq!(times(), [1, 0], "there is no room for another");
    wire.receive(&limit(2)).expect("good frames");
    assert_eq!(times(), [1, 1], "now there is");
    wire.leave(two.expect("a number"));
    assert_eq!(wire.waiting.len(), 1, "the third is left");
}

#[test]
fn a_frame_size_that_http2_does_not_allow_is_not_taken() {
    let mut wire = wire();
    wire.receive(&frame(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 0])).expect("good frames");
    sent(&mut wire);
    wire.open("/a/b", b"hello", true).expect("open");
    assert_eq!(sent(&mut wire)[1].1.len(), 10, "the message goes out");
}

#[test]
fn a_connection_that_goes_away_ends_the_calls_it_did_not_begin() {
    let mut wire = wire();
    wire.open("/a/b", b"", true).expect("open");
    wire.open("/a/b", b"", true).expect("open");
    wire.receive(&frame(kind::GO_AWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])).expect("good frames");
    assert_eq!(wire.call(1).map(|call| call.end.is_some()), Some(false));
    assert_eq!(wire.call(3).map(|call| call.end.is_some()), Some(true));
    assert!(wire.open("/a/b", b"", true).is_err() && wire.closing().is_some());
}

#[test]
fn what_is_no_http2_is_an_error_and_no_panic() {
    assert!(wire().receive(b"HTTP/1.1 400 Bad Request\r\n\r\n").is_err());
    assert!(wire().receive(&frame(kind::HEADERS, 4, 1, &[0xff; 8])).is_err());
    assert!(wire().receive(&frame(kind::DATA, 8, 1, &[9, 0])).is_err());
}

#[test]
fn pings_and_settings_are_answered() {
    let mut wire = wire();
    wire.receive(&[frame(kind::PING, 0, 0, b"12345678"), frame(kind::SETTINGS, 0, 0, &[])].concat())
        .expect("good");
    let frames = sent(&mut wire);
    assert_eq!(
        (frames[0].0.kind, frames[0].0.flags, frames[0].1.as_slice()),
        (kind::PING, 1, &b"12345678"[..])
    );
    assert_eq!((frames[1].0.kind, frames[1].0.flags), (kind::SETTINGS, 1));
}
