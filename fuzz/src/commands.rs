//! Requests in which every byte may be anything are decoded, validated, proposed (those that validation refuses as
//! well: apply has an outcome for all) and answered; reads and watches see what came of them.
//!
//! At the end the member is stopped as a killed process is, and its log replays to the same state.
//!
//! The script is a sequence of requests: which rpc, and its body.

use std::sync::Arc;

use api::{etcdserverpb as pb, validate};
use bytes::Bytes;
use log::MemDisk;
use member::Answer;
use member::batch::CommandKind;
use prost::Message;
use store::watch::{NextResponse, WatchStream};
use store::{ReadTxn, Reply};

use crate::input::fixture::{MemberFixture, config};
use crate::input::script::Script;

/// Requests of a script that are looked at.
const MAX_REQUESTS: usize = 48;
/// The server's default limits.
const MAX_TXN_OPS: usize = 128;
const FRAGMENT_BYTES: usize = 2 << 20;
/// Frames of a watch stream that are looked at after each request.
const MAX_FRAMES: usize = 256;

/// What is not proposed, as scripts number it; the kinds of commands have the numbers of the log.
pub const RANGE: u8 = 32;
/// A streamed range.
pub const RANGE_STREAM: u8 = 33;
/// A new watcher.
pub const WATCH: u8 = 34;
/// HashKV.
pub const HASH_KV: u8 = 35;
/// Time passes, as many seconds as the body has bytes.
pub const WAIT: u8 = 36;

/// Member of a cluster of its own, with its leadership behind it.
fn member(disk: &MemDisk, start: u64) -> MemberFixture {
    let mut fixture = MemberFixture::open(disk, config(1, 1, start)).expect("a sound disk opens");
    (0..4).for_each(|_| fixture.wait(1000));
    fixture
}

/// Carries out a script.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let disk = MemDisk::new();
    let mut fixture = member(&disk, 1);
    let mut watch = fixture.opened.hub.open(Arc::new(|| {}), FRAGMENT_BYTES);
    let mut script = Script::new(data);
    for _ in 0..MAX_REQUESTS {
        let (Some(number), Some(body)) = (script.byte(), script.bytes()) else {
            break;
        };
        request(&mut fixture, &mut watch, number, Bytes::copy_from_slice(body));
        drain(&mut watch);
        assert!(!fixture.is_over, "a client's request never stops a member");
    }
    let before = (fixture.opened.reader.state_hash(), fixture.opened.reader.current_revision());
    drop((watch, fixture));
    let again = MemberFixture::open(&disk.fork(), config(1, 1, 2)).expect("a killed member opens again");
    let after = again.opened.reader.state_hash();
    // What was not known to be committed is not replayed at once.
    if after.0 == before.0.0 {
        assert_eq!((after, again.opened.reader.current_revision()), before);
    }
}

fn request(fixture: &mut MemberFixture, watch: &mut WatchStream, number: u8, body: Bytes) {
    match number {
        1 => drop(pb::PutRequest::decode(body.clone()).map(|request| validate::put(&request))),
        2 => {
            drop(
                pb::DeleteRangeRequest::decode(body.clone()).map(|request| validate::delete_range(&request)),
            );
        }
        3 => drop(pb::TxnRequest::decode(body.clone()).map(|request| txn(fixture, &request))),
        5 => drop(pb::LeaseGrantRequest::decode(body.clone()).map(|request| validate::lease_grant(&request))),
        RANGE => drop(pb::RangeRequest::decode(body.clone()).map(|request| range(fixture, &request))),
        RANGE_STREAM => drop(pb::RangeRequest::decode(body.clone()).map(|request| stream(fixture, &request))),
        WATCH => drop(pb::WatchCreateRequest::decode(body.clone()).map(|request| create(watch, &request))),
        HASH_KV => {
            drop(pb::HashKvRequest::decode(body.clone()).map(|request| hash(fixture, request.revision)))
        }
        WAIT => (0..body.len().min(100)).for_each(|_| fixture.wait(1000)),
        _ => {}
    }
    if let Some(kind) = CommandKind::from_number(number) {
        propose(fixture, kind, body);
    }
}

fn propose(fixture: &mut MemberFixture, kind: CommandKind, body: Bytes) {
    let pin = fixture.opened.log.pin();
    let token = fixture.propose(kind, body);
    (0..4).for_each(|_| fixture.wait(1));
    let answer = fixture.take_answer(token);
    // Expiries are proposed by the leader itself; an expiry of no leases has no answer.
    assert!(answer.is_some() || kind == CommandKind::LeaseExpire, "a member alone answers at once");
    if let Some(Answer::Applied(Ok(reply))) = answer {
        store::resolve(&reply, fixture.opened.values.as_ref()).expect("values are intact");
    }
    drop(pin);
}

fn txn(fixture: &MemberFixture, request: &pb::TxnRequest) {
    if validate::txn(request, MAX_TXN_OPS).is_err() {
        return;
    }
    let Some(read) = ReadTxn::of(request) else { return };
    let _pin = fixture.opened.log.pin();
    if let Ok(reply) = fixture.opened.reader.txn(&read).expect("values are intact") {
        store::resolve(&Reply::Txn(reply), fixture.opened.values.as_ref()).expect("values are intact");
    }
}

fn range(fixture: &MemberFixture, request: &pb::RangeRequest) {
    if validate::range(request).is_err() {
        return;
    }
    let _pin = fixture.opened.log.pin();
    if let Ok(reply) = fixture.opened.reader.range(request) {
        store::resolve_range(&reply, fixture.opened.values.as_ref()).expect("values are intact");
    }
}

fn stream(fixture: &MemberFixture, request: &pb::RangeRequest) {
    if validate::range_stream(request).is_err() {
        return;
    }
    let _pin = fixture.opened.log.pin();
    let Ok(mut stream) = fixture.opened.reader.range_stream(request) else {
        return;
    };
    let mut is_last = false;
    let mut next = || stream.next_chunk(3, 64).expect("values are intact").expect("nothing is installed");
    while let Some(chunk) = next() {
        assert!(!is_last, "nothing follows the last chunk");
        is_last = chunk.last;
        store::resolve_range(&chunk.reply, fixture.opened.values.as_ref()).expect("values are intact");
    }
    assert!(is_last, "a stream has a last chunk");
}

fn create(watch: &mut WatchStream, request: &pb::WatchCreateRequest) {
    drop(validate::watch_key(request));
    let _ = validate::watch_start(request).and_then(|()| validate::watch_range(request));
    watch.create(request);
    watch.progress();
    watch.cancel(request.start_revision);
}

fn hash(fixture: &MemberFixture, revision: i64) {
    let Ok(mut hash) = fixture.opened.reader.hash_kv(revision) else {
        return;
    };
    while hash.step().expect("nothing is installed").is_none() {}
}

fn drain(watch: &mut WatchStream) {
    for _ in 0..MAX_FRAMES {
        match watch.next(1).expect("values are intact") {
            NextResponse::Send(frame) => {
                pb::WatchResponse::decode(frame.to_bytes()).expect("what is sent can be read");
            }
            NextResponse::Busy => {}
            NextResponse::Idle => return,
        }
    }
}
