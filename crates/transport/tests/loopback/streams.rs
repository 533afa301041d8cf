//! Streams of messages between members that behave.

use crate::cluster::{Member, PATIENCE, identity, pair};
use std::time::Instant;

use bytes::Bytes;
use transport::{DropReason, PeersConfig, Refusal, RefusalReason, SendOutcome, StreamClass, Timeouts};

fn config(id: u64) -> PeersConfig {
    PeersConfig::new(identity(id))
}

fn numbered(number: u32, length: usize) -> Bytes {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(4 + length, number as u8);
    body.into()
}

#[test]
fn frames_arrive_whole_and_in_order_in_both_classes() {
    let (a, b) = pair(config(1), config(2));
    let sent: Vec<Bytes> = (0..2000).map(|n| numbered(n, (n as usize * 37) % 5000)).collect();
    for (n, body) in sent.iter().enumerate() {
        let middle = body.len() / 2;
        let parts = [body.slice(..middle), Bytes::new(), body.slice(middle..)];
        assert_eq!(a.peers.send(2, StreamClass::Bulk, &parts), SendOutcome::Queued);
        if n % 10 == 0 {
            a.send(2, StreamClass::Control, body.clone());
        }
    }
    let seen = b.journal.wait_for("all frames", |seen| seen.frames.len() == 2200);
    assert_eq!(seen.bodies(StreamClass::Bulk), sent);
    let control: Vec<Bytes> = sent.iter().step_by(10).cloned().collect();
    assert_eq!(seen.bodies(StreamClass::Control), control);
    assert!(seen.frames.iter().all(|(from, _, _)| *from == 1));
}

#[test]
fn a_frame_of_more_parts_than_one_system_call_takes_arrives_whole() {
    let (a, b) = pair(config(1), config(2));
    let parts: Vec<Bytes> = (0..5000).map(|n| numbered(n, 100)).collect();
    assert_eq!(a.peers.send(2, StreamClass::Bulk, &parts), SendOutcome::Queued);
    let seen = b.journal.wait_for("the frame", |seen| seen.frames.len() == 1);
    assert_eq!(seen.frames[0].2, parts.concat());
}

#[test]
fn a_blocked_bulk_sink_holds_back_bulk_only_and_memory_stays_bounded() {
    let mut small = config(1);
    small.limits.bulk_queue_bytes = 1 << 20;
    let (a, b) = pair(small, config(2));
    b.journal.change(|seen| seen.bulk_blocked = true);
    let body = Bytes::from(vec![7; 100_000]);
    let mut taken = 0;
    let dropped = loop {
        match a.peers.send(2, StreamClass::Bulk, std::slice::from_ref(&body)) {
            SendOutcome::Queued => taken += 1,
            SendOutcome::Dropped(reason) => break reason,
        }
        assert!(taken < 100_000, "nothing holds the sender back");
    };
    assert_eq!(dropped, DropReason::QueueFull);
    assert!(a.peers.in_flight_bytes(2, StreamClass::Bulk) <= 1 << 20);
    assert_eq!(a.peers.statistics()[0].send_failures, 1);

    a.send(2, StreamClass::Control, "still alive");
    drop(b.journal.wait_for("control past a blocked bulk", |seen| {
        seen.bodies(StreamClass::Control) == [Bytes::from("still alive")]
    }));
    b.journal.change(|seen| seen.bulk_blocked = false);
    let seen = b
        .journal
        .wait_for("every frame that was taken", |seen| seen.bodies(StreamClass::Bulk).len() == taken);
    assert!(seen.bodies(StreamClass::Bulk).iter().all(|found| *found == body));
    assert_eq!(a.peers.in_flight_bytes(2, StreamClass::Bulk), 0);
}

