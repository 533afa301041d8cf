//! Groups of watchers with the same filter, found by the key of an event.
//!
//! Watchers of single keys, by far the most, are found in a map; watchers of ranges in an
//! [interval tree](super::interval_tree). A thousand watchers of one prefix are one group, matched once per event.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::event_buffer::{EventBuffer, GroupId};
use super::interval_tree::{IntervalEnd, IntervalTree};
use crate::types::{Event, EventKind, KeyRange};

/// Names a stream, for the lifetime of the hub.
pub(super) type WatchStreamId = u64;

/// Determines which events a watcher gets, and whether they have the previous version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchFilter {
    pub(super) range: KeyRange,
    pub(super) no_put: bool,
    pub(super) no_delete: bool,
    pub(super) prev_kv: bool,
}

impl WatchFilter {
    /// Whether an event in the range has a type that the watcher wants.
    pub(super) fn admits(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Put => !self.no_put,
            EventKind::Delete => !self.no_delete,
        }
    }

    /// The end of the range; `None` if it is a single key.
    fn end(&self) -> Option<IntervalEnd> {
        match self.range.end.as_ref() {
            [] => None,
            [0] => Some(IntervalEnd::Unbounded),
            _ => Some(IntervalEnd::Before(self.range.end.clone())),
        }
    }
}

/// The streams that have watchers with one filter.
pub(super) struct WatcherGroup {
    pub(super) filter: WatchFilter,
    pub(super) subscribers: BTreeMap<WatchStreamId, Arc<EventBuffer>>,
    /// Positions in the present batch that match; empty between batches.
    matched: Vec<u32>,
}

/// All groups, by id and by range.
pub(super) struct WatcherGroups {
    keys: BTreeMap<Bytes, Vec<GroupId>>,
    ranges: IntervalTree<Vec<GroupId>>,
    pub(super) groups: BTreeMap<GroupId, WatcherGroup>,
    next_id: GroupId,
}

impl WatcherGroups {
    /// No groups. `seed` is that of the [interval tree](super::interval_tree).
    pub(super) fn new(seed: u64) -> Self {
        Self { keys: BTreeMap::new(), ranges: IntervalTree::new(seed), groups: BTreeMap::new(), next_id: 0 }
    }

    /// Subscribes a stream to the group of this filter, which is created if necessary.
    pub(super) fn subscribe(
        &mut self,
        filter: &WatchFilter,
        stream: WatchStreamId,
        buffer: &Arc<EventBuffer>,
    ) -> GroupId {
        let id = self.find(filter).unwrap_or_else(|| self.add(filter.clone()));
        let group = self.groups.get_mut(&id).expect("the group was found or added");
        group.subscribers.insert(stream, buffer.clone());
        id
    }

    /// Ends a subscription. A group without subscribers is removed.
    pub(super) fn unsubscribe(&mut self, id: GroupId, stream: WatchStreamId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.subscribers.remove(&stream);
        if group.subscribers.is_empty() {
            let filter = group.filter.clone();
            self.groups.remove(&id);
            self.remove_range(id, &filter);
        }
    }

    /// Matches a batch: calls `visit` for each group with matching events, with their positions in the batch.
    pub(super) fn matching(
        &mut self,
        batch: &[Event],
        mut visit: impl FnMut(GroupId, &WatcherGroup, &[u32]),
    ) {
        let mut touched = Vec::new();
        for (position, event) in batch.iter().enumerate() {
            let groups = &mut self.groups;
            let mut pick = |id: &GroupId| {
                let group = groups.get_mut(id).expect("a range names existing groups");
                if group.filter.admits(&event.kind) {
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

    /// The id of the next group; those of all groups that are there are below it.
    pub(super) fn next_id(&self) -> GroupId {
        self.next_id
    }

    /// The group of this id, unless it was removed.
    pub(super) fn get(&self, id: GroupId) -> Option<&WatcherGroup> {
        self.groups.get(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn find(&mut self, filter: &WatchFilter) -> Option<GroupId> {
        let ids = match filter.end() {
            None => self.keys.get(&filter.range.start),
            Some(end) => self.ranges.get_mut(&filter.range.start, &end).map(|ids| &*ids),
        };
        ids?.iter().copied().find(|id| self.groups[id].filter == *filter)
    }

    fn add(&mut self, filter: WatchFilter) -> GroupId {
        let id = self.next_id;
        self.next_id += 1;
        let start = filter.range.start.clone();
        match filter.end() {
            None => self.keys.entry(start).or_default().push(id),
            Some(end) => match self.ranges.get_mut(&start, &end) {
                Some(ids) => ids.push(id),
                None => self.ranges.insert(start, end, vec![id]),
            },
        }
        self.groups.insert(id, WatcherGroup { filter, subscribers: BTreeMap::new(), matched: Vec::new() });
        id
    }

    /// Removes a group from its range, and the range if it was the last group.
    fn remove_range(&mut self, id: GroupId, filter: &WatchFilter) {
        let start = &filter.range.start;
        let end = filter.end();
        let ids = match &end {
            None => self.keys.get_mut(start),
            Some(end) => self.ranges.get_mut(start, end),
        };
        let ids = ids.expect("the range of a group has it");
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            match &end {
                None => drop(self.keys.remove(start)),
                Some(end) => drop(self.ranges.remove(start, end)),
            }
        }
    }
}

#[cfg(test)]
impl WatcherGroups {
    /// Nodes on the longest way down the tree of ranges.
    pub(super) fn range_depth(&self) -> usize {
        self.ranges.depth()
    }
}
