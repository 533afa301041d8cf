//! A snapshot is installed after the first hold of a read, of which nothing was answered yet: the answer is whole, or
//! an error.

use std::time::{Duration, Instant};

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::range_request::SortTarget;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use prost::Message;

use super::replaced::{BEFORE, base, bench, later};
use crate::auth::tests::{enabled, user};
use crate::parallel::Sequential;
use crate::testing::{TestStore, grant, op, put_request, range_request, small_limits};
use crate::{
    Caller, Command, History, KeyRange, Limits, OpReply, ReadTxn, Reader, Restoration, Restored, Store,
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "the other threads of the test are waited for")]
fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "the read holds the lock, and then the installation waits for it");
        std::thread::yield_now();
    }
}

/// Installs a state between the first and the second hold of `read`.
#[expect(clippy::disallowed_methods, reason = "readers and the installation are threads")]
fn read_while_installing<T: Send>(
    bench: &mut TestStore,
    state: Restored,
    read: impl FnOnce(&Reader) -> T + Send,
) -> T {
    let reader = bench.reader.clone();
    let shared = reader.shared.clone();
    std::thread::scope(|scope| {
        // A read that needs more than one hold pins its revision in the first.
        let pins = shared.pins.lock();
        let reading = scope.spawn(move || read(&reader));
        wait_until(|| shared.state.is_locked());
        let installing = scope.spawn(|| bench.install(state));
        // No reader gets the lock before one who waits to write.
        wait_until(|| shared.state.is_locked_exclusive());
        drop(pins);
        installing.join().expect("installed");
        reading.join().expect("it ends")
    })
}

/// Revision, number of keys and count of an answer.
type Answer = Result<(i64, usize, i64), Error>;

fn range(reader: &Reader, request: &pb::RangeRequest) -> Answer {
    reader.range(request).map(|reply| (reply.revision, reply.kvs.len(), reply.count))
}

fn encoded(reader: &Reader, request: &pb::RangeRequest) -> Answer {
    let mut chunks: Vec<Bytes> = Vec::new();
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    reader.encode_range(request, header, &mut chunks).expect("no value is damaged")?;
    let reply = pb::RangeResponse::decode(Bytes::from(chunks.concat())).expect("a response");
    Ok((reply.header.map_or(0, |header| header.revision), reply.kvs.len(), reply.count))
}

fn streamed(reader: &Reader, request: &pb::RangeRequest) -> Answer {
    let mut stream = reader.range_stream(request)?;
    let (mut keys, mut end) = (0, (0, 0));
    while let Some(chunk) = stream.next_chunk(4, usize::MAX).expect("no value is damaged")? {
        keys += chunk.reply.kvs.len();
        end = (chunk.reply.revision, chunk.reply.count);
    }
    Ok((end.0, keys, end.1))
}

fn in_txn(reader: &Reader, request: &pb::RangeRequest) -> Answer {
    let success = vec![op(Request::RequestRange(request.clone()))];
    let request = pb::TxnRequest { success, ..Default::default() };
    let reply = reader.txn(&ReadTxn::of(&request).unwrap()).expect("no value is damaged")?;
    let OpReply::Range(range) = &reply.replies[0] else { panic!("another reply") };
    Ok((range.revision, range.kvs.len(), range.count))
}

/// Revisions to read at, the compact revision of the state that is installed, and the answer, which has `most` keys.
/// The newest revision is then that of the new state. An older one is retained, or compacted.
fn cases(most: usize) -> [(i64, i64, Answer); 4] {
    [
        (0, BEFORE + 1, Ok((BEFORE + 1, 15.min(most), 15))),
        (15, 15, Ok((BEFORE, 14.min(most), 14))),
        (15, 16, Err(Error::Compacted)),
        (15, BEFORE + 1, Err(Error::Compacted)),
    ]
}

type ReadFn = fn(&Reader, &pb::RangeRequest) -> Answer;

