//! Who wants which events: watchers of equal shape form a group, found by key.
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::inbox::Inbox;
use super::intervals::{End, Intervals};
use crate::{Event, EventKind, KeyRange};

/// Names a group; never used again after the group is gone, so what still lies in an inbox cannot reach
/// another group.
pub(super) type GroupId = u64;

/// Names a stream for as long as the hub lives.
pub(super) type StreamId = u64;

/// What decides which events a watcher gets and how they look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) range: KeyRange,
    pub(super) no_put: bool,
    pub(super) no_delete: bool,
    pub(super) prev_kv: bool,
}

impl Shape {
    /// Whether an event in the range passes the filters.
    pub(super) fn admits(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Put => !self.no_put,
            EventKind::Delete => !self.no_delete,
        }
    }

    /// Where the range ends; `None` when it is one key.
    fn end(&self) -> Option<End> {
        match self.range.end.as_ref() {
            [] => None,
            [0] => Some(End::Unbounded),
            _ => Some(End::Before(self.range.end.clone())),
        }
    }
}

/// The watchers of one shape, by the streams they are on.
pub(super) struct Group {
    pub(super) shape: Shape,
    pub(super) subscribers: BTreeMap<StreamId, Arc<Inbox>>,
    /// Positions of the current batch that match; empty between batches.
    matched: Vec<u32>,
}

/// All groups. Single keys, by far the most, are found by lookup; ranges by stabbing.
pub(super) struct Groups {
    keys: BTreeMap<Bytes, Vec<GroupId>>,
    ranges: Intervals<Vec<GroupId>>,
    groups: BTreeMap<GroupId, Group>,
    next_id: GroupId,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self { keys: BTreeMap::new(), ranges: Intervals::new(), groups: BTreeMap::new(), next_id: 0 }
    }

    /// Subscribes a stream to the group of this shape, which is made if there is none.
    pub(super) fn subscribe(&mut self, shape: &Shape, stream: StreamId, inbox: &Arc<Inbox>) -> GroupId {
        let id = self.find(shape).unwrap_or_else(|| self.add(shape.clone()));
        let group = self.groups.get_mut(&id).expect("a group that was found or added");
        group.subscribers.insert(stream, inbox.clone());
        id
    }

    /// Ends a subscription; a group without subscribers goes.
    pub(super) fn unsubscribe(&mut self, id: GroupId, stream: StreamId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.subscribers.remove(&stream);
        if group.subscribers.is_empty() {
            let shape = group.shape.clone();
            self.groups.remove(&id);
            self.unlist(id, &shape);
        }
    }

    /// Matches a batch: calls `visit` once for each group with matching events, with their positions in the
    /// batch.
    pub(super) fn matching(&mut self, batch: &[Event], mut visit: impl FnMut(GroupId, &Group, &[u32])) {
        let mut touched = Vec::new();
        for (position, event) in batch.iter().enumerate() {
            let groups = &mut self.groups;
            let mut pick = |id: &GroupId| {
                let group = groups.get_mut(id).expect("a listed group exists");
                if group.shape.admits(&event.kind) {
                    if group.matched.is_empty() {
                        touched.push(*id);
                    }
                    group.matched.push(position as u32);
                }
            };
            self.keys.get(&event.kv.key).into_iter().flatten().for_each(&mut pick);
            self.ranges.stab(&event.kv.key, &mut |ids: &Vec<GroupId>| ids.iter().for_each(&mut pick));
        }
        for id in touched {
            let group = self.groups.get_mut(&id).expect("a touched group exists");
            let mut matched = std::mem::take(&mut group.matched);
            visit(id, group, &matched);
            matched.clear();
            group.matched = matched;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn find(&mut self, shape: &Shape) -> Option<GroupId> {
        let ids = match shape.end() {
            None => self.keys.get(&shape.range.start),
            Some(end) => self.ranges.get_mut(&shape.range.start, &end).map(|ids| &*ids),
        };
        ids?.iter().copied().find(|id| self.groups[id].shape == *shape)
    }

    fn add(&mut self, shape: Shape) -> GroupId {
        let id = self.next_id;
        self.next_id += 1;
        let start = shape.range.start.clone();
        match shape.end() {
            None => self.keys.entry(start).or_default().push(id),
            Some(end) => match self.ranges.get_mut(&start, &end) {
                Some(ids) => ids.push(id),
                None => self.ranges.insert(start, end, vec![id]),
            },
        }
        self.groups.insert(id, Group { shape, subscribers: BTreeMap::new(), matched: Vec::new() });
        id
    }

    /// Takes a group out of the list of its range, and the range out when it was the last.
    fn unlist(&mut self, id: GroupId, shape: &Shape) {
        let start = &shape.range.start;
        let end = shape.end();
        let ids = match &end {
            None => self.keys.get_mut(start),
            Some(end) => self.ranges.get_mut(start, end),
        };
        let ids = ids.expect("a group is listed under its range");
        ids.retain(|listed| *listed != id);
        if ids.is_empty() {
            match &end {
                None => drop(self.keys.remove(start)),
                Some(end) => drop(self.ranges.remove(start, end)),
            }
        }
    }
}
