//! Invariant: all members apply the same changes at the same revision, and revisions have no gaps.
//!
//! ```text
//! member 0 applies 7: put a=1      first: 7 is recorded as {a=1}
//! member 2 applies 7: put a=1      equal
//! member 1 applies 7: put a=2      violation
//! member 0 applies 9               violation: no member has applied 8
//! ```
//!
//! What is recorded is also the reference for all other checks: the keys at any revision.

use std::collections::BTreeMap;

use api::mvccpb::{Event, KeyValue, event::EventType};
use bytes::Bytes;
use prost::Message;

use crate::report::trace::Violation;

const CHECK: &str = "one history";

/// What one revision did to one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyChange {
    /// The key.
    pub(crate) key: Bytes,
    /// Its new value and metadata; `None` if it was deleted.
    pub(crate) kv: Option<KeyValue>,
}

/// The changes of every revision.
#[derive(Default)]
pub(crate) struct RevisionHistory {
    changes: BTreeMap<i64, Vec<KeyChange>>,
    versions: BTreeMap<Bytes, Vec<(i64, Option<KeyValue>)>>,
}

impl RevisionHistory {
    /// The newest revision that a member has applied; 1 before the first change.
    pub(crate) fn revision(&self) -> i64 {
        self.changes.last_key_value().map_or(1, |(revision, _)| *revision)
    }

    /// The changes of a revision.
    pub(crate) fn at(&self, revision: i64) -> Option<&Vec<KeyChange>> {
        self.changes.get(&revision)
    }

    /// The changes of revisions from `from` up to `through`, in order.
    pub(crate) fn between(&self, from: i64, through: i64) -> impl Iterator<Item = (i64, &KeyChange)> {
        let range = from..=through.max(from - 1);
        let revisions = if from > through { None } else { Some(self.changes.range(range)) };
        revisions
            .into_iter()
            .flatten()
            .flat_map(|(revision, changes)| changes.iter().map(|change| (*revision, change)))
    }

    /// The keys as they were at a revision.
    pub(crate) fn view(&self, revision: i64) -> KeysAtRevision<'_> {
        KeysAtRevision { history: self, revision }
    }

    /// The hash of all versions up to `revision` that a compaction at `compacted` leaves, as etcd's database has them
    /// (`kvHasher`): the revision, then the encoded key and value. Of those up to the compaction only what is still the
    /// newest at `revision` counts, unless no key is live then and `all_if_empty`.
    pub(crate) fn hash_kv(&self, revision: i64, compacted: i64, all_if_empty: bool) -> u32 {
        let (left, view) = (self.view(compacted), self.view(revision));
        let counts_all = all_if_empty && view.all().next().is_none();
        let mut old: BTreeMap<(i64, usize), &KeyValue> = BTreeMap::new();
        for kv in left.all() {
            let newest = view.get(&kv.key).map(|newest| newest.mod_revision);
            if counts_all || newest == Some(kv.mod_revision) {
                let changes = self.at(kv.mod_revision).map_or(&[][..], Vec::as_slice);
                let sub = changes.iter().position(|change| change.key == kv.key).unwrap_or(0);
                old.insert((kv.mod_revision, sub), kv);
            }
        }
        let mut crc = crc32c::crc32c(b"key");
        old.iter().for_each(|((main, sub), kv)| crc = append_version(crc, (*main, *sub), kv, false));
        for (main, changes) in self.changes.range(compacted + 1..=revision.max(compacted + 1)) {
            for (sub, change) in changes.iter().enumerate().filter(|_| *main <= revision) {
                let deleted = KeyValue { key: change.key.clone(), ..Default::default() };
                let kv = change.kv.as_ref().unwrap_or(&deleted);
                crc = append_version(crc, (*main, sub), kv, change.kv.is_none());
            }
        }
        crc
    }

    /// A member has applied a revision. True if it is the first member to do so.
    pub(crate) fn observe(
        &mut self,
        member: usize,
        revision: i64,
        events: &[Event],
    ) -> Result<bool, Violation> {
        let changes = events.iter().map(change_of).collect::<Option<Vec<KeyChange>>>();
        let Some(changes) = changes else { return Violation::err(CHECK, "an event without a key") };
        if let Some(known) = self.changes.get(&revision) {
            if *known != changes {
                let text = format!(
                    "member {member} has another revision {revision} than the others:\n  {changes:?}\nthey have:\n  \
                     {known:?}"
                );
                return Violation::err(CHECK, text);
            }
            return Ok(false);
        }
        if revision != self.revision() + 1 {
            let text = format!(
                "member {member} went on to revision {revision}, but no member has applied {}",
                self.revision() + 1
            );
            return Violation::err(CHECK, text);
        }
        for change in &changes {
            self.versions.entry(change.key.clone()).or_default().push((revision, change.kv.clone()));
        }
        self.changes.insert(revision, changes);
        Ok(true)
    }
}

/// The keys at a revision.
#[derive(Clone, Copy)]
pub(crate) struct KeysAtRevision<'a> {
    history: &'a RevisionHistory,
    revision: i64,
}

impl<'a> KeysAtRevision<'a> {
    /// A live key.
    pub(crate) fn get(&self, key: &Bytes) -> Option<&'a KeyValue> {
        self.newest(self.history.versions.get(key)?)
    }

    /// The live keys from `start` on, in order.
    pub(crate) fn from(&self, start: &Bytes) -> impl Iterator<Item = &'a KeyValue> + use<'a> {
        let view = *self;
        let keys = self.history.versions.range(start.clone()..);
        keys.filter_map(move |(_, versions)| view.newest(versions))
    }

    /// The live keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a KeyValue> + use<'a> {
        self.from(&Bytes::new())
    }

    fn newest(&self, versions: &'a [(i64, Option<KeyValue>)]) -> Option<&'a KeyValue> {
        let (newest, older) = versions.split_last()?;
        if newest.0 <= self.revision {
            return newest.1.as_ref();
        }
        let after = older.partition_point(|(at, _)| *at <= self.revision);
        older[..after].last()?.1.as_ref()
    }
}

/// A hash to which a version is appended, as etcd's database has it.
fn append_version(crc: u32, (main, sub): (i64, usize), kv: &KeyValue, is_tombstone: bool) -> u32 {
    let mut bytes = main.to_be_bytes().to_vec();
    bytes.push(b'_');
    bytes.extend((sub as u64).to_be_bytes());
    if is_tombstone {
        bytes.push(b't');
    }
    bytes.extend(kv.encode_to_vec());
    crc32c::crc32c_append(crc, &bytes)
}

/// An event as a change; `None` if it has no key.
pub(crate) fn change_of(event: &Event) -> Option<KeyChange> {
    let kv = event.kv.clone()?;
    let deleted = event.r#type == EventType::Delete as i32;
    Some(KeyChange { key: kv.key.clone(), kv: (!deleted).then_some(kv) })
}
