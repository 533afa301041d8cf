//! The one history of all members: what each revision did. The first member that applies a revision writes
//! it down, every
//! other one must have seen the same. Revisions have no holes.

use std::collections::BTreeMap;

use api::mvccpb::{Event, KeyValue, event::EventType};
use bytes::Bytes;

use super::model::Change;
use crate::report::Violation;

const CHECK: &str = "one history";

/// What every revision did.
#[derive(Default)]
pub(crate) struct History {
    changes: BTreeMap<i64, Vec<Change>>,
    versions: BTreeMap<Bytes, Vec<(i64, Option<KeyValue>)>>,
}

impl History {
    /// The newest revision that any member has applied.
    pub(crate) fn revision(&self) -> i64 {
        self.changes.last_key_value().map_or(1, |(revision, _)| *revision)
    }

    /// What a revision did.
    pub(crate) fn at(&self, revision: i64) -> Option<&Vec<Change>> {
        self.changes.get(&revision)
    }

    /// The changes of revisions from `from` up to `through`, in order.
    pub(crate) fn between(&self, from: i64, through: i64) -> impl Iterator<Item = (i64, &Change)> {
        let range = from..=through.max(from - 1);
        let revisions = if from > through { None } else { Some(self.changes.range(range)) };
        revisions
            .into_iter()
            .flatten()
            .flat_map(|(revision, changes)| changes.iter().map(|change| (*revision, change)))
    }

    /// The keys as they were at a revision.
    pub(crate) fn view(&self, revision: i64) -> View<'_> {
        View { history: self, revision }
    }

    /// A member has applied a revision. True if it is the first to do so.
    pub(crate) fn observe(
        &mut self,
        member: usize,
        revision: i64,
        events: &[Event],
    ) -> Result<bool, Violation> {
        let changes = events.iter().map(change).collect::<Option<Vec<Change>>>();
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
                "member {member} went on to revision {revision}, but nobody has seen {}",
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
pub(crate) struct View<'a> {
    history: &'a History,
    revision: i64,
}

impl<'a> View<'a> {
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

/// An event as a change.
pub(crate) fn change(event: &Event) -> Option<Change> {
    let kv = event.kv.clone()?;
    let deleted = event.r#type == EventType::Delete as i32;
    Some(Change { key: kv.key.clone(), kv: (!deleted).then_some(kv) })
}
