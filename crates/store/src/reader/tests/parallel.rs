//! Readers beside the writer, on real threads. What is checked holds in every interleaving.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use crate::reader::*;
use crate::testing::{TestStore, op, put_request, range_request};
use crate::{CheckpointKind, CheckpointSource, Command, History, KeyRange, Store};

const ROUNDS: usize = 300;

/// Writes all four keys in one revision.
fn write_all(round: usize) -> Command {
    let value = round.to_string();
    let put = |key| op(Request::RequestPut(put_request(key, &value)));
    Command::Txn(pb::TxnRequest { success: ["a", "b", "c", "d"].map(put).to_vec(), ..Default::default() })
}

fn read_until(reader: &Reader, done: &AtomicBool) {
    let mut last = 0;
    while !done.load(Ordering::Acquire) {
        let reply = reader.range(&range_request("a", "\0")).expect("now can always be read");
        let revisions: Vec<_> = reply.kvs.iter().map(|kv| kv.mod_revision.main).collect();
        assert!(revisions.iter().all(|main| *main == revisions[0]), "one revision: {revisions:?}");
        assert!(reply.revision >= last, "never backwards");
        assert_eq!(reply.count, reply.kvs.len() as i64);
        last = reply.revision;
        let range = KeyRange { start: "a".into(), end: "\0".into() };
        if let Ok((events, _)) = reader.events(&range, last, 1, 100) {
            assert_eq!(events.len() % 4, 0, "revisions are whole");
        }
        let mut hash = reader.hash_kv(0).expect("now can always be hashed");
        while hash.step().expect("its revision is pinned").is_none() {}
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "real threads are what is tested")]
fn readers_see_whole_revisions_while_all_else_goes_on() {
    let mut bench = TestStore::new();
    bench.apply(vec![write_all(0)]);
    let done = AtomicBool::new(false);
    let reader = bench.reader.clone();
    thread::scope(|scope| {
        let readers = [0, 1].map(|_| scope.spawn(|| read_until(&reader, &done)));
        for round in 1..=ROUNDS {
            bench.apply(vec![write_all(round)]);
            if round % 20 == 0 {
                let _ = bench.compact(bench.reader.current_revision() - 5);
                let source = bench.store.begin_checkpoint(CheckpointKind::Delta);
                scope.spawn(|| assert!(source.count() > 2));
            }
            bench.store.purge_step(7);
        }
        done.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader failed"));
    });
    assert!(bench.store.purge_step(10_000));
    assert_eq!(bench.reader.purged(), bench.reader.compacted());
    bench.store.check_all();
}

#[test]
fn handles_go_where_they_are_needed() {
    fn send<T: Send>() {}
    fn shared<T: Send + Sync + Clone>() {}
    send::<Store>();
    send::<CheckpointSource>();
    send::<RangeStream>();
    send::<HashKvScan>();
    send::<VersionWalk>();
    shared::<Reader>();
}
