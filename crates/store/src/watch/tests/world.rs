//! A store that is one list of events: the reference for what watchers receive.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::mvccpb;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::watch::{Hub, Wake, WatchStream};
use crate::{Compacted, Damaged, Event, EventKind, History, KeyRange, KvRef, Revision, ValueRef, Values};

pub(super) const CLUSTER: u64 = 0xcafe;
pub(super) const MEMBER: u64 = 7;
const SEED: u64 = 5;
pub(super) const TERM: u64 = 3;
/// etcd's default request limit with its overhead.
pub(super) const FRAGMENT_BYTES: usize = 1_572_864 + 512 * 1024;

#[derive(Default)]
struct State {
    revision: i64,
    compacted: i64,
    /// All compact revisions that there have been.
    compactions: BTreeSet<i64>,
    events: Vec<Event>,
    live: BTreeMap<Bytes, KvRef>,
    damaged: BTreeSet<u64>,
    next_address: u64,
    /// At most so many events a read, to make chunks small.
    chunk: usize,
}

pub(super) struct World {
    state: Mutex<State>,
    pub(super) reads: AtomicUsize,
    hook: Mutex<Option<Hook>>,
}

/// Something that happens at a moment that another thread could choose.
pub(super) type Hook = Box<dyn FnMut(Moment) + Send>;

/// Where a stream stands when the hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// About to read the history.
    BeforeHistory,
    /// Has read the history.
    AfterHistory,
    /// About to read a value.
    BeforeValue,
}

/// A change of a transaction: a value's length to put, `None` to delete.
pub(super) type Change<'a> = (&'a str, Option<u32>);

impl World {
    pub(super) fn new() -> Arc<Self> {
        let state = State { revision: 1, chunk: usize::MAX, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), reads: AtomicUsize::new(0), hook: Mutex::new(None) })
    }

    pub(super) fn hub(self: &Arc<Self>) -> Hub {
        Hub::new(self.clone(), self.clone(), CLUSTER, MEMBER, SEED)
    }

    pub(super) fn limit_chunks(&self, events: usize) {
        self.state.lock().chunk = events;
    }

    /// Applies a transaction without publishing it; deletes of absent keys do nothing.
    pub(super) fn apply(&self, changes: &[Change]) -> Vec<Event> {
        let mut state = self.state.lock();
        let main = state.revision + 1;
        let mut events = Vec::new();
        for (key, change) in changes {
            let mod_revision = Revision { main, sub: events.len() as u32 };
            events.extend(state.change(Bytes::copy_from_slice(key.as_bytes()), *change, mod_revision));
        }
        if !events.is_empty() {
            state.revision = main;
        }
        state.events.extend(events.iter().cloned());
        events
    }

    /// Applies and publishes one put.
    pub(super) fn put(&self, hub: &Hub, key: &str) -> i64 {
        let events = self.apply(&[(key, Some(8))]);
        hub.publish(self.current_revision(), &events.into());
        self.current_revision()
    }

    pub(super) fn compact(&self, revision: i64) {
        let mut state = self.state.lock();
        state.compacted = state.compacted.max(revision.min(state.revision));
        let compacted = state.compacted;
        state.compactions.insert(compacted);
    }

    /// Whether `revision` is the compact revision, or was it before.
    pub(super) fn was_compacted_at(&self, revision: i64) -> bool {
        self.state.lock().compactions.contains(&revision)
    }

    /// Damages or repairs the value of the event at `revision`.
    pub(super) fn set_damaged(&self, revision: i64, damaged: bool) {
        let mut state = self.state.lock();
        let addresses: Vec<u64> = state.at(revision).map(|event| event.kv.value.address).collect();
        for address in addresses {
            if damaged {
                state.damaged.insert(address)
            } else {
                state.damaged.remove(&address)
            };
        }
    }

    pub(super) fn hook(&self, hook: impl FnMut(Moment) + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// Calls the hook, unless what it does came here.
    fn reach(&self, moment: Moment) {
        let Some(mut hook) = self.hook.lock().take() else { return };
        hook(moment);
        *self.hook.lock() = Some(hook);
    }

    /// All events ever, compacted ones too.
    pub(super) fn all_events(&self) -> Vec<Event> {
        self.state.lock().events.clone()
    }
}

