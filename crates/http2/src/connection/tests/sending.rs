//! Answers: their order, and the client's windows.
use bytes::Bytes;

use super::super::{Event, StreamGone};
use super::rig::{Client, Sent, code, field};
use crate::ErrorCode;
use crate::frame::{END_HEADERS, END_STREAM, FrameType};

const WINDOW: u16 = 4;

/// DATA of a stream: the lengths of its frames.
fn lengths(sent: &[Sent], stream: u32) -> Vec<usize> {
    sent.iter()
        .filter(|sent| sent.kind == FrameType::Data && sent.stream == stream)
        .map(|sent| sent.payload.len())
        .collect()
}

#[test]
fn an_answer_is_headers_data_and_trailers() {
    let mut client = Client::new();
    for stream in [1, 3] {
        client.request(stream, true);
        client.server.send_headers(stream, &[field(":status", "200")], false).expect("open");
        client.server.send_data(stream, Bytes::from_static(b"hello")).expect("open");
        client.server.finish(stream, &[field("grpc-status", "0")]).expect("open");
        let sent = client.sent();
        let kinds: Vec<_> = sent.iter().map(|sent| (sent.kind, sent.flags, sent.stream)).collect();
        let headers = |flags| (FrameType::Headers, END_HEADERS | flags, stream);
        assert_eq!(kinds, [headers(0), (FrameType::Data, 0, stream), headers(END_STREAM)]);
        assert_eq!(client.decoded(&sent[0]), [(":status".to_owned(), "200".to_owned())]);
        assert_eq!(client.decoded(&sent[2]), [("grpc-status".to_owned(), "0".to_owned())]);
    }
    assert_eq!(client.server.stream_count(), 0);
    assert_eq!(client.server.send_data(3, Bytes::new()), Err(StreamGone));
    assert_eq!(client.server.finish(3, &[]), Err(StreamGone));
}

#[test]
fn a_client_that_goes_on_sending_learns_that_the_stream_is_over() {
    let mut client = Client::new();
    client.request(1, false);
    client.server.send_headers(1, &[field(":status", "200"), field("grpc-status", "5")], true).expect("open");
    assert_eq!(client.resets(), [(1, code(ErrorCode::No))]);
    client.request(3, false);
    client.server.send_headers(3, &[field(":status", "404")], false).expect("open");
    client.server.finish(3, &[]).expect("open");
    let sent = client.sent();
    assert_eq!((sent[1].kind, sent[1].flags, sent[1].payload.len()), (FrameType::Data, END_STREAM, 0));
    assert_eq!((sent[2].kind, sent[2].number()), (FrameType::RstStream, 0));
}

#[test]
fn data_waits_for_the_window_of_its_stream() {
    let mut client = Client::new();
    client.set(WINDOW, 10);
    client.request(1, true);
    client.events();
    client.server.send_headers(1, &[field(":status", "200")], false).expect("open");
    client.server.send_data(1, vec![7; 25].into()).expect("open");
    client.server.finish(1, &[field("grpc-status", "0")]).expect("open");
    assert_eq!(client.server.is_sent(1), Ok(false));
    assert_eq!(lengths(&client.sent(), 1), [10]);
    client.open(1, 4);
    assert_eq!(lengths(&client.sent(), 1), [4]);
    // A larger initial window is larger for this stream too, a smaller one is owed.
    client.set(WINDOW, 12);
    assert_eq!(lengths(&client.sent(), 1), [2]);
    client.set(WINDOW, 0);
    client.open(1, 12);
    assert_eq!(lengths(&client.sent(), 1), [0; 0]);
    client.open(1, 100);
    let sent = client.sent();
    assert_eq!(lengths(&sent, 1), [9]);
    assert_eq!(sent.last().map(|sent| (sent.kind, sent.flags)), Some((FrameType::Headers, 5)));
    assert!(client.events().is_empty(), "the owner has ended the stream");
}

#[test]
fn parts_are_one_frame_or_are_cut_where_windows_end() {
    for (window, expected) in [(100, vec![12]), (9, vec![9, 3]), (2, vec![2, 2, 2, 2, 2, 2])] {
        let mut client = Client::new();
        client.set(WINDOW, window);
        client.request(1, true);
        let parts = [&b"abc"[..], b"", b"defg"].map(Bytes::from_static).to_vec();
        client.server.send_parts(1, b"front", parts).expect("open");
        let mut sent = client.sent();
        while lengths(&sent, 1).iter().sum::<usize>() < 12 {
            client.open(1, window);
            sent.extend(client.sent());
        }
        assert_eq!(lengths(&sent, 1), expected);
        let bytes: Vec<u8> = sent
            .iter()
            .filter(|sent| sent.kind == FrameType::Data)
            .flat_map(|sent| sent.payload.clone())
            .collect();
        assert_eq!(bytes, b"frontabcdefg");
        assert_eq!(client.server.is_sent(1), Ok(true));
    }
    assert_eq!(Client::new().server.send_parts(1, b"x", Vec::new()), Err(StreamGone));
}

