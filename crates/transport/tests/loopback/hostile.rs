//! Peers that send garbage, giants, nothing, or two connections at once.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use transport::{
    ANSWER_BYTES, AcceptedConnection, DropReason, FrameHeader, FrameKind, HELLO_BYTES, HandshakeAnswer,
    Hello, PeersConfig, SendOutcome, StreamClass, StreamKind,
};

use crate::cluster::{Member, PATIENCE, identity};

/// Member 2 without its manners: a stream to the member whose handshake was accepted.
fn intrude(member: &Member, kind: StreamKind) -> TcpStream {
    let mut stream = TcpStream::connect(member.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&Hello::new(identity(2), member.id, kind).encode()).unwrap();
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(HandshakeAnswer::decode(&answer, b"").unwrap().verdict, Ok(transport::MAX_VERSION));
    stream
}

fn frame(kind: FrameKind, body: &'static [u8]) -> Vec<u8> {
    let header = FrameHeader::of(kind, &[Bytes::from_static(body)], u32::MAX).unwrap();
    [&header.encode(), body].concat()
}

/// Waits until the member has closed the connection.
fn assert_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

#[test]
fn garbage_after_the_handshake_closes_the_connection_and_nothing_is_delivered() {
    let member = Member::start(1);
    let giant = FrameHeader { kind: FrameKind::Message, length: u32::MAX, checksum: 0 }.encode().to_vec();
    let mut damaged = frame(FrameKind::Message, b"payload");
    damaged[18] ^= 1;
    for class in StreamClass::ALL {
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            giant.clone(),
            damaged.clone(),
            frame(FrameKind::Pong, b"12345678"),
            frame(FrameKind::SnapshotChunk, b"12345678"),
            frame(FrameKind::Ping, b"not a number"),
        ] {
            let mut stream = intrude(&member, StreamKind::Messages(class));
            stream.write_all(&frame(FrameKind::Message, b"good")).unwrap();
            stream.write_all(&bytes).unwrap();
            assert_closed(stream);
        }
    }
    let seen = member.journal.wait_for("the good frames", |seen| seen.frames.len() == 12);
    assert!(seen.frames.iter().all(|(from, _, body)| *from == 2 && body == "good"));
}

#[test]
fn what_is_no_hello_gets_no_answer() {
    let member = Member::start(1);
    let mut unknown_stream = Hello::new(identity(2), 1, StreamKind::Snapshot).encode();
    unknown_stream[12] = 77;
    for bytes in [[0; HELLO_BYTES], [0xff; HELLO_BYTES], unknown_stream] {
        let mut stream = TcpStream::connect(member.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }
}

#[test]
fn a_hello_that_never_ends_is_given_up() {
    let mut config = PeersConfig::new(identity(1));
    config.timeouts.handshake = Duration::from_millis(20);
    let member = Member::configured(config);
    let mut stream = TcpStream::connect(member.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&transport::PREFACE[..]).unwrap();
    assert_closed(stream);
}

#[test]
fn a_newer_connection_replaces_the_older_and_waits_for_its_delivery() {
    let member = Member::start(1);
    member.journal.change(|seen| seen.bulk_blocked = true);
    let kind = StreamKind::Messages(StreamClass::Bulk);
    let mut older = intrude(&member, kind);
    older.write_all(&frame(FrameKind::Message, b"older")).unwrap();
    older.write_all(&frame(FrameKind::Message, b"too late")).unwrap();
    // Only a connection that is delivering can make the next one wait.
    drop(member.journal.wait_for("a delivery from the older connection", |seen| seen.bulk_begun == 1));
    let mut newer = intrude(&member, kind);
    newer.write_all(&frame(FrameKind::Message, b"newer")).unwrap();
    assert_closed(older);
    member.journal.change(|seen| seen.bulk_blocked = false);
    let newest = |seen: &crate::cluster::Seen| seen.frames.last().is_some_and(|(_, _, body)| body == "newer");
    let seen = member.journal.wait_for("the newer frame", newest);
    assert!(!seen.frames.iter().any(|(_, _, body)| body == "too late"));
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let mut config = PeersConfig::new(identity(1));
    config.limits.max_inbound_connections = 1;
    let member = Member::configured(config);
    let _first = intrude(&member, StreamKind::Messages(StreamClass::Bulk));
    let second = TcpStream::connect(member.address).unwrap();
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    let second = AcceptedConnection::Plain(second);
    let second_error = member.peers.accept(second).unwrap_err();
    assert_eq!(second_error.to_string(), "1 incoming connections are open, which is the limit");
}

/// Accepts every handshake as member 2 and then neither reads nor writes. Ends with the process.
fn mute_listener() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A dialler that has given up meanwhile is no concern of this one.
            if stream.read_exact(&mut [0; HELLO_BYTES]).is_ok() {
                let _ = stream.write_all(
                    &HandshakeAnswer { from: identity(2), verdict: Ok(transport::MAX_VERSION) }.encode(),
                );
            }
            held.push(stream);
        }
    });
    url
}

