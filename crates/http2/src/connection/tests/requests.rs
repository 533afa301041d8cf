//! Requests as clients send them, and as they should not.
use super::super::Event;
use super::rig::{Client, block, code, frame};
use crate::ErrorCode;
use crate::frame::FrameType;
use crate::limits::{MAX_CONNECTION_WINDOW_BYTES, MAX_STREAM_WINDOW_BYTES};

#[test]
fn a_request_is_the_same_however_its_bytes_are_cut() {
    let head = block(&[(":path", "/p"), (":authority", "a b,c"), ("te", "trailers")]);
    let bytes = [
        &crate::PREFACE[..],
        &frame(FrameType::Settings, 0, 0, &[]),
        &frame(FrameType::Headers, 0, 1, &head[..5]),
        &frame(FrameType::Continuation, 0, 1, &[]),
        &frame(FrameType::Continuation, 4, 1, &head[5..]),
        &frame(FrameType::Data, 0, 1, b"hello "),
        &frame(FrameType::Data, 9, 1, b"\x03world---"),
    ]
    .concat();
    for cut in 1..bytes.len() {
        let mut client = Client::silent(super::rig::settings());
        bytes.chunks(cut).for_each(|part| client.server.receive(part, client.now));
        let events = client.events();
        let [Event::Request { stream: 1, head }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((head.path(), head.pseudo(":authority")), (&b"/p"[..], Some(&b"a b,c"[..])));
        assert_eq!(client.server.is_finished(1), Ok(false));
        assert_eq!(client.server.take_data(1, 11), Ok(b"hello world".to_vec()));
        assert_eq!(client.server.is_finished(1), Ok(true));
        assert!(!client.server.is_closed());
    }
}

#[test]
fn arrivals_are_announced_once_until_they_are_looked_at() {
    let mut client = Client::new();
    client.request(1, false);
    client.frame(FrameType::Data, 0, 1, b"a");
    assert_eq!(client.begun(), [1]);
    (0..10).for_each(|_| client.frame(FrameType::Data, 0, 1, b"b"));
    let events = client.events();
    assert!(matches!(events[..], [Event::Data { stream: 1 }]), "{events:?}");
    client.frame(FrameType::Data, 1, 1, b"");
    assert!(matches!(client.events()[..], [Event::Data { stream: 1 }]));
    assert_eq!(client.server.take_data(1, 11).map(|data| data.len()), Ok(11));
}

#[test]
fn thousands_of_small_messages_may_wait() {
    let mut client = Client::new();
    client.request(1, false);
    for _ in 0..10_000 {
        client.frame(FrameType::Data, 0, 1, b"watch");
    }
    assert_eq!(client.server.take_data(1, 50_000).map(|data| data.len()), Ok(50_000));
    assert_eq!(client.end(), None);
}

#[test]
fn a_block_is_remembered_until_the_table_changes() {
    let mut client = Client::new();
    // Adds the path to the table; then it is index 62.
    client.headers(1, true, b"\x83\x44\x02/p");
    client.headers(3, true, b"\x83\xbe");
    client.headers(5, true, b"\x83\xbe");
    client.headers(7, true, b"\x83\x44\x02/q");
    client.headers(9, true, b"\x83\xbe");
    let heads: Vec<_> = client
        .events()
        .into_iter()
        .map(|event| if let Event::Request { head, .. } = event { head } else { panic!("{event:?}") })
        .collect();
    assert_eq!(heads.iter().map(|head| head.path()).collect::<Vec<_>>(), [b"/p", b"/p", b"/p", b"/q", b"/q"]);
    assert!(std::sync::Arc::ptr_eq(&heads[1], &heads[2]), "the same block is the same head");
}

#[test]
fn malformed_heads_reset_their_streams_only() {
    let mut client = Client::new();
    client.headers(1, true, &block(&[("Upper", "a")]));
    client.headers(3, true, &block(&[("a", "b"), (":path", "/")]));
    client.headers(5, true, &block(&[(":status", "200"), (":path", "/")]));
    client.request(7, true);
    let protocol = code(ErrorCode::Protocol);
    assert_eq!(client.resets(), [(1, protocol), (3, protocol), (5, protocol)]);
    assert_eq!(client.begun(), [7]);
}

#[test]
fn a_request_that_is_reset_in_the_read_it_came_with_never_begins() {
    let mut client = Client::new();
    client.request(1, true);
    client.frame(FrameType::RstStream, 0, 1, &8_u32.to_be_bytes());
    assert!(matches!(client.events()[..], [Event::Gone { .. }]));
}

#[test]
fn trailers_end_a_request() {
    let mut client = Client::new();
    client.request(1, false);
    client.events();
    client.headers(1, true, &block(&[("a", "b")]));
    assert!(matches!(client.events()[..], [Event::Data { stream: 1 }]));
    assert_eq!(client.server.is_finished(1), Ok(true));
    client.request(3, false);
    client.headers(3, true, &block(&[(":path", "b")]));
    client.request(5, false);
    client.headers(5, false, &block(&[("a", "b")]));
    assert_eq!(client.resets(), [(3, 1), (5, 1)], "pseudo-headers, and no end");
}

#[test]
fn too_many_streams_are_refused() {
    let mut client = Client::new();
    client.server.settings.max_concurrent_streams = 2;
    [1, 3, 5].into_iter().for_each(|stream| client.request(stream, true));
    assert_eq!(client.begun(), [1, 3]);
    assert_eq!(client.resets(), [(5, code(ErrorCode::RefusedStream))]);
    client.server.reset(1, ErrorCode::Cancel);
    client.request(7, true);
    assert_eq!(client.begun(), [7]);
}

#[test]
fn a_client_is_kept_to_its_windows_and_gets_them_back() {
    let mut client = Client::new();
    client.request(1, false);
    let half = MAX_STREAM_WINDOW_BYTES as usize / 2;
    let data = vec![7; 16_383];
    let frames = MAX_STREAM_WINDOW_BYTES as usize >> 14;
    for _ in 0..frames {
        client.frame(FrameType::Data, 0, 1, &data);
    }
    assert!(client.sent().is_empty(), "nothing was read");
    assert_eq!(client.server.unread(1).map(<[u8]>::len), Ok(frames * data.len()));
    assert_eq!(client.server.take_data(1, half - 1).map(|data| data.len()), Ok(half - 1));
    assert!(client.sent().is_empty(), "less than half of the window was taken");
    assert_eq!(client.server.take_data(1, 1), Ok(vec![7]));
    let updates: Vec<_> = client.sent().iter().map(|sent| (sent.stream, sent.number())).collect();
    assert_eq!(updates, [(1, half as u32)], "half of the connection's window is not taken yet");
    (0..frames / 2).for_each(|_| client.frame(FrameType::Data, 0, 1, &data));
    client.frame(FrameType::Data, 0, 1, &data[..100]);
    assert_eq!(client.resets(), [(1, code(ErrorCode::FlowControl))]);
    assert_eq!(client.server.held_bytes().requests, 0, "unread bytes return with their stream");
    // Streams together are kept to the connection's window.
    let mut client = Client::new();
    let streams = MAX_CONNECTION_WINDOW_BYTES / (frames * data.len()) as u32;
    for stream in 0..streams {
        client.request(2 * stream + 1, false);
        (0..frames).for_each(|_| client.frame(FrameType::Data, 0, 2 * stream + 1, &data));
    }
    assert!(!client.server.is_closed());
    client.request(2 * streams + 1, false);
    (0..frames).for_each(|_| client.frame(FrameType::Data, 0, 2 * streams + 1, &data));
    assert_eq!(client.end().map(|end| end.0), Some(code(ErrorCode::FlowControl)));
}

#[test]
fn data_of_a_stream_that_is_over_is_ignored_and_returned() {
    let mut client = Client::new();
    client.request(1, false);
    client.server.reset(1, ErrorCode::No);
    client.sent();
    for _ in 0..MAX_CONNECTION_WINDOW_BYTES / 2 / 16_384 {
        client.frame(FrameType::Data, 0, 1, &vec![7; 16_384]);
    }
    let sent = client.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].kind, sent[0].stream), (FrameType::WindowUpdate, 0));
}

