//! Plans writes: entries and hard states become records at log addresses. Nothing is written here.
//!
//! The planner only appends to the *active* segment. A record that does not fit begins the next segment, whose opening
//! record carries the hard state. The owner has made sure that it is ready ([`crate::Log::make_room`]), so no write
//! waits for a file to be made, or fails because the disk is full:
//!
//! ```text
//!   append(entries 7, 8)      active segment 2b has room for entry 7 only
//!
//!   2b  ... | entry 6 | entry 7 | room for a seal        part 1 of the job
//!   2c  header | opening (previous: 7, hard state) | entry 8     part 2 of the job
//!
//!   position = (2c, end of entry 8)      durable does not move until the job is complete
//! ```
//!
//! What is planned is true in memory at once: the index and the tail have the entries. `durable` follows when
//! [`WritePlanner::complete`] receives the result. Always `durable <= position`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::job::{WriteDone, WriteJob, WritePart};
use crate::entry_index::EntryIndex;
use crate::error::Fatal;
use crate::format::{
    ALIGNMENT, END_BYTES, HARD_STATE_BYTES, HEAD_BYTES, HEADER_BYTES, PAYLOAD_OFFSET, RecordHead, RecordKind,
    SegmentOpening, encode_hard_state, entry_span, span,
};
use crate::read::{SharedFiles, ValueFile};
use crate::segments::{
    LogSegment, PreallocatedSegments, ReadySegment, SEAL_ROOM_BYTES, SEGMENT_OVERHEAD_BYTES, SegmentChain,
};
use crate::types::{
    ENTRY_HEAD_BYTES, Entry, HardState, LogId, MAX_PAYLOAD_BYTES, address_at, entry_head, file_of, offset_of,
};

/// An idle log is sealed within this time.
pub const SEAL_AFTER: Duration = Duration::from_millis(10);

static PADDING: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];

/// A planned append.
pub struct Append {
    /// To be run by the flusher, in order.
    pub job: WriteJob,
    /// Log address of the payload of each entry. Reads of it are answered from memory until it is durable.
    pub addresses: Vec<u64>,
    /// Log position after these records; durable once [`crate::Completed::position`] has reached it.
    pub position: u64,
}

/// What is durable now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// Every append up to this position.
    pub position: u64,
}

/// The end of the log: the segment being written and the positions in it.
pub(crate) struct WritePlanner {
    shared: Arc<SharedFiles>,
    /// Salt of all record checksums.
    salt: u32,
    /// The newest hard state, durable or planned.
    hard_state: HardState,
    /// None until the first append after the log was opened.
    active: Option<ActiveSegment>,
    /// End of what is planned.
    position: u64,
    /// End of what is known durable.
    durable: u64,
    /// The `synced` field of the newest record: the position that it says was durable when it was planned.
    stamped: u64,
    /// End of the last record that is not a seal.
    content_end: u64,
    /// A write failed; nothing may be planned any more.
    has_failed: bool,
}

/// The segment being written.
struct ActiveSegment {
    file: Arc<ValueFile>,
    /// Where the next record goes.
    offset: u64,
    /// Length of the file.
    capacity: u64,
}

/// A write under construction.
struct PlannedWrite {
    /// Log position before it.
    start: u64,
    parts: Vec<WritePart>,
    scratch: BytesMut,
}

/// The hard state to be recorded before entries that replace those from `replaced_from` on. Until the new entries are
/// written the old ones are in the file, and must not count as committed; the next hard state says what is.
fn before_replacement(state: HardState, replaced_from: Option<u64>) -> HardState {
    let commit = replaced_from.map_or(state.commit, |first| state.commit.min(first - 1));
    HardState { commit, ..state }
}

impl WritePlanner {
    /// A planner that continues after `end`, in a new segment.
    pub(crate) fn new(shared: Arc<SharedFiles>, salt: u32, hard_state: HardState, end: u64) -> WritePlanner {
        WritePlanner {
            shared,
            salt,
            hard_state,
            active: None,
            position: end,
            durable: end,
            stamped: end,
            content_end: end,
            has_failed: false,
        }
    }

    pub(crate) fn salt(&self) -> u32 {
        self.salt
    }

