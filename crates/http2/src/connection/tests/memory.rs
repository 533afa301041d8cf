//! What one connection can make the server hold: answers that are not taken, and messages that are not completed.
use bytes::Bytes;

use super::super::Event;
use super::rig::{Client, block, code, field, frame, frames};
use crate::ErrorCode;
use crate::frame::FrameType;
use crate::limits::{
    MAX_CONNECTION_WINDOW_BYTES, MAX_QUEUED_BYTES, MAX_RESERVED_BYTES, MAX_RESERVED_SILENCE,
    MAX_STREAM_WINDOW_BYTES, MAX_UNBLOCKED_PER_ROUND, MAX_WAITING_REQUEST_BYTES,
};

/// Bytes of a large message, with its prefix.
const LARGE: usize = 2 << 20;

/// What a stream may send of a message for which it has no room.
const WINDOW: usize = MAX_STREAM_WINDOW_BYTES as usize;

/// Sends so many bytes on a stream.
fn send(client: &mut Client, stream: u32, mut bytes: usize) {
    while bytes > 0 {
        let some = bytes.min(16_384);
        client.frame(FrameType::Data, 0, stream, &vec![7; some]);
        bytes -= some;
    }
}

/// By how much the window of a stream was opened since the last look.
fn opened(client: &mut Client, stream: u32) -> usize {
    let sent = client.sent();
    let updates = sent.iter().filter(|sent| sent.kind == FrameType::WindowUpdate && sent.stream == stream);
    updates.map(|update| update.number() as usize).sum()
}

#[test]
fn requests_wait_while_answers_are_not_taken() {
    let mut client = Client::new();
    client.set(4, 0);
    client.open(0, 1 << 30);
    let mebibyte = Bytes::from(vec![7; 1 << 20]);
    let mut answered = 0;
    for number in 0..100 {
        client.request(2 * number + 1, true);
        for stream in client.begun() {
            client.server.send_data(stream, mebibyte.clone()).expect("open");
            client.server.finish(stream, &[field("grpc-status", "0")]).expect("open");
            answered += 1;
        }
    }
    assert_eq!(answered, MAX_QUEUED_BYTES >> 20);
    assert!(!client.server.has_room());
    assert_eq!(client.server.held_bytes().answers, MAX_QUEUED_BYTES + client.server.output().len());
    assert!(client.server.wants_input(), "or it would not learn of windows");
    // What is open goes on: its arrivals are announced, and resets.
    client.open(1, 1 << 19);
    client.frame(FrameType::RstStream, 0, 3, &8_u32.to_be_bytes());
    assert!(matches!(client.events()[..2], [Event::Gone { .. }, Event::Request { stream: 33, .. }]));
    while !client.sent().is_empty() {}
    client.open(1, 1 << 19);
    client.sent();
    assert!(client.server.has_room());
    // Each that is taken makes room for another.
    for number in 2..100 {
        client.open(2 * number + 1, 1 << 20);
        for stream in client.begun() {
            client.server.send_data(stream, mebibyte.clone()).expect("open");
            client.server.finish(stream, &[field("grpc-status", "0")]).expect("open");
        }
        client.sent();
        client.begun();
    }
}

/// A client that takes nothing of an answer that fills the room for answers.
fn full() -> Client {
    let mut client = Client::new();
    client.request(1, true);
    client.begun();
    client.server.send_data(1, vec![7; MAX_QUEUED_BYTES + 100_000].into()).expect("open");
    client
}

#[test]
fn an_urgent_request_does_not_wait_for_room() {
    let mut client = full();
    let urgent = block(&[(":method", "POST"), (":path", "/urgent"), ("te", "trailers")]);
    client.request(3, true);
    client.headers(5, false, &urgent);
    client.headers(7, false, &urgent);
    client.frame(FrameType::RstStream, 0, 5, &8_u32.to_be_bytes());
    assert_eq!(client.begun(), [7]);
    client.headers(9, false, &urgent);
    client.request(11, true);
    client.open(0, 1 << 25);
    client.open(1, 1 << 25);
    client.sent();
    assert_eq!(client.begun(), [3, 9, 11], "in their order while there is room");
    assert_eq!(client.server.held_bytes().requests, 0);
}

