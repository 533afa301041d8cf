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

/// An event as a change; `None` if it has no key.
pub(crate) fn change_of(event: &Event) -> Option<KeyChange> {
    let kv = event.kv.clone()?;
    let deleted = event.r#type == EventType::Delete as i32;
    Some(KeyChange { key: kv.key.clone(), kv: (!deleted).then_some(kv) })
}
