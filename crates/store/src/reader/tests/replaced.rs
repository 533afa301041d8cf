//! A snapshot is installed between the lock holds of a read.

use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;
use parking_lot::Mutex;

use super::keys;
use crate::index::KeyBounds;
use crate::parallel::Sequential;
use crate::range::RangeCount;
use crate::reader::pinned::PinnedRevision;
use crate::testing::{MapValues, TestStore, op, range_request, small_limits};
use crate::{
    CheckpointKind, ChunkSink, Damaged, OpReply, ReadTxn, Restoration, Restored, StateReplaced, Store,
    ValueRef, Values,
};

/// The newest revision of the state that is replaced.
pub(super) const BEFORE: i64 = 21;

/// Twenty keys, of revisions 2 to 21.
pub(super) fn bench() -> TestStore {
    let mut bench = TestStore::new();
    for n in 0..20 {
        bench.put(&format!("k{n:02}"), "v");
    }
    bench
}

pub(super) fn base(bench: &mut TestStore) -> Vec<Bytes> {
    bench.store.begin_checkpoint(CheckpointKind::Base).collect()
}

/// The same log one revision later, which deletes the last five keys, compacted at `at`.
pub(super) fn later(mut from: TestStore, at: Option<i64>) -> Restored {
    from.delete("k15", "k20");
    if let Some(at) = at {
        from.compact(at).unwrap();
        while !from.store.purge_step(100) {}
    }
    let mut restoration = Restoration::default();
    base(&mut from).iter().try_for_each(|chunk| restoration.push(chunk)).unwrap();
    restoration.finish().unwrap()
}

#[test]
fn a_stream_goes_on_at_a_retained_revision_and_ends_at_a_compacted_one() {
    for (compacted, expected) in
        [(None, Ok(20)), (Some(BEFORE), Ok(20)), (Some(BEFORE + 1), Err(Error::Compacted))]
    {
        let mut bench = bench();
        let mut stream = bench.reader.range_stream(&range_request("k", "l")).unwrap();
        assert_eq!(stream.next_chunk(4, usize::MAX).unwrap().unwrap().unwrap().reply.kvs.len(), 4);
        bench.install(later(self::bench(), compacted));
        let mut count = 4;
        let end = loop {
            match stream.next_chunk(4, usize::MAX).unwrap() {
                Ok(Some(chunk)) => count += chunk.reply.kvs.len(),
                Ok(None) => break Ok(count),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(end, expected, "compacted at {compacted:?}");
    }
}

/// Installs a state when the length of the answer is announced, before the keys are walked for the second time.
struct InstallingSink<'a> {
    store: &'a mut Store,
    state: Option<Restored>,
    chunks: Vec<Bytes>,
}

impl ChunkSink for InstallingSink<'_> {
    fn begin(&mut self, _: usize) {
        self.state.take().into_iter().for_each(|state| drop(self.store.install(state)));
    }

    fn push(&mut self, chunk: Bytes) {
        self.chunks.push(chunk);
    }
}

#[test]
fn a_long_range_is_complete_or_fails() {
    let header = |revision| pb::ResponseHeader { revision, ..Default::default() };
    for (compacted, expected) in [(Some(BEFORE), Ok(())), (Some(BEFORE + 1), Err(Error::Compacted))] {
        let mut bench = bench();
        let request = range_request("k", "l");
        let mut whole: Vec<Bytes> = Vec::new();
        bench.reader.encode_range(&request, header, &mut whole).unwrap().unwrap();
        let state = Some(later(self::bench(), compacted));
        let reader = bench.reader.clone();
        let mut sink = InstallingSink { store: &mut bench.store, state, chunks: Vec::new() };
        assert_eq!(reader.encode_range(&request, header, &mut sink).unwrap(), expected);
        assert_eq!(sink.chunks.concat() == whole.concat(), expected.is_ok());
    }
}