#[test]
fn requests_that_wait_are_limited_too() {
    let mut client = full();
    let value = "v".repeat(100);
    let fields: Vec<(&str, &str)> = vec![("name", &value); 140];
    let large = block(&fields);
    let mut sent = 0;
    let refused = loop {
        client.headers(2 * sent + 3, true, &large);
        sent += 1;
        let resets = client.resets();
        if !resets.is_empty() {
            break resets;
        }
        assert!(sent < 10_000, "all were taken");
    };
    assert_eq!(refused, [(2 * sent + 1, code(ErrorCode::RefusedStream))]);
    assert!(sent as usize * 15_000 <= MAX_WAITING_REQUEST_BYTES + 15_000, "{sent} wait");
    assert!(client.begun().is_empty());
    let held = client.server.held_bytes().requests;
    assert!(held > MAX_WAITING_REQUEST_BYTES - 20_000, "only {held} bytes are held");
    // The client gives up one of them, and not the first: another one has its place.
    client.frame(FrameType::RstStream, 0, 101, &8_u32.to_be_bytes());
    assert!(client.server.held_bytes().requests < held);
    client.headers(2 * sent + 3, true, &large);
    assert_eq!(client.resets(), []);
    assert_eq!(client.server.held_bytes().requests, held);
    client.open(0, 1 << 25);
    client.open(1, 1 << 25);
    client.sent();
    assert_eq!(client.begun().len(), sent as usize - 1);
    assert_eq!(client.server.held_bytes().requests, 0);
}

#[test]
fn a_lone_large_message_is_not_held_up() {
    let mut client = Client::new();
    client.request(1, false);
    client.begun();
    let bytes = 4 * MAX_RESERVED_BYTES;
    send(&mut client, 1, 20_000);
    assert_eq!(client.server.reserve(1, bytes), Ok(true));
    assert_eq!(opened(&mut client, 1), bytes - WINDOW, "the window of all of it is open");
    send(&mut client, 1, bytes - 20_000);
    assert_eq!(client.server.take_data(1, bytes).map(|data| data.len()), Ok(bytes));
    assert_eq!(client.server.held_bytes().requests, 0);
    assert!(!client.server.is_closed());
    // The window is what it was.
    send(&mut client, 1, WINDOW);
    client.frame(FrameType::Data, 0, 1, b"x");
    assert_eq!(client.resets(), [(1, code(ErrorCode::FlowControl))]);
}

#[test]
fn a_message_within_the_window_is_never_short_of_it() {
    let mut client = Client::new();
    client.request(1, false);
    client.begun();
    // What was taken is less than is returned by itself, and more than the next message leaves of the window.
    let taken = WINDOW / 2 - 3_000;
    let (sent, message) = (WINDOW - taken, WINDOW - 5_000);
    send(&mut client, 1, taken);
    assert!(client.server.take_data(1, taken).is_ok());
    assert!(client.sent().is_empty());
    send(&mut client, 1, sent);
    assert_eq!(client.server.reserve(1, message), Ok(true));
    assert_eq!(opened(&mut client, 1), message - sent);
    send(&mut client, 1, message - sent);
    assert_eq!(client.server.take_data(1, message).map(|data| data.len()), Ok(message));
}

#[test]
fn large_messages_share_the_room_in_their_order() {
    let mut client = Client::new();
    let streams: Vec<u32> = (0..40).map(|number| 2 * number + 1).collect();
    for stream in &streams {
        client.request(*stream, false);
        send(&mut client, *stream, 10_000);
    }
    client.begun();
    let has_room: Vec<u32> =
        streams.iter().copied().filter(|stream| client.server.reserve(*stream, LARGE) == Ok(true)).collect();
    assert_eq!(has_room.len(), MAX_RESERVED_BYTES / LARGE);
    // The others fill their windows; the connection goes on.
    for stream in &streams[has_room.len()..] {
        send(&mut client, *stream, WINDOW - 10_000);
    }
    assert!(client.server.held_bytes().requests <= MAX_RESERVED_BYTES + 40 * WINDOW);
    client.events();
    // One after the other is complete, and none is refused.
    for (at, stream) in streams.iter().enumerate() {
        assert_eq!(client.server.reserve(*stream, LARGE), Ok(true), "number {at}");
        let come = client.server.unread(*stream).expect("open").len();
        send(&mut client, *stream, LARGE - come);
        assert_eq!(client.server.take_data(*stream, LARGE).map(|data| data.len()), Ok(LARGE));
        client.server.reset(*stream, ErrorCode::No);
        if at + has_room.len() < streams.len() {
            let events = client.events();
            assert!(events.iter().any(|event| matches!(event, Event::Data { .. })), "the next one is woken");
        }
    }
    assert_eq!(client.server.held_bytes().requests, 0);
    assert_eq!(client.end(), None);
}