#[test]
fn the_owner_learns_when_its_data_is_on_its_way() {
    let mut client = Client::new();
    client.set(WINDOW, 10);
    client.request(1, true);
    client.events();
    client.server.send_data(1, vec![7; 11].into()).expect("open");
    client.sent();
    assert!(client.events().is_empty());
    client.open(1, 1);
    client.sent();
    assert!(matches!(client.events()[..], [Event::Sent { stream: 1 }]));
    assert_eq!(client.server.is_sent(1), Ok(true));
}

#[test]
fn streams_share_the_window_of_the_connection() {
    let mut client = Client::new();
    client.set(WINDOW, 1 << 20);
    for stream in [1, 3] {
        client.request(stream, true);
        client.server.send_data(stream, vec![7; 100_000].into()).expect("open");
    }
    let sent = client.sent();
    let of = |stream| lengths(&sent, stream).iter().sum::<usize>();
    assert_eq!(of(1) + of(3), 65_535);
    client.open(0, 32_768);
    let sent = client.sent();
    assert_eq!((lengths(&sent, 1), lengths(&sent, 3)), (vec![16_384], vec![16_384]), "they take turns");
    client.open(0, 1_000_000);
    let sent = client.sent();
    assert_eq!(
        of(1) + of(3) + 32_768 + lengths(&sent, 1).iter().chain(&lengths(&sent, 3)).sum::<usize>(),
        200_000
    );
}

#[test]
fn data_waits_for_a_socket_that_takes_nothing() {
    let mut client = Client::new();
    client.set(WINDOW, 1 << 30);
    client.open(0, 1 << 30);
    client.request(1, true);
    client.events();
    for _ in 0..100 {
        client.server.send_data(1, vec![7; 100_000].into()).expect("open");
    }
    assert!(client.server.output().len() < 100_000, "{} bytes wait", client.server.output().len());
    assert_eq!(lengths(&client.sent(), 1).iter().sum::<usize>(), 10_000_000);
    assert!(matches!(client.events()[..], [Event::Sent { stream: 1 }]));
}

#[test]
fn a_reset_ends_what_waits() {
    let mut client = Client::new();
    client.request(1, true);
    client.events();
    *client.server.slot(1).expect("open") = 77;
    client.server.send_data(1, vec![7; 1 << 20].into()).expect("open");
    client.frame(FrameType::RstStream, 0, 1, &8_u32.to_be_bytes());
    assert!(matches!(client.events()[..], [Event::Gone { stream: 1, slot: 77 }]));
    client.sent();
    client.open(0, 1 << 20);
    assert!(client.sent().is_empty());
    assert_eq!(client.server.is_sent(1), Err(StreamGone));
}

#[test]
fn long_headers_take_several_frames() {
    let mut client = Client::new();
    client.request(1, true);
    let text = "x".repeat(40_000);
    client.server.send_headers(1, &[field("grpc-message", &text)], true).expect("open");
    let sent = client.sent();
    let kinds: Vec<_> = sent.iter().map(|sent| (sent.kind, sent.flags)).collect();
    let expected = [
        (FrameType::Headers, END_STREAM),
        (FrameType::Continuation, 0),
        (FrameType::Continuation, END_HEADERS),
    ];
    assert_eq!(kinds, expected);
    let payload = sent.into_iter().flat_map(|sent| sent.payload).collect();
    let whole = Sent { kind: FrameType::Headers, flags: 5, stream: 1, payload };
    assert_eq!(client.decoded(&whole), [("grpc-message".to_owned(), text)]);
}

#[test]
fn windows_that_are_too_large_are_refused() {
    let mut client = Client::new();
    client.request(1, true);
    client.open(1, (1 << 31) - 1);
    assert_eq!(client.resets(), [(1, code(ErrorCode::FlowControl))]);
    client.request(3, true);
    client.open(3, 0);
    assert_eq!(client.resets(), [(3, code(ErrorCode::Protocol))]);
}