#[test]
fn a_peer_that_is_connected_but_dead_is_noticed_on_both_streams() {
    let mut config = PeersConfig::new(identity(1));
    config.timeouts.pong = Duration::from_millis(50);
    config.timeouts.stall = Duration::from_millis(50);
    let member = Member::configured(config);
    let url = mute_listener();
    member.peers.set(2, &[url]).unwrap();
    member.journal.wait_up(2, 1);
    // More than any socket buffer takes, so that the rest waits.
    let large = Bytes::from(vec![0; 32 << 20]);
    let _ = member.peers.send(2, StreamClass::Bulk, &[large]);
    drop(member.journal.wait_for("both to be given up", |seen| {
        let lost = |class, reasons: &[&str]| {
            let fits = |why: &str| reasons.iter().any(|reason| why.contains(reason));
            seen.downs.iter().any(|(_, down, why)| *down == class && fits(why))
        };
        // Either we or the kernel give up on a receive window that stays closed.
        lost(StreamClass::Control, &["answered no ping"])
            && lost(StreamClass::Bulk, &["no data exchanged", "timed out"])
    }));
    member.journal.wait_up(2, 2);
}

#[test]
fn control_frames_that_a_peer_does_not_read_are_bounded() {
    const QUEUE_BYTES: usize = 1 << 16;
    /// More frames than all buffers of the system and the larger queue of bulk frames take.
    const MAX_FRAMES: usize = 100_000;
    let mut config = PeersConfig::new(identity(1));
    config.limits.control_queue_bytes = QUEUE_BYTES;
    config.timeouts.pong = PATIENCE;
    config.timeouts.stall = PATIENCE;
    let member = Member::configured(config);
    member.peers.set(2, &[mute_listener()]).unwrap();
    member.journal.wait_up(2, 1);
    let body = Bytes::from(vec![7; 10_000]);
    let dropped = (0..MAX_FRAMES).find_map(|_| {
        match member.peers.send(2, StreamClass::Control, std::slice::from_ref(&body)) {
            SendOutcome::Queued => None,
            SendOutcome::Dropped(reason) => Some(reason),
        }
    });
    assert_eq!(dropped, Some(DropReason::QueueFull));
    assert!(member.peers.in_flight_bytes(2, StreamClass::Control) <= QUEUE_BYTES);
}

#[test]
fn a_pong_nobody_asked_for_ends_the_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = Member::start(1);
    member.peers.set(2, &[format!("http://{}", listener.local_addr().unwrap())]).unwrap();
    let mut held = Vec::new();
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; HELLO_BYTES]).unwrap();
        stream
            .write_all(&HandshakeAnswer { from: identity(2), verdict: Ok(transport::MAX_VERSION) }.encode())
            .unwrap();
        stream.write_all(&frame(FrameKind::Pong, b"\xff2345678")).unwrap();
        held.push(stream);
    }
    drop(member.journal.wait_for("both streams to end", |seen| seen.downs.len() >= 2));
}
