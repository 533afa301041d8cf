//! Planning writes: entries and hard states become records at places; nothing is written here.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::files::ValueFile;
use crate::header::HEADER_BYTES;
use crate::log::{Active, Log, Segment};
use crate::record::{
    self, ENTRY_HEAD_BYTES, HARD_STATE_BYTES, HEAD_BYTES, Head, Kind, Opening, PAYLOAD_OFFSET,
};
use crate::types::{Entry, HardState, LogId, MAX_PAYLOAD_BYTES, address_at};
use crate::writer::{Creation, Part, WriteJob};

static PADDING: [u8; record::ALIGNMENT as usize] = [0; record::ALIGNMENT as usize];
/// Room kept at the end of a segment, so that a seal never needs another one, and never reaches the end of the file.
const SEAL_ROOM_BYTES: u64 = record::span(0) + record::END_BYTES;

/// A planned append.
pub struct Append {
    /// To be run on the log thread, in order.
    pub job: WriteJob,
    /// Where the payload of each entry will lie. Reads of it are answered from memory until it is durable.
    pub addresses: Vec<u64>,
    /// Log position after these records; durable once [`crate::Completed::position`] has reached it.
    pub position: u64,
}

/// Parts under construction.
struct Plan {
    parts: Vec<Part>,
    scratch: BytesMut,
}

impl Log {
    /// Plans a new hard state and entries. The entries must be without holes and begin right after the last
    /// entry or before it: then the entries from there on are replaced. What truncation or an install settled
    /// cannot be replaced.
    pub fn append(&mut self, hard_state: Option<HardState>, entries: Vec<Entry>) -> Append {
        let mut plan = Plan::new(entries.len());
        if let Some(first) = entries.first() {
            assert!(first.index > self.index.base().index, "entry {} is settled", first.index);
            assert!(first.index <= self.index.last().index + 1, "a hole before entry {}", first.index);
            self.index.cut_above(first.index - 1);
        }
        if let Some(state) = hard_state {
            self.hard_state = state;
            let offset = self.room(&mut plan, record::span(HARD_STATE_BYTES));
            self.write_record(&mut plan, offset, Kind::HardState, &record::encode_hard_state(&state));
        }
        let mut addresses = Vec::with_capacity(entries.len());
        for entry in &entries {
            let address = self.write_entry(&mut plan, entry);
            self.index.push(
                LogId { index: entry.index, term: entry.term },
                address,
                u32::try_from(entry.payload.len()).expect("payloads are limited"),
            );
            addresses.push(address);
        }
        let mut tail = self.shelf.tail.write();
        for (address, entry) in addresses.iter().zip(entries) {
            tail.push(*address, entry);
        }
        tail.shrink(self.durable);
        drop(tail);
        self.content_end = self.position;
        self.hand_out(plan, addresses)
    }

    /// Whether the log is idle and its last records are not yet known durable by a later one. Seal it within
    /// [`crate::SEAL_AFTER`]: then damage in these records cannot be taken for a torn write.
    pub fn seal_due(&self) -> bool {
        self.position == self.durable && self.content_end > self.stamped
    }

    /// Plans a seal, if one is due.
    pub fn seal(&mut self) -> Option<WriteJob> {
        if !self.seal_due() {
            return None;
        }
        let mut plan = Plan::new(0);
        let offset = self.active.as_ref()?.offset;
        self.write_record(&mut plan, offset, Kind::Seal, &[]);
        Some(self.hand_out(plan, Vec::new()).job)
    }

    /// Ends the active segment early, so that what is in it can be relocated or freed; nothing happens if no entry is
    /// in it. Costs a segment, so for those who ask for space, not for every day. It takes one that is prepared and
    /// leaves the reserve whole: otherwise nothing happens either, see [`Log::can_roll_over`].
    pub fn roll_over(&mut self) -> Option<Append> {
        let last = self.segments.back()?;
        let is_used = self.active.is_some() && last.previous_index < self.index.last().index;
        (is_used && self.can_roll_over()).then(|| self.begin_segment(self.hard_state))
    }

    /// Whether the next segment and the whole reserve are prepared. While [`Log::space`] says `Ok`, they soon are.
    pub fn can_roll_over(&self) -> bool {
        self.spares.is_complete(self.newest_segment())
    }

    /// Begins a new segment, so that the one before can be freed or moved; it carries the hard state.
    pub(crate) fn begin_segment(&mut self, state: HardState) -> Append {
        let mut plan = Plan::new(0);
        self.hard_state = state;
        self.roll(&mut plan, 0);
        self.content_end = self.position;
        self.hand_out(plan, Vec::new())
    }

    fn hand_out(&self, plan: Plan, addresses: Vec<u64>) -> Append {
        assert!(!self.failed, "nothing is written after a failed write");
        let job = WriteJob { shelf: self.shelf.clone(), parts: plan.parts, end: self.position };
        Append { job, addresses, position: self.position }
    }

