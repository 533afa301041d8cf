//! What a client sends on an HTTP/2 connection.
//!
//! The first byte says how the bytes are cut. Behind the preface, which is given, any bytes are received; requests are
//! answered. What the server makes of them does not depend on the cut, and what it may hold is limited.

use std::io::IoSlice;
use std::time::Duration;

use http2::{Connection, Event, Field, HttpSettings, Keepalive, MAX_RESERVED_BYTES, PREFACE, UsualAnswer};

/// Upper bound of a connection's output beyond the answers.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Bytes by which some messages are larger than what has come of them.
const MISSING_BYTES: usize = 1 << 20;

const USUAL_FIELD: Field<'static> = Field { name: "grpc-status", value: b"0", is_usual: true };

/// Receives the bytes.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    let whole = served(bytes, bytes.len().max(1));
    assert_eq!(whole, served(bytes, usize::from(*cut).max(1)), "cutting does not matter");
}

/// What was asked, and whether the connection was closed for it.
fn served(bytes: &[u8], cut: usize) -> (Vec<(u32, Vec<u8>, Vec<u8>)>, bool) {
    let second = Duration::from_secs(1);
    let keepalive = Keepalive { interval: second, timeout: second, min_client_interval: second };
    let usual_answer = UsualAnswer { head: &[USUAL_FIELD], trailers: &[USUAL_FIELD] };
    let settings =
        HttpSettings { max_concurrent_streams: 100, keepalive, is_urgent: |_| false, usual_answer };
    let mut connection: Connection<u32> = Connection::new(settings);
    connection.receive(PREFACE, Duration::ZERO);
    let mut asked = Vec::new();
    for part in bytes.chunks(cut) {
        connection.receive(part, Duration::ZERO);
    }
    while let Some(event) = connection.next_event() {
        let Event::Request { stream, head } = event else { continue };
        let fields: Vec<u8> = head.fields().flat_map(|(name, value)| [name, value].concat()).collect();
        asked.push((stream, head.path().to_vec(), fields));
        answer(&mut connection, stream);
    }
    connection.settle(Duration::ZERO);
    let closed = connection.is_closed();
    assert!(connection.output().len() <= MAX_HELD_BYTES + 4 * bytes.len());
    let held = connection.held_bytes();
    assert!(held.answers <= MAX_HELD_BYTES + 8 * bytes.len(), "{held:?}");
    assert!(held.requests <= MAX_RESERVED_BYTES + bytes.len(), "{held:?}");
    take_output(&mut connection);
    for at in 1..5 {
        connection.on_time(second * at);
    }
    take_output(&mut connection);
    (asked, closed)
}

/// Takes the data that has come, and answers with as much. Streams whose number says so are left open.
fn answer(connection: &mut Connection<u32>, stream: u32) {
    let usual = |name, value| Field { name, value, is_usual: true };
    let Ok(come) = connection.unread(stream).map(<[u8]>::len) else { return };
    let has_room = connection.reserve(stream, come + usize::from(stream.is_multiple_of(5)) * MISSING_BYTES);
    let taken =
        if stream % 7 == 1 { connection.take_body(stream) } else { connection.take_data(stream, come) };
    let (Ok(_), Ok(data)) = (has_room, taken) else { return };
    if stream % 4 == 3 {
        let _ = connection.answer(stream, b"front", vec![data.into()]);
        return;
    }
    let _ = connection.send_headers(stream, &[usual(":status", b"200")], false);
    let _ = match stream % 3 {
        0 => connection.send_parts(stream, b"front", vec![data.clone().into(), data.into()]),
        _ => connection.send_data(stream, data.into()),
    };
    if stream % 4 == 1 {
        let _ = connection.finish(stream, &[usual("grpc-status", b"0")]);
    }
}

fn take_output(connection: &mut Connection<u32>) {
    while !connection.output().is_empty() {
        let output = connection.output();
        let mut slices = [IoSlice::new(&[]); 4];
        let count = output.slices(&mut slices);
        let written = slices[..count].iter().map(|slice| slice.len()).sum();
        output.advance(written);
    }
}
