//! What floods, bombs and games cost: bounded memory, and an end.
use std::time::Duration;

use super::rig::{Client, block, code, frame};
use crate::ErrorCode;
use crate::frame::FrameType;
use crate::hpack::Field;
use crate::limits::{
    DEFAULT_WINDOW_BYTES, MAX_CONTROL_BYTES, MAX_FRAMES_PER_ROUND, MAX_HEADER_FRAMES, MAX_OUTPUT_BYTES,
    MAX_OVERHEAD_FRAMES_PER_SECOND, MAX_RESETS_PER_SECOND,
};

/// Sends frames until the connection ends; how many it took.
fn flood(client: &mut Client, mut send: impl FnMut(&mut Client, u32)) -> u32 {
    let mut sent = 0;
    while !client.server.is_closed() {
        send(client, sent);
        client.events();
        client.take_output(usize::MAX);
        sent += 1;
        assert!(sent < 1_000_000, "it never ends");
    }
    sent
}

fn calm() -> u32 {
    code(ErrorCode::EnhanceYourCalm)
}

#[test]
fn rapid_resets_end_the_connection() {
    let mut client = Client::new();
    let sent = flood(&mut client, |client, number| {
        client.request(2 * number + 1, true);
        client.frame(FrameType::RstStream, 0, 2 * number + 1, &8_u32.to_be_bytes());
    });
    assert_eq!(sent, MAX_RESETS_PER_SECOND + 1);
    assert_eq!(client.server.stream_count(), 0);
    // The same in twice the time is tolerated.
    let mut client = Client::new();
    for number in 0..2 * MAX_RESETS_PER_SECOND {
        client.now = Duration::from_secs(1 + u64::from(number / MAX_RESETS_PER_SECOND));
        client.request(2 * number + 1, true);
        client.frame(FrameType::RstStream, 0, 2 * number + 1, &8_u32.to_be_bytes());
    }
    assert!(!client.server.is_closed());
    // Streams that we must reset count too.
    let mut client = Client::new();
    let bad = block(&[("Bad", "")]);
    let sent = flood(&mut client, |client, number| client.headers(2 * number + 1, true, &bad));
    assert_eq!(sent, MAX_RESETS_PER_SECOND + 1);
}

#[test]
fn frames_that_carry_nothing_end_the_connection() {
    let sends: [fn(&mut Client, u32); 4] = [
        |client, _| client.frame(FrameType::Data, 0, 1, b""),
        |client, _| client.frame(FrameType::Priority, 0, 1, b"12345"),
        |client, _| client.frame(FrameType::Unknown, 0, 1, b""),
        |client, number| client.set(4, number),
    ];
    for send in sends {
        let mut client = Client::new();
        client.request(1, false);
        let sent = flood(&mut client, send);
        assert!(sent <= MAX_OVERHEAD_FRAMES_PER_SECOND + 1);
    }
}

#[test]
fn pings_beyond_the_rate_end_the_connection() {
    let mut client = Client::new();
    client.request(1, false);
    for at in 0..4 {
        assert!(!client.server.is_closed());
        client.now = Duration::from_secs(10 + at);
        client.frame(FrameType::Ping, 0, 0, b"12345678");
    }
    assert_eq!(client.end(), Some((calm(), "too_many_pings".to_owned())));
}

#[test]
fn answers_permit_pings_and_refused_heads_do_not() {
    let head = [Field { name: ":status", value: b"400", is_usual: false }];
    for is_refused in [false, true] {
        let mut client = Client::new();
        client.frame(FrameType::Ping, 0, 0, b"12345678");
        client.request(1, false);
        match is_refused {
            true => client.server.refuse(1, &head),
            false => client.server.send_headers(1, &head, true),
        }
        .expect("open");
        (0..3).for_each(|_| client.frame(FrameType::Ping, 0, 0, b"12345678"));
        assert_eq!(client.server.is_closed(), is_refused);
    }
}

#[test]
fn a_client_that_takes_no_answers_is_not_read() {
    let mut client = Client::new();
    client.request(1, false);
    let mut sent = 0;
    while client.server.wants_input() {
        client.set(4, 70_000);
        sent += 1;
    }
    assert!(sent * 9 <= MAX_OUTPUT_BYTES + MAX_CONTROL_BYTES + 9, "{sent} settings were answered");
    client.sent();
    assert!(client.server.wants_input(), "it goes on when they are taken");
    // Answers that are headers alone count as well.
    let mut answered = 0;
    while client.server.takes_events() {
        let stream = 2 * answered + 3;
        client.request(stream, true);
        client.server.send_headers(stream, &[], true).expect("it is open");
        answered += 1;
    }
    assert!(answered as usize * 9 <= MAX_OUTPUT_BYTES + MAX_CONTROL_BYTES + 9, "{answered} were answered");
    assert!(!client.server.wants_input());
}

