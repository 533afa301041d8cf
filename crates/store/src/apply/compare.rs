//! The first pass of a transaction: its compares, and those of the transactions nested in it.
//!
//! A compare of a range visits each live key of it, so the pass can be interrupted at any key. A *cursor* goes through
//! the transactions in their order, into both branches of each: what the compares cost is counted in all of them, and
//! what they say is evaluated only where it may be decisive.
//!
//! ```text
//! txn { if version(a) = 0 and value[k, l) > "m" then [ txn { if mod(b) > 7 .. } ] else [ .. ] }
//!       with a present
//!
//! version(a) = 0     does not hold: else
//! value[k, l) > "m"  not evaluated; the bytes that it would need are added up
//! mod(b) > 7         in the branch that is not taken, and needs no bytes: not visited
//! value(c) = "x"     evaluated
//! ```
//!
//! Values that are not in memory are needed one by one, and read ahead together: see [`fetch`](super::fetch). Between
//! two slices of this pass the state is as before the transaction, but values may have been relocated. That changes
//! addresses, and no length, checksum or bytes.

use std::convert::Infallible;
use std::ops::ControlFlow;

use api::Error;
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use bytes::Bytes;

use super::batch::BatchApply;
use super::cost::{MAX_COMPARED_BYTES, TxnCost};
use super::fetch::payload_offset;
use crate::compare::PreparedCompare;
use crate::index::{IndexKey, KeyIndex, Version};
use crate::range::bounds;
use crate::values::ValueRef;

/// Keys and operations that the first two passes of a transaction visit without spending anything: an ordinary
/// transaction spends one key when it begins, and one for its put, where a put spends one.
const MAX_FREE_VISITS: usize = 4;

/// Operations that are searched for nested transactions, for each key spent.
const OPS_PER_KEY: usize = 16;

/// Bytes of values that are compared, for each key spent.
const BYTES_PER_KEY: u64 = 4 << 10;

/// So many compares of single keys are far below the limits, and so many operations are searched within microseconds.
const MAX_SIMPLE_PARTS: usize = 1_000;

/// The first pass in progress.
pub(super) struct CompareWork {
    pub(super) request: pb::TxnRequest,
    pub(super) position: Vec<CompareLevel>,
    /// Whether the transactions that are carried out take their first branch, in the order of their execution.
    taken: Vec<bool>,
    cost: TxnCost,
    /// Bytes of values that the compares may need.
    needed_bytes: u64,
    /// Visits that do not count against the slice, as far as they are left.
    free_visits: usize,
}

impl CompareWork {
    pub(super) fn new(request: pb::TxnRequest) -> CompareWork {
        CompareWork {
            request,
            position: CompareCursor::beginning(),
            taken: Vec::new(),
            cost: TxnCost::of_compares(),
            needed_bytes: 0,
            free_visits: MAX_FREE_VISITS,
        }
    }

    /// The request, the branches that its transactions take, and the free visits that are left.
    pub(super) fn into_taken(self) -> (pb::TxnRequest, Vec<bool>, usize) {
        (self.request, self.taken, self.free_visits)
    }
}

/// How far the first pass got in a slice.
pub(super) enum CompareProgress {
    Done,
    /// The slice is full.
    Full,
    /// The next value to compare is not in memory.
    LacksValue,
}

/// Where a cursor stands in one of the transactions that contain its position.
#[derive(Clone)]
pub(super) struct CompareLevel {
    /// The present compare.
    compare: usize,
    /// Its state, if it has begun.
    begun: Option<BegunCompare>,
    /// Whether all compares are done.
    is_decided: bool,
    /// The operation that is searched next; those of the second branch follow those of the first.
    op: usize,
    /// Whether this transaction is carried out.
    is_reached: bool,
    /// Whether the compares hold, as far as they were evaluated.
    holds: bool,
}

/// A compare between two slices.
#[derive(Clone)]
pub(super) struct BegunCompare {
    /// The key at which it resumes; `None` at its first.
    resume: Option<IndexKey>,
    /// Whether it names a live key.
    any: bool,
    checksum: u32,
}

impl CompareLevel {
    fn new(is_reached: bool) -> CompareLevel {
        CompareLevel { compare: 0, begun: None, is_decided: false, op: 0, is_reached, holds: true }
    }
}

/// Goes through the compares of a transaction and those nested in it.
pub(super) struct CompareCursor<'r> {
    /// The transactions that contain the position, the outermost first.
    open: Vec<&'r pb::TxnRequest>,
    /// Where it stands in each of them.
    levels: Vec<CompareLevel>,
}

/// What a cursor comes to.
pub(super) enum CompareStep<'r> {
    /// The present compare: the same again until [`CompareCursor::advance`] is called.
    Compare(&'r pb::Compare),
    /// The compares of the innermost transaction are at an end.
    Decided,
    /// It was searched for nested transactions for as long as allowed.
    Full,
    /// No transaction is left.
    End,
}

