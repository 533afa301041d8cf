//! A request as gRPC sees it: its header fields, and its messages, plain or gzip.
//!
//! - What a request is does not depend on how its body arrives.
//! - A call has a method POST, a type of gRPC, and an authority or a host. Its messages are within the limit, and what
//!   was plain stands in the body, in order.
//! - A message is what it was when it is sent again, compressed.
//! - What a client receives is printable ASCII, however much of its request is repeated in it.
//!
//! The first byte says how many bytes arrive at a time, the second which usual fields there are; then come names and
//! values of others, an empty name, and the body.

use std::cell::OnceCell;

use server::untrusted::{ReadRequest, RequestReader, gzip_message};

use crate::input::script::{Script, put_bytes};

/// Bits of the second byte: the fields of a usual call, and gzip.
pub const USUAL: u8 = 1;
pub const GZIP: u8 = 2;

/// Most bytes of a message: more than an RPC worker decompresses itself.
const MAX_BYTES: usize = 100_000;

/// Most bytes of a body: fewer than a stream's window.
const MAX_BODY_BYTES: usize = 128 << 10;

const CALL: [(&str, &[u8]); 6] = [
    (":method", b"POST"),
    (":scheme", b"http"),
    (":path", b"/etcdserverpb.KV/Range"),
    (":authority", b"127.0.0.1:2379"),
    ("content-type", b"application/grpc"),
    ("te", b"trailers"),
];

thread_local!(static READER: OnceCell<RequestReader> = const { OnceCell::new() });

fn read(fields: &[(&str, &[u8])], body: &[u8], at_a_time: usize) -> ReadRequest {
    READER.with(|reader| {
        let reader = reader.get_or_init(|| RequestReader::new().expect("a runtime"));
        reader.read(fields, body, at_a_time, MAX_BYTES)
    })
}

/// Reads the request.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (Some(at_a_time), Some(kind)) = (script.byte(), script.byte()) else { return };
    let mut fields = if kind & USUAL > 0 { CALL.to_vec() } else { Vec::new() };
    if kind & GZIP > 0 {
        fields.push(("grpc-encoding", b"gzip"));
    }
    while let Some(name) = script.bytes().filter(|name| !name.is_empty()) {
        let Ok(name) = str::from_utf8(name) else { return };
        fields.push((name, script.bytes().unwrap_or_default()));
    }
    let body = script.rest();
    let body = &body[..body.len().min(MAX_BODY_BYTES)];
    let request = read(&fields, body, body.len());
    assert_eq!(request, read(&fields, body, usize::from(at_a_time)), "cutting does not matter");
    match request {
        ReadRequest::Plain | ReadRequest::Malformed => {}
        ReadRequest::Refused(code, text) => check_failure(&code, &text),
        ReadRequest::Call { messages, failure, .. } => {
            check_head(&fields);
            check_messages(&messages, body, &fields);
            failure.iter().for_each(|(code, text)| check_failure(code, text));
        }
    }
}

fn check_failure(code: &str, text: &str) {
    assert!((1..=16).contains(&code.parse().expect("a number")), "{code}");
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
}

fn check_head(fields: &[(&str, &[u8])]) {
    let has = |wanted: &str, is_right: fn(&[u8]) -> bool| {
        fields.iter().any(|(name, value)| *name == wanted && is_right(value))
    };
    assert!(has(":method", |value| value == b"POST"));
    assert!(has("content-type", |value| value.starts_with(b"application/grpc")));
    assert!(has(":authority", |_| true) || has("host", |_| true));
    assert!(!has("connection", |_| true));
}

fn check_messages(messages: &[impl AsRef<[u8]>], mut body: &[u8], fields: &[(&str, &[u8])]) {
    let is_gzip = fields.iter().any(|(name, value)| *name == "grpc-encoding" && value == b"gzip");
    for message in messages.iter().map(AsRef::as_ref) {
        assert!(message.len() <= MAX_BYTES);
        let (&[flag, a, b, c, d], rest) = body.split_first_chunk().expect("a prefix");
        let (sent, rest) = rest.split_at(u32::from_be_bytes([a, b, c, d]) as usize);
        body = rest;
        assert!(flag == 1 && is_gzip || flag == 0 && sent == message);
    }
    let Some(last) = messages.last().map(AsRef::as_ref).filter(|_| is_gzip) else { return };
    let again =
        read(&[&CALL[..], &[("grpc-encoding", b"gzip")]].concat(), &gzip_message(last.to_vec()), 1000);
    let ReadRequest::Call { messages, failure: None, .. } = again else { panic!("{again:?}") };
    assert!(messages.iter().map(AsRef::as_ref).eq([last]));
}

/// The seeds: calls, messages of each form, and heads that are no call's.
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let script = |at_a_time: u8, kind: u8, fields: &[(&str, &str)], body: &[u8]| {
        let mut script = vec![at_a_time, kind];
        for (name, value) in fields {
            put_bytes(&mut script, name.as_bytes());
            put_bytes(&mut script, value.as_bytes());
        }
        put_bytes(&mut script, b"");
        [&script, body].concat()
    };
    let plain = [&[0, 0, 0, 0, 3][..], b"abc", &[0; 5]].concat();
    let gzip = gzip_message(vec![7; 70_000]);
    let both = [&plain, &gzip[..], &gzip_message(Vec::new())].concat();
    let head =
        [(":method", "GET"), (":path", "/"), ("content-type", "application/grpc+x"), ("host", "a\u{e9}%")];
    let proto =
        [("content-type", "application/grpc+proto"), ("grpc-timeout", "4999871u"), ("grpc-timeout", "1s")];
    vec![
        ("plain", script(3, USUAL, &[("grpc-timeout", "4999871u")], &plain)),
        ("gzip", script(200, USUAL | GZIP, &[("grpc-accept-encoding", "gzip")], &both)),
        ("not-announced", script(7, USUAL, &[], &gzip)),
        ("too-large", script(1, USUAL, &[], &[0, 0, 1, 0x86, 0xa1, 5])),
        ("not-whole", script(2, USUAL | GZIP, &[], &both[..both.len() - 1])),
        ("fields", script(5, 0, &head, &plain)),
        ("times", script(5, USUAL, &proto, &plain)),
        ("zero", script(5, USUAL, &[("grpc-timeout", "0n"), ("grpc-encoding", "snappy")], &plain)),
    ]
}