#[test]
fn a_cut_connection_is_dialled_again_and_order_is_kept() {
    let (a, b) = pair(config(1), config(2));
    let mut number = 0;
    for round in 2..5 {
        for _ in 0..100 {
            a.send(2, StreamClass::Bulk, numbered(number, 10));
            number += 1;
        }
        b.cut();
        a.journal.wait_up(2, round);
    }
    a.send(2, StreamClass::Bulk, numbered(number, 10));
    let last = numbered(number, 10);
    let seen =
        b.journal.wait_for("the last frame", |seen| seen.bodies(StreamClass::Bulk).last() == Some(&last));
    let bodies = seen.bodies(StreamClass::Bulk);
    let numbers: Vec<u32> =
        bodies.iter().map(|body| u32::from_le_bytes(*body.first_chunk().unwrap())).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "twice or out of order: {numbers:?}");
    drop(seen);
    drop(a.journal.wait_for("losses to be reported", |seen| seen.downs.len() >= 6));
}

#[test]
fn a_restarted_peer_is_found_again() {
    let (a, b) = pair(config(1), config(2));
    let address = b.address;
    b.cut();
    drop(b);
    drop(a.journal.wait_for("both streams to be lost", |seen| seen.downs.len() >= 2));
    let listener = std::net::TcpListener::bind(address).unwrap();
    let b = Member::listening(config(2), listener);
    // What is sent to a stream that is about to be found broken is lost, so it is sent until it arrives.
    let deadline = Instant::now() + PATIENCE;
    while b.journal.wait_for("nothing", |_| true).frames.is_empty() {
        assert!(Instant::now() < deadline, "the peer was not found again");
        let _ = a.peers.send(2, StreamClass::Control, &[Bytes::from("welcome back")]);
        std::thread::yield_now();
    }
}

#[test]
fn round_trips_and_bytes_are_measured() {
    let often = Timeouts { ping_interval: std::time::Duration::from_millis(1), ..Timeouts::default() };
    let (a, b) = pair(PeersConfig { timeouts: often, ..config(1) }, config(2));
    a.send(2, StreamClass::Bulk, vec![0; 1000]);
    drop(b.journal.wait_for("a frame", |seen| seen.frames.len() == 1));
    drop(a.journal.wait_for("pongs", |seen| seen.round_trips >= 3));
    let [figures] = a.peers.statistics()[..] else { panic!("one peer was set") };
    assert_eq!(figures.peer, 2);
    assert!(figures.sent_bytes >= 1016 && figures.round_trip.is_some());
    assert!(figures.control_since.is_some() && figures.bulk_since.is_some());
    assert!(b.peers.statistics()[0].received_bytes >= 1016);
}

#[test]
fn what_cannot_be_sent_says_why() {
    let mut small = config(1);
    small.limits.max_frame_bytes = 100;
    let (a, b) = pair(small, config(2));
    let long = Bytes::from(vec![0; 101]);
    let dropped = |reason| SendOutcome::Dropped(reason);
    assert_eq!(
        a.peers.send(2, StreamClass::Bulk, &[long.slice(..50), long.slice(..51)]),
        dropped(DropReason::TooLarge)
    );
    assert_eq!(a.peers.send(3, StreamClass::Bulk, &[]), dropped(DropReason::UnknownPeer));
    a.peers.set(4, &[]).unwrap();
    assert_eq!(a.peers.send(4, StreamClass::Bulk, &[]), dropped(DropReason::Disconnected));
    // A peer that is removed dials again at once, and would be known again if it were still admitted.
    let removed = Refusal::new(RefusalReason::RemovedMember, "the member was removed");
    a.journal.change(|seen| seen.barred.insert(2, removed));
    a.peers.remove(2);
    assert_eq!(a.peers.send(2, StreamClass::Bulk, &[]), dropped(DropReason::UnknownPeer));
    drop(b.journal.wait_for("the other side to notice", |seen| seen.downs.len() >= 2));
    let error = a.peers.set(5, &["ftp://10.0.0.1:2380".into()]).unwrap_err();
    assert!(error.to_string().contains("expected http://host:port"), "{error}");
}