impl<'r> CompareCursor<'r> {
    /// The position before the first compare.
    pub(super) fn beginning() -> Vec<CompareLevel> {
        vec![CompareLevel::new(true)]
    }

    /// A cursor at a position in `request`.
    pub(super) fn at(request: &'r pb::TxnRequest, levels: Vec<CompareLevel>) -> CompareCursor<'r> {
        let mut open = Vec::with_capacity(levels.len());
        let mut next = Some(request);
        for level in &levels {
            let request = next.expect("a level beyond the first is that of a nested transaction");
            open.push(request);
            next = level.op.checked_sub(1).and_then(|op| nested(op_at(request, op)?));
        }
        CompareCursor { open, levels }
    }

    /// Its position.
    pub(super) fn into_position(self) -> Vec<CompareLevel> {
        self.levels
    }

    /// Moves to the next compare that is not done. Takes what it searches off `keys`.
    pub(super) fn next(&mut self, keys: &mut usize) -> CompareStep<'r> {
        loop {
            let (Some(level), Some(request)) = (self.levels.last_mut(), self.open.last().copied()) else {
                return CompareStep::End;
            };
            if let Some(compare) = request.compare.get(level.compare) {
                return CompareStep::Compare(compare);
            }
            if !level.is_decided {
                level.is_decided = true;
                return CompareStep::Decided;
            }
            let Some(op) = op_at(request, level.op) else {
                self.levels.pop();
                self.open.pop();
                continue;
            };
            if level.op % OPS_PER_KEY == OPS_PER_KEY - 1 {
                if *keys == 0 {
                    return CompareStep::Full;
                }
                *keys -= 1;
            }
            let is_first_branch = level.op < request.success.len();
            level.op += 1;
            if let Some(nested) = nested(op) {
                let is_reached = level.is_reached && level.holds == is_first_branch;
                self.open.push(nested);
                self.levels.push(CompareLevel::new(is_reached));
            }
        }
    }

    /// The present compare is done.
    pub(super) fn advance(&mut self) {
        let level = self.innermost();
        level.compare += 1;
        level.begun = None;
    }

    fn innermost(&mut self) -> &mut CompareLevel {
        self.levels.last_mut().expect("the cursor is in a transaction")
    }

    /// The present compare prepared, and the key at which it resumes, if it has begun.
    pub(super) fn prepared(&self, compare: &'r pb::Compare) -> (PreparedCompare<'r>, Option<&IndexKey>) {
        match self.levels.last().and_then(|level| level.begun.as_ref()) {
            Some(begun) => (PreparedCompare::with_checksum(compare, begun.checksum), begun.resume.as_ref()),
            None => (PreparedCompare::new(compare), None),
        }
    }
}

fn op_at(request: &pb::TxnRequest, op: usize) -> Option<&pb::RequestOp> {
    let first = request.success.len();
    if op < first { request.success.get(op) } else { request.failure.get(op - first) }
}

fn nested(op: &pb::RequestOp) -> Option<&pb::TxnRequest> {
    match &op.request {
        Some(Request::RequestTxn(request)) => Some(request),
        _ => None,
    }
}

/// Whether the compares of a transaction may need values. Those of nearly all need none, as the request alone tells.
pub(super) fn may_need_values(request: &pb::TxnRequest) -> bool {
    let is_of_value = |compare: &pb::Compare| PreparedCompare::with_checksum(compare, 0).is_of_value();
    let mut ops = request.success.iter().chain(&request.failure);
    request.compare.len() + request.success.len() + request.failure.len() > MAX_SIMPLE_PARTS
        || request.compare.iter().any(is_of_value)
        || ops.any(|op| nested(op).is_some())
}

/// Visits the newest versions of the live keys that a compare names, from `resume` on, until `visit` breaks. Returns
/// the key at which it broke.
pub(super) fn visit_compared(
    index: &KeyIndex,
    compare: &pb::Compare,
    resume: Option<&IndexKey>,
    mut visit: impl FnMut(&Version) -> ControlFlow<()>,
) -> Option<IndexKey> {
    if compare.range_end.is_empty() {
        #[cfg(test)]
        crate::index::steps::count();
        let newest = index.record(&compare.key).filter(|record| record.is_live())?.newest();
        return visit(&newest).is_break().then(|| IndexKey::new(&compare.key));
    }
    let mut bounds = bounds(&compare.key, &compare.range_end);
    if let Some(key) = resume {
        bounds.start = key.as_slice();
    }
    index.visit_live(&bounds, visit)
}

/// Why a compare is interrupted.
enum Interruption {
    Full,
    LacksValue,
    /// It needs more bytes than a transaction may compare.
    Refused,
}