#[test]
fn a_large_message_that_does_not_go_on_loses_its_room_to_others() {
    let mut client = Client::new();
    let streams: Vec<u32> = (0..10).map(|number| 2 * number + 1).collect();
    for stream in &streams[..8] {
        client.request(*stream, false);
        send(&mut client, *stream, 10_000);
        client.begun();
        assert_eq!(client.server.reserve(*stream, LARGE), Ok(true));
    }
    // While no other message waits for it, they keep their room.
    assert!(!client.server.settle(client.now));
    assert_eq!(client.server.deadline(), None);
    client.now += MAX_RESERVED_SILENCE;
    client.server.on_time(client.now);
    for stream in &streams[8..] {
        client.request(*stream, false);
        send(&mut client, *stream, 10_000);
        client.begun();
        assert_eq!(client.server.reserve(*stream, LARGE), Ok(false));
    }
    assert!(client.server.settle(client.now));
    assert_eq!(client.server.deadline(), Some(client.now + MAX_RESERVED_SILENCE));
    client.now += MAX_RESERVED_SILENCE / 2;
    send(&mut client, 1, 10_000);
    client.server.settle(client.now);
    client.now += MAX_RESERVED_SILENCE / 2;
    client.events();
    client.server.on_time(client.now);
    let refused = code(ErrorCode::RefusedStream);
    assert_eq!(client.resets(), [(3, refused), (5, refused)], "as many as are needed, not the first one");
    for stream in &streams[8..] {
        assert_eq!(client.server.reserve(*stream, LARGE), Ok(true));
    }
    client.server.settle(client.now);
    assert_eq!(client.server.deadline(), None);
}

#[test]
fn a_client_that_fills_the_connection_has_its_newest_parts_refused() {
    let mut client = Client::new();
    let mut refused = Vec::new();
    let mut most = 0;
    for number in 0..2_400 {
        let stream = 2 * number + 1;
        client.request(stream, false);
        client.begun();
        for part in [16_383; 4] {
            send(&mut client, stream, part);
            // Half of them have a message that fits into the window, half one that does not.
            let _ = client.server.reserve(stream, if number % 2 == 0 { WINDOW } else { LARGE });
        }
        refused.extend(client.resets());
        most = most.max(client.server.held_bytes().requests);
    }
    assert!(!client.server.is_closed());
    assert!(most <= MAX_CONNECTION_WINDOW_BYTES as usize + MAX_RESERVED_BYTES, "{most} bytes are held");
    assert!(refused.len() > 200 && refused.iter().all(|(_, reset)| *reset == code(ErrorCode::RefusedStream)));
    assert!(refused.iter().all(|(stream, _)| *stream > 1_600), "the oldest stay");
    // Another request finds a window.
    client.request(4_801, false);
    send(&mut client, 4_801, 100);
    assert_eq!(client.begun(), [4_801]);
}

#[test]
fn a_request_that_has_come_to_its_end_is_not_refused() {
    let mut client = Client::new();
    let count = MAX_CONNECTION_WINDOW_BYTES / MAX_STREAM_WINDOW_BYTES;
    for number in 0..count {
        client.request(2 * number + 1, false);
        client.begun();
        send(&mut client, 2 * number + 1, WINDOW - 20_000);
        assert_eq!(client.server.reserve(2 * number + 1, WINDOW), Ok(true));
    }
    let last = 2 * count - 1;
    for number in 0..count - 1 {
        send(&mut client, 2 * number + 1, 19_000);
        assert_eq!(client.server.reserve(2 * number + 1, WINDOW), Ok(true));
    }
    let mut left = client.server.receiving.window.left();
    // The last request ends with the frame that takes the rest.
    for stream in (1..last).step_by(2) {
        let some = left.saturating_sub(16_384 + 1_000).min(1_000);
        send(&mut client, stream, some);
        left -= some;
    }
    assert!(client.resets().is_empty());
    client.frame(FrameType::Data, 1, last, &[7; 16_384]);
    assert_eq!(client.resets(), [(last - 2, code(ErrorCode::RefusedStream))]);
    assert_eq!(client.server.has_ended(last), Ok(true));
}