impl State {
    fn change(&mut self, key: Bytes, change: Option<u32>, mod_revision: Revision) -> Option<Event> {
        let prev = self.live.get(&key).cloned();
        let Some(len) = change else {
            let prev = Some(self.live.remove(&key)?);
            let none = ValueRef::default();
            let kv = KvRef { key, create_revision: 0, mod_revision, version: 0, lease: 0, value: none };
            return Some(Event { kind: EventKind::Delete, kv, prev });
        };
        self.next_address += 1;
        let value = ValueRef { address: self.next_address, len, checksum: 0 };
        let create_revision = prev.as_ref().map_or(mod_revision.main, |prev| prev.create_revision);
        let version = prev.as_ref().map_or(1, |prev| prev.version + 1);
        let lease = self.next_address as i64 % 3;
        let kv = KvRef { key: key.clone(), create_revision, mod_revision, version, lease, value };
        self.live.insert(key, kv.clone());
        Some(Event { kind: EventKind::Put, kv, prev })
    }

    fn at(&self, revision: i64) -> impl Iterator<Item = &Event> {
        let from = self.events.partition_point(|event| event.kv.mod_revision.main < revision);
        self.events[from..].iter().take_while(move |event| event.kv.mod_revision.main == revision)
    }
}

pub(super) fn contains(range: &KeyRange, key: &[u8]) -> bool {
    match range.end.as_ref() {
        [] => key == range.start.as_ref(),
        [0] => key >= range.start.as_ref(),
        end => key >= range.start.as_ref() && key < end,
    }
}

impl History for World {
    fn current_revision(&self) -> i64 {
        self.state.lock().revision
    }

    fn compact_revision(&self) -> i64 {
        self.state.lock().compacted
    }

    fn events(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<(Vec<Event>, i64), Compacted> {
        self.reach(Moment::BeforeHistory);
        let found = self.state.lock().read(range, from, max_events, max_steps);
        self.reach(Moment::AfterHistory);
        found
    }
}

impl State {
    fn read(
        &self,
        range: &KeyRange,
        from: i64,
        max_events: usize,
        max_steps: usize,
    ) -> Result<(Vec<Event>, i64), Compacted> {
        if from < self.compacted {
            return Err(Compacted { at: self.compacted });
        }
        let (mut found, mut next) = (Vec::new(), from);
        while next <= self.revision && found.len() < max_events.min(self.chunk) {
            if next - from >= max_steps as i64 {
                break;
            }
            found.extend(self.at(next).filter(|event| contains(range, &event.kv.key)).cloned());
            next += 1;
        }
        Ok((found, next))
    }
}

/// The bytes of a value: its address, repeated to its length.
fn value(value: &ValueRef) -> Bytes {
    let len = value.len as usize;
    Bytes::from(value.address.to_le_bytes().repeat(len.div_ceil(8))).slice(..len)
}

impl Values for World {
    fn read(&self, asked: &ValueRef) -> Result<Bytes, Damaged> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.reach(Moment::BeforeValue);
        if self.state.lock().damaged.contains(&asked.address) {
            return Err(Damaged {
                key: None,
                address: asked.address,
                len: asked.len,
                reason: "checksum mismatch".into(),
                is_transient: false,
            });
        }
        Ok(value(asked))
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

/// The event as the generated types say it.
pub(super) fn message(event: &Event, prev_kv: bool) -> mvccpb::Event {
    let kv = |kv: &KvRef| mvccpb::KeyValue {
        key: kv.key.clone(),
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision.main,
        version: kv.version,
        value: value(&kv.value),
        lease: kv.lease,
    };
    let r#type = if event.kind == EventKind::Delete { 1 } else { 0 };
    let prev = event.prev.as_ref().filter(|_| prev_kv).map(kv);
    mvccpb::Event { r#type, kv: Some(kv(&event.kv)), prev_kv: prev }
}

/// Opens a stream and counts how often it is woken.
pub(super) fn open(hub: &Hub) -> (WatchStream, Arc<AtomicUsize>) {
    let woken = Arc::new(AtomicUsize::new(0));
    let counter = woken.clone();
    let wake: Wake = Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (hub.open(wake, FRAGMENT_BYTES), woken)
}
