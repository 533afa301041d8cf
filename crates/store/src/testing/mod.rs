//! Values in a map, and short ways to make requests, for the tests of this crate.

pub(crate) mod model;
pub(crate) mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    Access, Applied, BatchContext, Caller, Command, Damaged, Limits, Outcome, Reader, Response, Restored,
    Store, ValueRef, ValueSlot, Values, resolve,
};

/// Divides the chunks of a chain into its checkpoints: each frame of kind 1 begins one. Bytes that are no frames stay
/// with what is before them.
pub(crate) fn checkpoints(chunks: &[Bytes]) -> Vec<std::vec::IntoIter<Bytes>> {
    let bytes = Bytes::from(chunks.concat());
    let mut starts = vec![0];
    let mut at = 0;
    while let Some(header) = bytes[at..].first_chunk::<9>() {
        let [l0, l1, l2, l3, kind, ..] = *header;
        if kind == 1 && at > 0 {
            starts.push(at);
        }
        at = bytes.len().min(at + 9 + u32::from_le_bytes([l0, l1, l2, l3]) as usize);
    }
    let ends = starts[1..].iter().copied().chain([bytes.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| vec![bytes.slice(start..end)].into_iter()).collect()
}

/// Values by address, with counted references; values can be damaged.
#[derive(Default)]
pub(crate) struct MapValues {
    inner: Mutex<MapValuesState>,
}

#[derive(Default)]
struct MapValuesState {
    bytes: BTreeMap<u64, Bytes>,
    references: BTreeMap<u64, i64>,
    damaged: BTreeSet<u64>,
    accesses: Vec<Access>,
}

impl MapValues {
    /// Stores a payload so that its slices can be read.
    pub(crate) fn store(&self, address: u64, payload: &Bytes) {
        self.inner.lock().bytes.insert(address, payload.clone());
    }

    /// Forgets all references, as a process that ends does.
    pub(crate) fn forget_references(&self) {
        self.inner.lock().references.clear();
    }

    /// Makes the value at an address unreadable, or readable again.
    pub(crate) fn damage(&self, address: u64, damaged: bool) {
        let mut inner = self.inner.lock();
        if damaged {
            inner.damaged.insert(address)
        } else {
            inner.damaged.remove(&address)
        };
    }

    /// How values were read to where they were wanted since this was last asked.
    pub(crate) fn take_accesses(&self) -> Vec<Access> {
        std::mem::take(&mut self.inner.lock().accesses)
    }

    /// Retained references, by address.
    pub(crate) fn references(&self) -> BTreeMap<u64, i64> {
        self.inner.lock().references.clone()
    }

    /// From now on these references are the only ones.
    pub(crate) fn replace_references(&self, values: impl Iterator<Item = ValueRef>) {
        self.forget_references();
        values.for_each(|value| self.retain(&value));
    }
}

impl Values for MapValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let inner = self.inner.lock();
        let damaged = |reason: &str| Damaged {
            address: value.address,
            len: value.len,
            key: None,
            reason: reason.into(),
            is_transient: false,
        };
        if inner.damaged.contains(&value.address) {
            return Err(damaged("the test says so"));
        }
        let (address, payload) =
            inner.bytes.range(..=value.address).next_back().ok_or_else(|| damaged("nothing"))?;
        let start = (value.address - address) as usize;
        let bytes = payload.slice(start..start + value.len as usize);
        assert_eq!(crc32c::crc32c(&bytes), value.checksum);
        Ok(bytes)
    }

    fn read_into(&self, slots: &mut [ValueSlot<'_>], access: Access) -> Result<(), Damaged> {
        self.inner.lock().accesses.push(access);
        slots.iter_mut().try_for_each(|slot| {
            slot.into.copy_from_slice(&self.read(&slot.value)?);
            Ok(())
        })
    }

    fn retain(&self, value: &ValueRef) {
        assert!(value.len > 0);
        *self.inner.lock().references.entry(value.address).or_default() += 1;
    }

    fn release(&self, value: &ValueRef) {
        let mut inner = self.inner.lock();
        let count = inner.references.get_mut(&value.address).expect("released what was retained");
        *count -= 1;
        if *count == 0 {
            inner.references.remove(&value.address);
        }
    }
}

/// A store with its log: each call of [`apply`](Self::apply) is one entry.
pub(crate) struct TestStore {
    pub(crate) values: Arc<MapValues>,
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    pub(crate) term: u64,
    /// Whether clients wait for what is applied.
    pub(crate) answers: bool,
}

/// Bytes between the payloads of two entries.
const PAYLOAD_STEP: u64 = 1 << 20;

impl TestStore {
    pub(crate) fn new() -> TestStore {
        TestStore::with_slices_of(small_limits().slice_keys)
    }

    /// Replaces the state and the references.
    pub(crate) fn install(&mut self, restored: Restored) {
        self.values.replace_references(restored.values());
        drop(self.store.install(restored));
    }

    pub(crate) fn with_slices_of(slice_keys: usize) -> TestStore {
        TestStore::within(Limits { slice_keys, ..small_limits() })
    }