#[test]
fn a_list_is_whole_or_fails() {
    let all = range_request("k", "l");
    let sorted = pb::RangeRequest { sort_target: SortTarget::Mod as i32, ..all.clone() };
    let few = pb::RangeRequest { limit: 4, ..all.clone() };
    let ways: [(&str, ReadFn, &pb::RangeRequest, usize); 8] = [
        ("range", range, &all, 20),
        ("sorted range", range, &sorted, 20),
        ("encoded", encoded, &all, 20),
        ("encoded page", encoded, &few, 4),
        ("encoded and sorted", encoded, &sorted, 20),
        ("streamed", streamed, &all, 20),
        ("streamed and sorted", streamed, &sorted, 20),
        ("transaction", in_txn, &all, 20),
    ];
    for (name, read, request, most) in ways {
        for (revision, compacted, expected) in cases(most) {
            // Its header belongs to the first hold, so it has begun.
            let has_begun = name == "streamed" && revision == 0;
            let expected = if has_begun { Err(Error::Compacted) } else { expected };
            let request = pb::RangeRequest { revision, ..request.clone() };
            let state = later(bench(), Some(compacted));
            let answer = read_while_installing(&mut bench(), state, |reader| read(reader, &request));
            assert_eq!(answer, expected, "{name} at {revision}, compacted at {compacted}");
        }
    }
}

/// No more keys are kept than the first hold finds: the next walks the range to measure it.
#[test]
fn a_long_list_is_measured_in_one_state() {
    let limits = Limits { found_keys: small_limits().chunk_keys, ..small_limits() };
    for (revision, compacted, expected) in cases(20) {
        let mut from = bench();
        let chunks = base(&mut from).into_iter();
        let (store, reader) =
            Store::restore(from.values.clone(), limits, [chunks], &Sequential).expect("it is intact");
        let mut bench = TestStore { store, reader, ..from };
        let state = later(self::bench(), Some(compacted));
        let request = pb::RangeRequest { revision, ..range_request("k", "l") };
        let answer = read_while_installing(&mut bench, state, |reader| encoded(reader, &request));
        assert_eq!(answer, expected, "at {revision}, compacted at {compacted}");
    }
}

#[test]
fn a_count_is_right_or_fails() {
    let request = pb::RangeRequest { revision: 15, count_only: true, ..range_request("k", "l") };
    let ways: [fn(&Reader, &pb::RangeRequest) -> Answer; 4] = [range, encoded, streamed, in_txn];
    for read in ways {
        for (compacted, expected) in [(15, Ok((BEFORE, 0, 14))), (16, Err(Error::Compacted))] {
            let state = later(bench(), Some(compacted));
            let answer = read_while_installing(&mut bench(), state, |reader| read(reader, &request));
            assert_eq!(answer, expected, "compacted at {compacted}");
        }
    }
}

#[test]
fn the_events_of_a_step_are_those_of_one_state() {
    let all = KeyRange { start: "k".into(), end: "l".into() };
    for (compacted, expected) in
        [(None, Ok((25, BEFORE + 2))), (Some(2), Ok((25, BEFORE + 2))), (Some(10), Err(10))]
    {
        let state = later(bench(), compacted);
        let found = read_while_installing(&mut bench(), state, |reader| reader.events(&all, 2, 100, 100));
        let found = found.map(|(events, next)| (events.len(), next)).map_err(|compacted| compacted.at);
        assert_eq!(found, expected, "compacted at {compacted:?}");
    }
}

/// The places of keys mean nothing in another state: one that may not be read could stand before the place that was
/// reached.
#[test]
fn access_to_a_lease_is_checked_again_in_another_state() {
    let with = |keys: &[&str]| {
        let mut bench = enabled();
        // Checkpoints have users from then on.
        bench.outcome_as(Caller::Internal, Command::CommandSet(3)).expect("recorded");
        bench.outcome_as(Caller::Internal, grant(7, 60)).expect("granted");
        for key in keys {
            let put = Command::Put(pb::PutRequest { lease: 7, ..put_request(key, "v") });
            bench.outcome_as(Caller::Internal, put).expect("written");
        }
        bench
    };
    let readable = ["a1", "a2", "a3", "a4", "a5"];
    for (before, expected) in [(None, Ok(true)), (Some("00"), Err(Error::PermissionDenied))] {
        let mut bench = with(&readable);
        let mut access = bench.reader.access_to_list(user(&bench, "ann"), vec![7]);
        assert_eq!(access.step(), Ok(false), "it takes several holds");
        let keys: Vec<&str> = before.into_iter().chain(readable).collect();
        let mut restoration = Restoration::default();
        base(&mut with(&keys)).iter().try_for_each(|chunk| restoration.push(chunk)).unwrap();
        bench.install(restoration.finish().unwrap());
        let end = loop {
            match access.step() {
                Ok(false) => {}
                end => break end,
            }
        };
        assert_eq!(end, expected, "with {before:?}");
    }
}
