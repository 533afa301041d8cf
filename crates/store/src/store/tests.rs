//! Random commands, against the naive model; with purging, relocation, checkpoints and restarts in between.

use std::collections::BTreeMap;

use api::etcdserverpb as pb;
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::hash::key_hash;
use crate::index::KeyBounds;
use crate::parallel::Sequential;
use crate::testing::model::{StoreModel, within};
use crate::testing::script::{ScriptStep, step};
use crate::testing::{TestStore, grant, range_request, small_limits};
use crate::{
    CheckpointSource, Event, EventKind, History, KeyRange, MergedCheckpoint, Response, resolve_kv,
    resolve_range,
};

struct ModelRun {
    bench: TestStore,
    model: StoreModel,
    /// A checkpoint being written, what of it is there, and the model as it was at its beginning.
    pending: Option<(CheckpointSource, Vec<Bytes>, StoreModel)>,
    /// The written base with its deltas, and the model at the last one's beginning.
    chain: Vec<Vec<Bytes>>,
    chain_model: StoreModel,
    copies: u64,
}

impl ModelRun {
    fn new() -> ModelRun {
        let (chain, chain_model) = (Vec::new(), StoreModel::new());
        ModelRun {
            bench: TestStore::new(),
            model: StoreModel::new(),
            pending: None,
            chain,
            chain_model,
            copies: 0,
        }
    }

    fn step(&mut self, step: ScriptStep) {
        match step {
            ScriptStep::Put(request) => {
                let expected = self.model.put(&request).map(Response::Put);
                self.command(Command::Put(request), expected);
            }
            ScriptStep::Delete(request) => {
                let expected = self.model.delete_range(&request);
                self.command(Command::DeleteRange(request), Ok(Response::DeleteRange(expected)));
            }
            ScriptStep::Txn(request) => {
                let expected = self.model.txn(&request).map(Response::Txn);
                self.command(Command::Txn(request), expected);
            }
            ScriptStep::Range(request) => self.range(&request),
            ScriptStep::Grant(id) => {
                let outcome = self.bench.outcome(grant(id, 60));
                assert_eq!(outcome.is_ok(), self.model.leases.insert(id, 60).is_none());
            }
            ScriptStep::Revoke(id) => {
                let expected = self.model.revoke(id).map(|revision| {
                    let header = Some(pb::ResponseHeader { revision, ..Default::default() });
                    Response::LeaseRevoke(pb::LeaseRevokeResponse { header })
                });
                let request = pb::LeaseRevokeRequest { id };
                self.command(Command::LeaseRevoke { request, expiry_term: None }, expected);
            }
            ScriptStep::Compact(back) => {
                let at = self.model.revision - back;
                let outcome = self.bench.compact(at);
                assert_eq!(outcome.map(|_| ()), self.model.compact(at));
            }
            ScriptStep::Purge(steps) => {
                self.bench.store.purge_step(steps);
            }
            ScriptStep::Relocate(nth) => self.relocate(nth),
            ScriptStep::Checkpoint(base) => self.begin(base),
            ScriptStep::Merge(from, count) => self.merge(from, count),
            ScriptStep::Restart => self.restart(),
        }
        self.write_chunk();
        self.bench.store.check();
    }

    fn command(&mut self, command: Command, expected: Result<Response, Error>) {
        let outcome = self.bench.outcome(command);
        let response = outcome.map(|reply| crate::resolve(&reply, &*self.bench.values).unwrap());
        assert_eq!(response, expected);
    }

    fn range(&self, request: &pb::RangeRequest) {
        let reply = self.bench.reader.range(request);
        let response = reply.map(|reply| resolve_range(&reply, &*self.bench.values).unwrap());
        assert_eq!(response, self.model.range(request), "{request:?}");
    }