impl BatchApply<'_> {
    /// Evaluates compares until all are, the slice is full, or a value is needed that is not in memory.
    ///
    /// # Errors
    /// [`Error::TooManyOps`] if the compares visit too many keys, or may need too many bytes, in all branches together.
    pub(super) fn go_on_comparing(&mut self, work: &mut CompareWork) -> Result<CompareProgress, Error> {
        let CompareWork { request, position, taken, cost, needed_bytes, free_visits } = work;
        let mut cursor = CompareCursor::at(request, std::mem::take(position));
        let ended = loop {
            match cursor.next(&mut self.left) {
                CompareStep::End => break CompareProgress::Done,
                CompareStep::Full => break CompareProgress::Full,
                CompareStep::Decided => {
                    let level = cursor.innermost();
                    if level.is_reached {
                        taken.push(level.holds);
                    }
                }
                CompareStep::Compare(_) if self.left_visits(*free_visits) == 0 => {
                    break CompareProgress::Full;
                }
                CompareStep::Compare(compare) => {
                    if cursor.innermost().begun.is_none() {
                        cost.add_compare(&self.state.index, compare)?;
                    }
                    match self.compare_keys(compare, &mut cursor, needed_bytes, free_visits) {
                        None => cursor.advance(),
                        Some(Interruption::Full) => break CompareProgress::Full,
                        Some(Interruption::LacksValue) => break CompareProgress::LacksValue,
                        Some(Interruption::Refused) => return Err(Error::TooManyOps),
                    }
                }
            }
        };
        *position = cursor.into_position();
        Ok(ended)
    }

    /// Visits the keys of a compare that are left, and notes in the cursor whether it holds for all of them. Returns
    /// why it was interrupted, if it was.
    fn compare_keys<'r>(
        &mut self,
        compare: &'r pb::Compare,
        cursor: &mut CompareCursor<'r>,
        needed_bytes: &mut u64,
        free_visits: &mut usize,
    ) -> Option<Interruption> {
        let (prepared, resume) = cursor.prepared(compare);
        let (resume, level) = (resume.cloned(), cursor.innermost());
        let begun = level.begun.get_or_insert_with(|| BegunCompare {
            resume: None,
            any: false,
            checksum: prepared.checksum(),
        });
        let mut is_evaluated = level.is_reached && level.holds;
        if !is_evaluated && !prepared.is_of_value() {
            self.spend_visits(free_visits, 1);
            return None;
        }
        let (mut visits, left_visits) = (0, self.left_visits(*free_visits));
        let mut interruption = None;
        let stopped = visit_compared(&self.state.index, compare, resume.as_ref(), |version| {
            if visits >= left_visits {
                interruption = Some(Interruption::Full);
                return ControlFlow::Break(());
            }
            let value = &version.value;
            let needs_bytes = prepared.is_of_value() && prepared.decided_by_checksum(value).is_none();
            let mut bytes = None;
            if needs_bytes && is_evaluated {
                bytes = self.value_bytes(value);
                if bytes.is_none() {
                    interruption = Some(Interruption::LacksValue);
                    return ControlFlow::Break(());
                }
                visits += (u64::from(value.len) / BYTES_PER_KEY) as usize;
            }
            visits += 1;
            begun.any = true;
            if needs_bytes {
                *needed_bytes += u64::from(value.len);
                if *needed_bytes > MAX_COMPARED_BYTES {
                    interruption = Some(Interruption::Refused);
                    return ControlFlow::Break(());
                }
            }
            if is_evaluated {
                let bytes = |_: &ValueRef| Ok::<_, Infallible>(bytes.unwrap_or_default());
                let Ok(holds) = prepared.holds_for(version, bytes);
                level.holds &= holds;
                is_evaluated = holds;
            }
            // What a compare of values needs is counted to its end.
            if is_evaluated || prepared.is_of_value() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if interruption.is_none() && is_evaluated && !begun.any {
            level.holds = prepared.holds_for_none();
        }
        begun.resume = stopped;
        self.spend_visits(free_visits, visits.max(1));
        interruption
    }

    /// How many keys and operations the first two passes of a transaction may still visit in this slice.
    pub(super) fn left_visits(&self, free_visits: usize) -> usize {
        self.left.saturating_add(free_visits)
    }

    /// Takes what the first two passes of a transaction visited off what is free, then off what the slice may still do.
    pub(super) fn spend_visits(&mut self, free_visits: &mut usize, visits: usize) {
        let from_free = visits.min(*free_visits);
        *free_visits -= from_free;
        self.spend(visits - from_free);
    }

    /// The bytes of a value, if they are in memory: in this batch's payload, read ahead, or in the tail.
    fn value_bytes(&self, value: &ValueRef) -> Option<Bytes> {
        if let Some(offset) = payload_offset(self.ctx, value) {
            return Some(self.ctx.payload.slice(offset..offset + value.len as usize));
        }
        self.fetched.get(value).or_else(|| self.values.read_in_memory(value))
    }
}