#[test]
fn a_count_begins_again_in_another_state() {
    for (compacted, expected) in [(None, Ok(14)), (Some(15), Ok(14)), (Some(16), Err(StateReplaced))] {
        let mut bench = bench();
        let shared = bench.reader.shared.clone();
        let state = shared.state.read();
        let mut count = RangeCount::new(&state.index, &KeyBounds::ALL, 15);
        assert_eq!(count.advance(&state.index, small_limits().count_steps), None, "it takes several holds");
        let pinned = PinnedRevision::new(&shared, &state, 15);
        drop(state);
        bench.install(later(self::bench(), compacted));
        assert_eq!(pinned.count(count, &KeyBounds::ALL), expected, "compacted at {compacted:?}");
    }
}

#[test]
fn a_hash_is_that_of_one_state() {
    // More versions than one step hashes.
    let long = || {
        let mut bench = bench();
        for n in 0..300 {
            bench.put("a", &n.to_string());
        }
        bench
    };
    let mut bench = long();
    let newest = bench.reader.current_revision();
    let (mut of_newest, mut of_head) =
        (bench.reader.hash_kv(newest).unwrap(), bench.reader.hash_kv(0).unwrap());
    assert_eq!((of_newest.step(), of_head.step()), (Ok(None), Ok(None)));
    bench.install(later(long(), Some(newest + 1)));
    assert_eq!(of_newest.step(), Err(Error::Compacted));
    let run = |hashing: &mut crate::HashKvScan| loop {
        if let Some(reply) = hashing.step().unwrap() {
            return reply;
        }
    };
    let reply = run(&mut of_head);
    assert_eq!(reply, run(&mut bench.reader.hash_kv(0).unwrap()));
    assert_eq!((reply.revision, reply.compact_revision), (newest + 1, newest + 1));
}

#[test]
fn a_walk_over_versions_ends() {
    let mut bench = bench();
    let mut walk = bench.reader.versions();
    assert_eq!(walk.next_chunk(1).unwrap().len(), 1);
    bench.install(later(self::bench(), None));
    assert_eq!(walk.next_chunk(1), Err(StateReplaced));
}

/// Does something when a value is read for the first time.
struct InstallingValues {
    values: Arc<MapValues>,
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Values for InstallingValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let read = self.values.read(value);
        let then = self.then.lock().take();
        if let Some(then) = then {
            then();
        }
        read
    }

    fn retain(&self, value: &ValueRef) {
        self.values.retain(value);
    }

    fn release(&self, value: &ValueRef) {
        self.values.release(value);
    }
}

#[test]
fn a_transaction_begins_again_at_the_newest_revision() {
    let compare = pb::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Value as i32,
        key: "k00".into(),
        target_union: Some(TargetUnion::Value("v".into())),
        ..Default::default()
    };
    for (revision, expected) in [(0, Ok((BEFORE + 1, 15))), (BEFORE, Err(Error::Compacted))] {
        let mut bench = bench();
        let values = Arc::new(InstallingValues { values: bench.values.clone(), then: Mutex::default() });
        let (store, reader) =
            Store::restore(values.clone(), small_limits(), [base(&mut bench).into_iter()], &Sequential)
                .unwrap();
        let store = Mutex::new(store);
        let state = later(self::bench(), Some(BEFORE + 1));
        *values.then.lock() = Some(Box::new(move || drop(store.lock().install(state))));

        let range = pb::RangeRequest { revision, ..range_request("k", "l") };
        let success = vec![op(Request::RequestRange(range))];
        let request = pb::TxnRequest { compare: vec![compare.clone()], success, ..Default::default() };
        let reply = reader.txn(&ReadTxn::of(&request).unwrap()).unwrap();
        let found = reply.map(|reply| {
            assert!(reply.succeeded);
            let OpReply::Range(range) = &reply.replies[0] else { panic!("another reply") };
            (reply.revision, keys(range).len())
        });
        assert_eq!(found, expected, "at {revision}");
    }
}