    fn relocate(&mut self, nth: u64) {
        let (references, _) =
            self.bench.reader.live_references(|address| address >> 32 == 0, &Default::default(), usize::MAX);
        for reference in references.iter().skip(nth as usize).step_by(3) {
            self.copies += 1;
            let address = (1 << 40) + (self.copies << 10);
            let bytes = self.bench.values.read(&reference.value).unwrap();
            self.bench.values.store(address, &bytes);
            assert!(self.bench.store.relocate(&reference.key, reference.revision, &reference.value, address));
        }
    }

    fn begin(&mut self, base: bool) {
        if self.pending.take().is_some() {
            self.bench.store.abandon_checkpoint();
        }
        let kind = if base { CheckpointKind::Base } else { CheckpointKind::Delta };
        let source = self.bench.store.begin_checkpoint(kind);
        assert_eq!(source.applied(), self.bench.reader.applied());
        self.pending = Some((source, Vec::new(), self.model.clone()));
    }

    fn write_chunk(&mut self) {
        let Some((source, chunks, _)) = &mut self.pending else { return };
        if let Some(chunk) = source.next() {
            chunks.push(chunk);
            return;
        }
        let (source, chunks, model) = self.pending.take().expect("it was there");
        if source.kind() == CheckpointKind::Base {
            self.chain.clear();
        }
        self.bench.store.checkpoint_written();
        self.chain.push(chunks);
        self.chain_model = model;
    }

    /// Replaces some checkpoints of the chain by one.
    fn merge(&mut self, from: usize, count: usize) {
        let Some(from) = from.checked_rem(self.chain.len()) else { return };
        let until = from + 1 + count % (self.chain.len() - from);
        let merged = self.chain[from..until].iter().cloned().map(Vec::into_iter).collect();
        let merged = MergedCheckpoint::new(merged, &small_limits()).expect("they follow each other");
        let merged = merged.collect::<Result<Vec<Bytes>, _>>().expect("what was written can be read");
        self.chain.splice(from..until, [merged]);
    }

    fn restart(&mut self) {
        if self.chain.is_empty() {
            return;
        }
        self.pending = None;
        self.bench.values.forget_references();
        let restored = Store::restore(
            self.bench.values.clone(),
            small_limits(),
            self.chain.iter().cloned().map(Vec::into_iter),
            &Sequential,
        );
        (self.bench.store, self.bench.reader) = restored.expect("what was written can be read");
        self.model = self.chain_model.clone();
        self.check();
    }

    fn check(&self) {
        let reader = &self.bench.reader;
        assert_eq!(reader.current_revision(), self.model.revision);
        assert_eq!(reader.compacted(), self.model.compacted);
        for revision in self.model.compacted.max(1)..=self.model.revision {
            self.range(&pb::RangeRequest { revision, ..range_request("a", "\0") });
            self.range(&pb::RangeRequest { revision, count_only: true, ..range_request("b", "e") });
        }
        let from = self.model.compacted.max(1) + 1;
        for (start, end) in [("a", ""), ("dd", ""), ("a", "c"), ("a", "\0")] {
            let range = KeyRange { start: start.into(), end: end.into() };
            assert_eq!(self.catch_up(&range, from), self.expected_events(&range, from));
        }
        self.bench.store.check_all();
        self.check_derived();
    }

    /// All events from `from` on, in chunks.
    fn catch_up(&self, range: &KeyRange, mut from: i64) -> Vec<Event> {
        let mut events = Vec::new();
        while from <= self.model.revision {
            let (chunk, next) = self.bench.reader.events(range, from, 2, 3).expect("not compacted");
            assert!(next > from, "catching up moves on");
            events.extend(chunk);
            from = next;
        }
        events
    }

