//! Reading values ahead that transactions compare.
//!
//! A value may lie on the disk, so it is read by the caller, without the lock and on another thread, before it is
//! compared. Reading each by itself would take long. So what is read at once is what the next compares need: those left
//! of the transaction in progress, then those of the commands after it, up to a limit on keys and one on bytes. What
//! was read before is dropped then, so there is never more in memory than one such set:
//!
//! ```text
//! batch [ txn { if value[a, z) > "m" .. } | txn { if value(b) = "x" .. } ]     1,000 keys at most, 5,000 in [a, z)
//!
//! begins                          look ahead: values of a .. f     read them
//! compares a .. f, lacks g        look ahead: values of g .. l     drop a .. f, read g .. l
//! ..
//! lacks u                         look ahead: values of u .. z, b  drop, read
//! ```
//!
//! Looking ahead sees the state before the commands that are still to come. One of them may write a key that a later
//! one compares: then a value was read for nothing, and the other one is read when it turns out to be missing.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use api::etcdserverpb as pb;

use super::compare::{CompareCursor, CompareStep, CompareWork, may_need_values, visit_compared};
use super::fetch::payload_offset;
use crate::command::{BatchContext, Command};
use crate::index::KeyIndex;
use crate::values::ValueRef;

/// Which values the next compares need.
pub(super) struct LookAhead<'a> {
    index: &'a KeyIndex,
    ctx: &'a BatchContext,
    /// Keys that may still be visited.
    left: usize,
    left_bytes: u64,
    is_full: bool,
    /// By address, so that one value is read once, and neighbours together.
    found: BTreeMap<u64, ValueRef>,
}

impl<'a> LookAhead<'a> {
    /// Looks at no more than `max_keys` keys, for no more than `max_bytes` bytes unless the first value has more.
    pub(super) fn new(
        index: &'a KeyIndex,
        ctx: &'a BatchContext,
        max_keys: usize,
        max_bytes: u64,
    ) -> LookAhead<'a> {
        let found = BTreeMap::new();
        LookAhead { index, ctx, left: max_keys, left_bytes: max_bytes, is_full: false, found }
    }

    /// Looks at what is left of a transaction in progress, and at the commands after it. Returns how many of those it
    /// passed with the last that the values are for.
    pub(super) fn look(&mut self, present: Option<&CompareWork>, commands: &[Command]) -> usize {
        if let Some(work) = present {
            self.look_at(CompareCursor::at(&work.request, work.position.clone()));
        }
        let mut passed = 0;
        for (nth, command) in commands.iter().enumerate() {
            if self.is_full {
                break;
            }
            if let Command::Txn(request) = command
                && may_need_values(request)
            {
                self.spend();
                self.look_at(CompareCursor::at(request, CompareCursor::beginning()));
                passed = nth + 1;
            }
        }
        passed
    }

    /// The values, by address, and how many keys may still be visited.
    pub(super) fn into_found(self) -> (Vec<ValueRef>, usize) {
        (self.found.into_values().collect(), self.left)
    }

    fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.is_full |= self.left == 0;
    }

    fn look_at(&mut self, mut cursor: CompareCursor<'_>) {
        loop {
            match cursor.next(&mut self.left) {
                CompareStep::End => return,
                CompareStep::Full => self.is_full = true,
                CompareStep::Decided => {}
                CompareStep::Compare(compare) => {
                    self.look_at_compare(compare, &cursor);
                    cursor.advance();
                    self.spend();
                }
            }
            if self.is_full {
                return;
            }
        }
    }

    fn look_at_compare<'r>(&mut self, compare: &'r pb::Compare, cursor: &CompareCursor<'r>) {
        let (prepared, resume) = cursor.prepared(compare);
        if !prepared.is_of_value() {
            return;
        }
        visit_compared(self.index, compare, resume, |version| {
            let value = &version.value;
            if prepared.decided_by_checksum(value).is_none() && payload_offset(self.ctx, value).is_none() {
                self.add(value);
            }
            self.spend();
            if self.is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// Adds a value, if there is room for it or it is the first.
    fn add(&mut self, value: &ValueRef) {
        let len = u64::from(value.len);
        if self.found.contains_key(&value.address) {
            return;
        }
        if self.found.is_empty() || len <= self.left_bytes {
            self.left_bytes = self.left_bytes.saturating_sub(len);
            self.found.insert(value.address, *value);
        } else {
            self.is_full = true;
        }
    }
}