    pub(crate) fn hard_state(&self) -> HardState {
        self.hard_state
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Number of the segment being written.
    pub(crate) fn active_number(&self) -> Option<u32> {
        self.active.as_ref().map(|active| active.file.number)
    }

    /// Bytes that records can still have in the active segment.
    pub(crate) fn active_room(&self) -> u64 {
        let room = |active: &ActiveSegment| active.capacity.saturating_sub(active.offset + SEAL_ROOM_BYTES);
        self.active.as_ref().map_or(0, room)
    }

    /// Plans a new hard state and entries; see [`crate::Log::append`].
    pub(crate) fn append(
        &mut self,
        hard_state: Option<HardState>,
        entries: Vec<Entry>,
        index: &mut EntryIndex,
        chain: &mut SegmentChain,
        preallocated: &mut PreallocatedSegments,
    ) -> Append {
        let mut plan = PlannedWrite::new(self.position, entries.len());
        let mut replaced_from = None;
        if let Some(first) = entries.first() {
            assert!(first.index > index.base().index, "entry {} is truncated or in a snapshot", first.index);
            assert!(first.index <= index.last().index + 1, "a hole before entry {}", first.index);
            replaced_from = (first.index <= index.last().index).then_some(first.index);
            index.cut_above(first.index - 1);
        }
        if let Some(state) = hard_state {
            self.hard_state = state;
            let offset = self.room(&mut plan, span(HARD_STATE_BYTES), index.last(), chain, preallocated);
            let recorded = before_replacement(state, replaced_from);
            self.write_record(&mut plan, offset, RecordKind::HardState, &encode_hard_state(&recorded));
        }
        let mut addresses = Vec::with_capacity(entries.len());
        for entry in &entries {
            let payload = entry.payload.len() as u64;
            assert!(payload <= MAX_PAYLOAD_BYTES, "the payload of entry {} has {payload} bytes", entry.index);
            let offset = self.room(&mut plan, entry_span(payload), index.last(), chain, preallocated);
            let address = self.write_entry(&mut plan, offset, entry);
            index.push(LogId { index: entry.index, term: entry.term }, address, payload as u32);
            addresses.push(address);
        }
        let mut tail = self.shared.tail.write();
        for (address, entry) in addresses.iter().zip(entries) {
            tail.push(*address, entry);
        }
        tail.shrink(self.durable);
        drop(tail);
        self.content_end = self.position;
        self.finish(plan, addresses)
    }

    /// Takes the result of write jobs, in the order of the jobs.
    pub(crate) fn complete(&mut self, done: WriteDone) -> Result<Completed, Fatal> {
        if let Err(fatal) = done.result {
            self.has_failed = true;
            return Err(fatal);
        }
        assert!(done.start <= self.durable, "the writes before {:016x} are not complete", done.start);
        assert!(done.end <= self.position, "only planned records can be written");
        self.durable = self.durable.max(done.end);
        self.shared.tail.write().shrink(self.durable);
        Ok(Completed { position: self.durable })
    }

    /// See [`Tail::release`](crate::read::Tail::release).
    pub(crate) fn release_tail(&self, max_bytes: u64) {
        self.shared.tail.write().release(max_bytes, self.durable);
    }

    /// Whether the log is idle and its last records are not yet proved durable by a later one.
    pub(crate) fn is_seal_due(&self) -> bool {
        self.position == self.durable && self.content_end > self.stamped
    }

    /// Plans a seal, which must be due. `None` if nothing was appended since the log was opened.
    pub(crate) fn seal(&mut self) -> Option<WriteJob> {
        let offset = self.active.as_ref()?.offset;
        let mut plan = PlannedWrite::new(self.position, 0);
        self.write_record(&mut plan, offset, RecordKind::Seal, &[]);
        Some(self.finish(plan, Vec::new()).job)
    }

    /// Begins a new segment with this hard state, so that the one before can be freed or moved. `last` is the last
    /// entry.
    pub(crate) fn begin_segment(
        &mut self,
        hard_state: HardState,
        last: LogId,
        chain: &mut SegmentChain,
        preallocated: &mut PreallocatedSegments,
    ) -> Append {
        let mut plan = PlannedWrite::new(self.position, 0);
        self.hard_state = hard_state;
        self.roll(&mut plan, 0, last, chain, preallocated);
        self.content_end = self.position;
        self.finish(plan, Vec::new())
    }

    fn finish(&self, plan: PlannedWrite, addresses: Vec<u64>) -> Append {
        assert!(!self.has_failed, "nothing is written after a failed write");
        assert!(plan.start <= self.position, "positions ascend");
        let PlannedWrite { start, parts, .. } = plan;
        let job = WriteJob { shared: self.shared.clone(), parts, start, end: self.position };
        Append { job, addresses, position: self.position }
    }

    /// Offset for a record of this span: in the active segment, or in a new one if it does not fit.
    fn room(
        &mut self,
        plan: &mut PlannedWrite,
        span: u64,
        last: LogId,
        chain: &mut SegmentChain,
        preallocated: &mut PreallocatedSegments,
    ) -> u64 {
        match &self.active {
            Some(active) if active.offset + span + SEAL_ROOM_BYTES <= active.capacity => active.offset,
            _ => self.roll(plan, span, last, chain, preallocated),
        }
    }

    /// Makes the next segment the active one, plans its opening, and returns the offset of the next record, which has
    /// this span. `last` is the last entry before it.
    fn roll(
        &mut self,
        plan: &mut PlannedWrite,
        next_span: u64,
        last: LogId,
        chain: &mut SegmentChain,
        preallocated: &mut PreallocatedSegments,
    ) -> u64 {
        let opening_span = span(SegmentOpening::BYTES);
        let next = preallocated.take(chain.newest_number(), SEGMENT_OVERHEAD_BYTES + next_span);
        // The owner asked for room before it planned this, and segments that are ready stay ready.
        let ReadySegment { file, bytes: capacity } = next.expect("the next segment is ready");
        self.shared.files.add(file.clone());
        let opening = SegmentOpening {
            first_index: last.index + 1,
            previous_index: last.index,
            previous_term: last.term,
            previous_end: self.position,
            hard_state: self.hard_state,
        };
        if let Some(full) = self.active.take() {
            self.shared.files.note_opened(&full.file);
        }
        chain.push(LogSegment {
            number: file.number,
            previous_index: last.index,
            opened_at: address_at(file.number, HEADER_BYTES + opening_span),
        });
        plan.parts.push(WritePart::new(file.clone(), capacity, HEADER_BYTES));
        self.active = Some(ActiveSegment { file, offset: HEADER_BYTES, capacity });
        self.write_record(plan, HEADER_BYTES, RecordKind::Opening, &opening.encode());
        HEADER_BYTES + opening_span
    }

    /// Plans a record without a payload of its own.
    fn write_record(&mut self, plan: &mut PlannedWrite, offset: u64, kind: RecordKind, body: &[u8]) {
        let head = self.head(kind, body.len() as u32, crc32c::crc32c(body));
        head.encode(self.salt, &mut plan.scratch);
        plan.scratch.put_slice(body);
        plan.scratch.put_bytes(0, (head.span() - HEAD_BYTES - body.len() as u64) as usize);
        let bytes = plan.scratch.split().freeze();
        self.advance(plan, offset, head, [bytes]);
    }

    /// Plans the record of an entry and returns the address of its payload, which is not copied.
    fn write_entry(&mut self, plan: &mut PlannedWrite, offset: u64, entry: &Entry) -> u64 {
        let payload = entry.payload.len() as u64;
        let head = self.head(RecordKind::Entry, (ENTRY_HEAD_BYTES + payload) as u32, entry.checksum());
        head.encode(self.salt, &mut plan.scratch);
        plan.scratch.put_slice(&entry_head(entry.term, entry.index, entry.kind));
        let start = plan.scratch.split().freeze();
        let padding = (head.span() - PAYLOAD_OFFSET - payload) as usize;
        let buffers = [start, entry.payload.clone(), Bytes::from_static(&PADDING[..padding])];
        let address = address_at(head.segment, offset + PAYLOAD_OFFSET);
        self.advance(plan, offset, head, buffers);
        address
    }

    fn head(&self, kind: RecordKind, length: u32, checksum: u32) -> RecordHead {
        let segment = self.active_number().expect("there is an active segment");
        RecordHead { segment, length, kind, synced: self.durable, checksum }
    }

    /// Adds the buffers of a record to the plan and moves the end of the log after it.
    fn advance<const N: usize>(
        &mut self,
        plan: &mut PlannedWrite,
        offset: u64,
        head: RecordHead,
        buffers: [Bytes; N],
    ) {
        let active = self.active.as_mut().expect("there is an active segment");
        assert!(active.offset == offset, "records are planned one after the other");
        assert!(offset + head.span() + END_BYTES <= active.capacity, "a record ends before its segment");
        if plan.parts.last().is_none_or(|part| part.file.number != active.file.number) {
            plan.parts.push(WritePart::new(active.file.clone(), active.capacity, offset));
        }
        let part = plan.parts.last_mut().expect("the last part is of this file"); // pushed above if it was not
        part.buffers.extend(buffers.into_iter().filter(|buffer| !buffer.is_empty()));
        active.offset += head.span();
        self.shared.files.set_recorded(&active.file, active.offset);
        self.position = address_at(active.file.number, active.offset);
        self.stamped = head.synced;
    }

    /// Cheap invariants.
    pub(crate) fn check(&self, newest_segment: Option<u32>) {
        assert!(self.durable <= self.position, "only planned records are durable");
        assert!(self.stamped <= self.durable, "no record claims more than what is durable");
        assert!(self.content_end <= self.position, "the last record is planned");
        assert!(newest_segment == Some(file_of(self.position)), "the log ends in its newest segment");
        if let Some(active) = &self.active {
            assert!(active.file.number == file_of(self.position), "the log ends in the active segment");
            assert!(active.offset == u64::from(offset_of(self.position)), "at the next record's offset");
            assert!(active.offset + END_BYTES <= active.capacity, "and before the end of the file");
        }
    }
}

impl PlannedWrite {
    fn new(start: u64, entries: usize) -> PlannedWrite {
        let heads = (entries + 2) * (PAYLOAD_OFFSET + SegmentOpening::BYTES) as usize;
        PlannedWrite { start, parts: Vec::new(), scratch: BytesMut::with_capacity(heads) }
    }
}