#[test]
fn header_blocks_end_somewhere() {
    let mut client = Client::new();
    client.frame(FrameType::Headers, 0, 1, b"");
    let sent = flood(&mut client, |client, _| client.frame(FrameType::Continuation, 0, 1, b""));
    assert_eq!(sent, MAX_HEADER_FRAMES);
    let mut client = Client::new();
    client.frame(FrameType::Headers, 0, 1, b"");
    let fragment = vec![0; 16_384];
    let sent = flood(&mut client, |client, _| client.frame(FrameType::Continuation, 0, 1, &fragment));
    assert!(sent <= 1_025, "{sent} frames of 16 KiB");
}

#[test]
fn a_small_block_that_means_a_large_list_resets_its_stream() {
    let mut client = Client::new();
    // An entry of 4,000 bytes, then references to it: 5,000 bytes that mean 20 MB, and 100 that mean 400 KB.
    let entry = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4_000]].concat();
    client.headers(1, true, &entry);
    client.headers(3, true, &[0x80 | 62; 5_000]);
    assert_eq!(client.resets(), [(3, code(ErrorCode::FrameSize))]);
    client.headers(5, true, &[0x80 | 62; 100]);
    assert_eq!(client.resets(), [(5, code(ErrorCode::FrameSize))]);
    client.headers(7, true, &[0x80 | 62; 12]);
    assert_eq!(client.begun(), [1, 7]);
    assert!(!client.server.is_closed());
}

#[test]
fn large_header_lists_are_admitted() {
    let mut client = Client::new();
    let value = "v".repeat(100);
    let fields: Vec<(&str, &str)> = vec![("name", &value); 1_000];
    let block = block(&fields);
    let (first, rest) = block.split_at(16_384);
    client.frame(FrameType::Headers, 1, 1, first);
    for part in rest.chunks(16_384) {
        client.frame(FrameType::Continuation, 0, 1, part);
    }
    client.frame(FrameType::Continuation, 4, 1, b"");
    assert_eq!(client.begun(), [1]);
}

#[test]
fn windows_are_no_game() {
    // Many streams with an answer that waits, and a window that opens by one byte at a time.
    let mut client = Client::new();
    client.set(4, 0);
    client.open(0, 1 << 20);
    client.sent();
    for number in 0..1_000 {
        client.request(2 * number + 1, true);
        client.server.send_data(2 * number + 1, vec![7; 1_000].into()).expect("open");
    }
    client.events();
    assert_eq!(client.sent().len(), 0);
    let setting =
        |value: u32| frame(FrameType::Settings, 0, 0, &[&[0, 4][..], &value.to_be_bytes()].concat());
    // Settings of one read are applied together: one frame a stream, not one a setting.
    let settings: Vec<u8> = (1..=100).flat_map(setting).collect();
    client.server.receive(&settings, client.now);
    let sent = client.sent();
    assert_eq!(sent.iter().filter(|sent| sent.kind == FrameType::Data).count(), 1_000);
}

#[test]
fn a_round_makes_some_frames_however_small_they_are() {
    let mut client = Client::new();
    client.set(4, 1 << 20);
    client.request(1, true);
    client.server.send_data(1, vec![7; DEFAULT_WINDOW_BYTES as usize].into()).expect("open");
    for number in 1..=1_000 {
        client.request(2 * number + 1, true);
        client.server.send_data(2 * number + 1, vec![7].into()).expect("open");
    }
    client.events();
    client.sent();
    assert!(!client.server.has_more_output(), "the window of the connection is full");
    client.open(0, 1 << 20);
    for left in (0..4).rev() {
        let taken = client.take_output(usize::MAX);
        assert!(taken.len() <= MAX_FRAMES_PER_ROUND * 10, "{} bytes at once", taken.len());
        assert_eq!(client.server.has_more_output(), left > 0);
    }
}

#[test]
fn the_streams_of_a_connection_that_is_over_are_dropped_some_at_a_time() {
    let mut client = Client::new();
    (0..5).for_each(|number| client.request(2 * number + 1, true));
    let left = [(); 3].map(|()| (client.server.drop_streams(2), client.server.stream_count()));
    assert_eq!(left, [(true, 3), (true, 1), (false, 0)]);
    assert!(client.server.is_closed());
}
