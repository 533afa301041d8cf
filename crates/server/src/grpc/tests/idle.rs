//! What an idle connection takes of memory, counted, without descriptors, which limit how many sockets there can be.
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::serve;
use super::raw::RawClient;
use super::rig::{Seen, settings};

/// Connections in the gate, and in a long run, which takes 0.7 GB.
const CONNECTIONS: u64 = 2_000;
const MANY_CONNECTIONS: u64 = 100_000;

/// Bytes of a connection after a call, with both ends of the pipe that stands for its socket.
const MAX_IDLE_BYTES: i64 = 8 << 10;

/// Bytes of that pipe in each direction: a frame may have to wait for its reader.
const PIPE_BYTES: usize = 64;

/// Bytes that each of so many connections keeps allocated once its first call is answered.
fn bytes_of_each(connections: u64) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut clients = Vec::with_capacity(connections as usize);
    let mut open = || {
        runtime.block_on(async {
            for _ in 0..connections {
                let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
                tokio::spawn(async move {
                    let settings = settings(Duration::ZERO, Duration::ZERO);
                    serve(ours, Seen::default(), None, &settings, CancellationToken::new()).await;
                });
                let mut client = RawClient::greet(theirs).await;
                client.call(1, "/test/Echo", b"x").await;
                client.read_until(|(kind, flags, stream, _)| (*kind, flags & 1, *stream) == (1, 1, 1)).await;
                clients.push(client);
            }
        })
    };
    let counted = allocation_counter::measure(&mut open);
    assert_eq!(clients.len() as u64, connections);
    counted.bytes_current / connections as i64
}

#[test]
fn an_idle_connection_takes_little() {
    let bytes = bytes_of_each(CONNECTIONS);
    assert!(bytes <= MAX_IDLE_BYTES, "{bytes} bytes each");
}

#[test]
#[ignore = "takes 0.7 GB; cargo test -p stele-server a_hundred_thousand -- --ignored --nocapture"]
fn a_hundred_thousand_idle_connections_take_little_each() {
    let bytes = bytes_of_each(MANY_CONNECTIONS);
    println!("{bytes} bytes each");
    assert!(bytes <= MAX_IDLE_BYTES, "{bytes} bytes each");
}