    fn expected_events(&self, range: &KeyRange, from: i64) -> Vec<Event> {
        let wanted = |change: &&crate::testing::model::ModelChange| {
            change.main >= from && within(&change.key, &range.start, &range.end)
        };
        let found = self.catch_up(range, from);
        let changes: Vec<_> = self.model.changes.iter().filter(wanted).collect();
        assert_eq!(found.len(), changes.len());
        for (event, change) in found.iter().zip(changes) {
            assert_eq!((&event.kv.key, event.kv.mod_revision.main), (&change.key, change.main));
            assert_eq!(event.kind, if change.kv.is_some() { EventKind::Put } else { EventKind::Delete });
            if let Some(kv) = &change.kv {
                assert_eq!(resolve_kv(&event.kv, &*self.bench.values).unwrap(), *kv);
            }
            let before = change.main - 1;
            let begins = change.kv.as_ref().is_some_and(|kv| kv.create_revision == change.main);
            let readable = !begins && before >= self.model.compacted;
            let prev = self.model.live(&change.key, b"", before).pop().filter(|_| readable);
            let found = event.prev.as_ref().map(|prev| resolve_kv(prev, &*self.bench.values).unwrap());
            assert_eq!(found, prev);
        }
        found
    }

    /// What is derived from the versions agrees with them.
    fn check_derived(&self) {
        let state = self.bench.reader.shared.state.read();
        let mut references = BTreeMap::new();
        let mut leased: BTreeMap<i64, Vec<Bytes>> =
            self.model.leases.keys().map(|id| (*id, Vec::new())).collect();
        let (mut bytes, mut hash, mut versions) = (0, 0u64, 0);
        for (record, live) in state.index.walk(&KeyBounds::ALL) {
            let newest = record.newest();
            assert_eq!(live, record.is_live());
            assert_eq!(live, !newest.is_tombstone());
            if live {
                hash = hash.wrapping_add(key_hash(&record.key(), &newest));
            }
            if newest.lease != 0 {
                leased.get_mut(&newest.lease).unwrap().push(Bytes::copy_from_slice(&record.key()));
            }
            for version in record.versions() {
                versions += u64::from(!version.is_tombstone());
                bytes +=
                    record.key_len() as u64 + u64::from(version.value.len) + crate::VERSION_OVERHEAD_BYTES;
                if version.value.len > 0 {
                    *references.entry(version.value.address).or_insert(0) += 1;
                }
            }
        }
        assert_eq!(state.index.referenced_bytes(), bytes);
        assert_eq!(state.index.versions(), versions);
        assert_eq!(state.key_hash, hash);
        assert_eq!(self.bench.values.references(), references);
        drop(state);
        for (id, keys) in leased {
            assert_eq!(self.bench.lease_keys(id), keys);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn does_what_the_model_does(steps in prop::collection::vec(step(), 1..160)) {
        let mut run = ModelRun::new();
        for step in steps {
            run.step(step);
        }
        run.check();
        while run.pending.is_some() {
            run.write_chunk();
        }
        run.restart();
        prop_assert!(run.bench.store.purge_step(1_000));
        run.check();
    }
}

/// The state hash must not depend on how far history was purged, nor on where values are.
#[test]
fn members_that_purge_differently_have_the_same_hash() {
    let mut hashes = Vec::new();
    for purges in [false, true] {
        let mut bench = TestStore::new();
        for n in 0..10 {
            bench.put("k", &n.to_string());
        }
        bench.delete("k", "");
        bench.put("l", "v");
        bench.compact(12).unwrap();
        if purges {
            assert!(bench.store.purge_step(100));
        }
        hashes.push(bench.reader.state_hash());
    }
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn purging_leaves_nothing_of_a_deleted_key() {
    let mut bench = TestStore::new();
    bench.put("k", "v");
    bench.delete("k", "");
    let revision = bench.put("l", "v");
    bench.compact(revision).unwrap();
    assert!(!bench.store.purge_step(1));
    assert!(bench.store.purge_step(100));
    let counts = bench.reader.counts();
    assert_eq!((counts.keys, counts.versions, counts.history), (1, 1, 1));
    assert_eq!(bench.values.references().len(), 1);
}