    /// Where a record of this span goes: in the active segment, or in a new one.
    fn room(&mut self, plan: &mut Plan, span: u64) -> u64 {
        let fits = self
            .active
            .as_ref()
            .is_some_and(|active| active.offset + span + SEAL_ROOM_BYTES <= active.capacity);
        if !fits {
            self.roll(plan, span);
        }
        self.active.as_ref().expect("there is an active segment").offset
    }

    /// Makes the next segment the active one and opens it.
    fn roll(&mut self, plan: &mut Plan, span: u64) {
        let opening_span = record::span(Opening::BYTES);
        let needed = HEADER_BYTES + opening_span + span + SEAL_ROOM_BYTES;
        let segment_bytes = self.workshop.segment_bytes;
        let (file, create) = match self.spares.take(self.newest_segment()) {
            Some(file) => (file, None),
            None => {
                let number = self.numbers.next();
                let path = self.workshop.layout.segment(number);
                // An old file needs no new blocks: on a full disk it may be all there is.
                let creation = Creation { workshop: self.workshop.clone(), old: self.spares.take_old() };
                (Arc::new(ValueFile::new(number, Some(path))), Some(creation))
            }
        };
        self.shelf.files.add(file.clone());
        let last = self.index.last();
        let opening = Opening {
            first_index: last.index + 1,
            previous_index: last.index,
            previous_term: last.term,
            previous_end: self.position,
            hard_state: self.hard_state,
        };
        if let Some(sealed) = self.active.take() {
            self.shelf.files.note_opened(sealed.file.number);
        }
        self.segments.push_back(Segment {
            number: file.number,
            previous_index: last.index,
            opened_at: address_at(file.number, HEADER_BYTES + opening_span),
        });
        plan.parts.push(Part {
            file: file.clone(),
            create,
            grow_to: (needed > segment_bytes).then_some(needed),
            capacity: needed.max(segment_bytes),
            offset: HEADER_BYTES,
            buffers: Vec::new(),
        });
        self.active = Some(Active { file, offset: HEADER_BYTES, capacity: needed.max(segment_bytes) });
        self.write_record(plan, HEADER_BYTES, Kind::Opening, &opening.encode());
    }

    fn write_record(&mut self, plan: &mut Plan, offset: u64, kind: Kind, body: &[u8]) {
        let head = self.head(kind, body.len() as u64, crc32c::crc32c(body));
        head.encode(self.salt, &mut plan.scratch);
        plan.scratch.put_slice(body);
        plan.scratch.put_bytes(0, (head.span() - HEAD_BYTES - body.len() as u64) as usize);
        let bytes = plan.scratch.split().freeze();
        self.advance(plan, offset, head, [bytes]);
    }

    /// Plans an entry's record and returns the place of its payload.
    fn write_entry(&mut self, plan: &mut Plan, entry: &Entry) -> u64 {
        let payload = entry.payload.len() as u64;
        assert!(payload <= MAX_PAYLOAD_BYTES, "the payload of entry {} has {payload} bytes", entry.index);
        let span = record::entry_span(payload);
        let offset = self.room(plan, span);
        let head = self.head(Kind::Entry, ENTRY_HEAD_BYTES + payload, entry.checksum());
        head.encode(self.salt, &mut plan.scratch);
        plan.scratch.put_slice(&record::entry_head(entry.term, entry.index, entry.kind));
        let start = plan.scratch.split().freeze();
        let padding = (span - PAYLOAD_OFFSET - payload) as usize;
        let buffers = [start, entry.payload.clone(), Bytes::from_static(&PADDING[..padding])];
        let address = address_at(head.segment, offset + PAYLOAD_OFFSET);
        self.advance(plan, offset, head, buffers);
        address
    }

    fn head(&self, kind: Kind, length: u64, checksum: u32) -> Head {
        let segment = self.active.as_ref().expect("there is an active segment").file.number;
        let length = u32::try_from(length).expect("payloads are limited");
        Head { segment, length, kind, synced: self.durable, checksum }
    }

    /// Puts a record's buffers into the plan and moves the end of the log behind it.
    fn advance<const N: usize>(&mut self, plan: &mut Plan, offset: u64, head: Head, buffers: [Bytes; N]) {
        let active = self.active.as_mut().expect("there is an active segment");
        assert!(active.offset == offset, "records are planned one after the other");
        if plan.parts.last().is_none_or(|part| part.file.number != active.file.number) {
            let (file, capacity) = (active.file.clone(), active.capacity);
            plan.parts.push(Part {
                file,
                create: None,
                grow_to: None,
                capacity,
                offset,
                buffers: Vec::new(),
            });
        }
        let part = plan.parts.last_mut().expect("there is a part");
        part.buffers.extend(buffers.into_iter().filter(|buffer| !buffer.is_empty()));
        active.offset += head.span();
        self.shelf.files.set_recorded(&active.file, active.offset);
        self.position = address_at(active.file.number, active.offset);
        self.stamped = head.synced;
    }
}

impl Plan {
    fn new(entries: usize) -> Plan {
        let heads = (entries + 2) * (PAYLOAD_OFFSET + Opening::BYTES) as usize;
        Plan { parts: Vec::new(), scratch: BytesMut::with_capacity(heads) }
    }
}