    pub(crate) fn within(limits: Limits) -> TestStore {
        let values = Arc::new(MapValues::default());
        let (store, reader) = Store::new(values.clone(), limits);
        TestStore { values, store, reader, term: 1, answers: true }
    }

    /// Applies commands as one entry, after laying their values out in a payload as the log would.
    pub(crate) fn apply(&mut self, commands: Vec<Command>) -> Applied {
        self.try_apply(commands).expect("no value is damaged")
    }

    pub(crate) fn try_apply(&mut self, commands: Vec<Command>) -> Result<Applied, Damaged> {
        let (ctx, commands) = self.entry(commands);
        self.store.apply_batch(ctx, commands)
    }

    /// Lays the values of commands out in the payload of the next entry.
    pub(crate) fn entry(&mut self, mut commands: Vec<Command>) -> (BatchContext, Vec<Command>) {
        let index = self.reader.applied().index + 1;
        let mut payload = b"head".to_vec();
        let mut puts: Vec<&mut pb::PutRequest> = commands.iter_mut().flat_map(puts_of).collect();
        let mut at = Vec::new();
        for put in &puts {
            at.push(payload.len()..payload.len() + put.value.len());
            payload.extend_from_slice(&put.value);
        }
        let payload = Bytes::from(payload);
        for (put, at) in puts.iter_mut().zip(at) {
            put.value = payload.slice(at);
        }
        let payload_address = index * PAYLOAD_STEP;
        self.values.store(payload_address, &payload);
        let has_caller = vec![self.answers; commands.len()];
        let ctx = BatchContext {
            payload,
            payload_address,
            has_caller,
            is_watched: true,
            ..BatchContext::at(index, self.term)
        };
        (ctx, commands)
    }

    /// Applies one command of a caller.
    pub(crate) fn outcome_as(&mut self, caller: Caller, command: Command) -> Outcome {
        let (ctx, commands) = self.entry(vec![command]);
        let ctx = BatchContext { callers: vec![caller], ..ctx };
        let applied = self.store.apply_batch(ctx, commands);
        applied.map_or(Err(Error::Corrupt), |mut applied| applied.outcomes.remove(0))
    }

    /// Applies one command and returns what came of it.
    pub(crate) fn outcome(&mut self, command: Command) -> Outcome {
        self.apply(vec![command]).outcomes.remove(0)
    }

    /// Applies one command that succeeds and returns the client's response.
    pub(crate) fn respond(&mut self, command: Command) -> Response {
        let reply = self.outcome(command).expect("the command is valid");
        resolve(&reply, &*self.values).expect("no value is damaged")
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> i64 {
        self.apply(vec![put(key, value)]).revision
    }

    pub(crate) fn delete(&mut self, key: &str, end: &str) -> i64 {
        self.apply(vec![delete(key, end)]).revision
    }

    pub(crate) fn lease_keys(&self, lease: i64) -> Vec<Bytes> {
        let mut scan = self.reader.lease_keys(lease);
        loop {
            if let Some(keys) = scan.step() {
                return keys;
            }
        }
    }

    pub(crate) fn compact(&mut self, revision: i64) -> Outcome {
        self.outcome(Command::Compaction(pb::CompactionRequest { revision, physical: true }))
    }
}

/// Limits so small that every walk is cut.
pub(crate) fn small_limits() -> Limits {
    Limits {
        slice_keys: 2,
        fetched_bytes: 6,
        chunk_keys: 3,
        count_steps: 4,
        found_keys: 5,
        sorted_versions: 3,
        checkpoint_chunk_bytes: 64,
        merge_round_bytes: 200,
    }
}

fn puts_of(command: &mut Command) -> Vec<&mut pb::PutRequest> {
    match command {
        Command::Put(put) => vec![put],
        Command::Txn(txn) => puts_of_txn(txn),
        _ => Vec::new(),
    }
}

fn puts_of_txn(txn: &mut pb::TxnRequest) -> Vec<&mut pb::PutRequest> {
    use pb::request_op::Request;
    let ops = txn.success.iter_mut().chain(&mut txn.failure);
    ops.flat_map(|op| match &mut op.request {
        Some(Request::RequestPut(put)) => vec![put],
        Some(Request::RequestTxn(txn)) => puts_of_txn(txn),
        _ => Vec::new(),
    })
    .collect()
}

pub(crate) fn put(key: &str, value: &str) -> Command {
    Command::Put(put_request(key, value))
}

pub(crate) fn put_request(key: &str, value: &str) -> pb::PutRequest {
    pb::PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..Default::default()
    }
}

pub(crate) fn delete(key: &str, end: &str) -> Command {
    Command::DeleteRange(delete_request(key, end))
}

pub(crate) fn delete_request(key: &str, end: &str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        prev_kv: true,
    }
}

pub(crate) fn range_request(key: &str, end: &str) -> pb::RangeRequest {
    pb::RangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        ..Default::default()
    }
}

pub(crate) fn grant(id: i64, ttl: i64) -> Command {
    Command::LeaseGrant(pb::LeaseGrantRequest { id, ttl })
}

/// One operation of a transaction.
pub(crate) fn op(request: pb::request_op::Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}