#[test]
fn data_behind_the_end_resets_the_stream() {
    let mut client = Client::new();
    client.request(1, true);
    client.events();
    client.frame(FrameType::Data, 0, 1, b"more");
    assert_eq!(client.resets(), [(1, code(ErrorCode::StreamClosed))]);
    assert!(matches!(client.events()[..], [Event::Gone { .. }]));
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let (protocol, size, closed) = (1, 6, 5);
    let cases: [(FrameType, u8, u32, &[u8], u32); 27] = [
        (FrameType::Data, 0, 0, b"", protocol),
        (FrameType::Data, 0, 5, b"", protocol),
        (FrameType::Data, 0, 2, b"", protocol),
        (FrameType::Data, 8, 1, b"", protocol),
        (FrameType::Data, 8, 1, b"\x05abcd", protocol),
        (FrameType::Headers, 4, 0, b"\x84", protocol),
        (FrameType::Headers, 4, 2, b"\x84", protocol),
        (FrameType::Headers, 4 | 8, 3, b"\x05\x84", protocol),
        (FrameType::Headers, 4 | 32, 3, b"\0\0\0\0", size),
        (FrameType::Headers, 4, 3, b"\xff", 9),
        (FrameType::Continuation, 4, 1, b"\x84", protocol),
        (FrameType::RstStream, 0, 1, b"\0\0\0", size),
        (FrameType::RstStream, 0, 0, b"\0\0\0\0", protocol),
        (FrameType::RstStream, 0, 3, b"\0\0\0\0", protocol),
        (FrameType::Settings, 0, 1, b"", protocol),
        (FrameType::Settings, 0, 0, b"\0\0\0", size),
        (FrameType::Settings, 1, 0, b"\0\x03\0\0\0\x01", size),
        (FrameType::Settings, 0, 0, b"\0\x02\0\0\0\x02", protocol),
        (FrameType::Settings, 0, 0, b"\0\x04\x80\0\0\0", 3),
        (FrameType::Settings, 0, 0, b"\0\x05\0\0\x3f\xff", protocol),
        (FrameType::Ping, 0, 1, b"12345678", protocol),
        (FrameType::Ping, 0, 0, b"1234567", size),
        (FrameType::GoAway, 0, 1, b"12345678", protocol),
        (FrameType::WindowUpdate, 0, 0, b"\0\0\0\0", protocol),
        (FrameType::WindowUpdate, 0, 0, b"\x7f\xff\xff\xff", 3),
        (FrameType::PushPromise, 4, 1, b"\0\0\0\x02", protocol),
        (FrameType::Priority, 0, 1, b"\0", size),
    ];
    for (kind, flags, stream, payload, expected) in cases {
        let mut client = Client::new();
        client.request(1, false);
        client.frame(kind, flags, stream, payload);
        assert_eq!(client.end().map(|end| end.0), Some(expected), "{kind:?} {flags} {stream} {payload:?}");
    }
    let mut client = Client::new();
    client.request(3, true);
    client.request(3, true);
    assert_eq!(client.end().map(|end| end.0), Some(closed));
    let mut client = Client::new();
    client.request(3, true);
    client.request(1, true);
    assert_eq!(client.end().map(|end| end.0), Some(protocol));
    let mut client = Client::new();
    client.frame(FrameType::Headers, 0, 1, b"\x84");
    client.frame(FrameType::Ping, 0, 0, b"12345678");
    assert_eq!(client.end().map(|end| end.0), Some(protocol), "inside a header block");
    let mut client = Client::new();
    client.server.receive(&[0, 0x40, 1], client.now);
    client.server.receive(&[0, 0, 0, 0, 0, 1], client.now);
    assert_eq!(client.end().map(|end| end.0), Some(size), "a frame of 16,385 bytes is refused by its head");
    let mut client = Client::silent(super::rig::settings());
    client.server.receive(b"GET / HTTP/1.1\r\n", client.now);
    assert_eq!(client.end().map(|end| end.0), Some(protocol));
    let mut client = Client::silent(super::rig::settings());
    client.server.receive(crate::PREFACE, client.now);
    client.request(1, true);
    assert_eq!(client.end().map(|end| end.0), Some(protocol), "settings come first");
}

#[test]
fn what_is_unknown_is_ignored() {
    let mut client = Client::new();
    client.frame(FrameType::Unknown, 0xff, 9, b"anything");
    client.set(0x99, 7);
    client.frame(FrameType::Priority, 0, 9, b"12345");
    client.frame(FrameType::GoAway, 0, 0, b"12345678 why");
    client.request(1, false);
    client.frame(FrameType::WindowUpdate, 0, 1, b"\0\0\0\x01");
    assert_eq!(client.begun(), [1]);
    assert_eq!(client.end(), None);
}