#[test]
fn requests_that_begin_late_are_refused_too_when_they_fill_the_connection() {
    let mut client = full();
    assert!(!client.server.has_room());
    // None of these begins, and no message is whole: what they send fills the window of the connection.
    let mut left = MAX_CONNECTION_WINDOW_BYTES as usize - 1_000;
    let mut streams = Vec::new();
    while left > 0 {
        let stream = 2 * streams.len() as u32 + 3;
        client.request(stream, false);
        let some = left.min(WINDOW - 6_000);
        send(&mut client, stream, some);
        left -= some;
        streams.push(stream);
    }
    assert!(client.resets().is_empty(), "none can be said to be incomplete");
    client.open(0, 1 << 25);
    client.open(1, 1 << 25);
    client.sent();
    assert_eq!(client.begun(), streams);
    for stream in &streams {
        assert_eq!(client.server.reserve(*stream, WINDOW), Ok(true));
    }
    client.server.settle(client.now);
    assert_eq!(client.resets(), [(streams[streams.len() - 1], code(ErrorCode::RefusedStream))]);
    // The others can be completed.
    send(&mut client, streams[0], 6_000);
    assert_eq!(client.server.take_data(streams[0], WINDOW).map(|data| data.len()), Ok(WINDOW));
    assert!(!client.server.is_closed());
}

#[test]
fn what_is_kept_of_a_body_is_held_until_it_is_not() {
    let mut client = Client::new();
    client.request(1, false);
    client.begun();
    for kept in 1..=100 {
        send(&mut client, 1, 10_000);
        assert_eq!(client.server.take_body(1).map(|data| data.len()), Ok(10_000));
        assert_eq!(client.server.keep(1, kept * 10_000), Ok(()));
        assert_eq!(client.server.held_bytes().requests, kept * 10_000);
    }
    send(&mut client, 1, 500);
    client.server.keep(1, 700).expect("open");
    assert_eq!(client.server.held_bytes().requests, 1_200, "what has come is not taken");
    assert_eq!(client.server.reserve(1, LARGE), Ok(true));
    assert_eq!(client.server.held_bytes().requests, LARGE);
    client.server.take_body(1).expect("open");
    client.server.keep(1, 100).expect("open");
    assert_eq!(client.server.held_bytes().requests, LARGE, "a part is kept yet");
    client.server.keep(1, 0).expect("open");
    assert_eq!(client.server.held_bytes().requests, 0);
    assert!(!client.server.is_closed());
}

#[test]
fn blocked_streams_are_looked_at_some_at_a_time() {
    let mut client = Client::new();
    client.set(4, 0);
    client.open(0, 1 << 30);
    let streams = 20_000;
    for number in 0..streams {
        client.request(2 * number + 1, true);
        client.begun();
        client.server.send_data(2 * number + 1, vec![7; 1_000].into()).expect("open");
    }
    client.sent();
    let setting =
        |value: u32| frame(FrameType::Settings, 0, 0, &[&[0, 4][..], &value.to_be_bytes()].concat());
    for value in 1..=1_000 {
        client.server.receive(&setting(value), client.now + std::time::Duration::from_millis(value.into()));
        let sent = frames(&client.take_output(usize::MAX));
        let data = sent.iter().filter(|sent| sent.kind == FrameType::Data).count();
        assert!(data <= MAX_UNBLOCKED_PER_ROUND, "{data} streams were looked at for a setting");
        assert!(client.server.has_more_output(), "the others are not forgotten");
    }
    // Nothing else happens, and each gets its window.
    client.set(4, 1_000);
    let mut data = 0;
    while client.server.has_more_output() || !client.server.output().is_empty() {
        data += client.take_output(usize::MAX).len();
    }
    assert!(data > 0);
    assert_eq!(client.server.queued, 0);
    assert_eq!(client.server.blocked.streams.len(), 0);
}
