//! Where records go, what they say, and when they count as durable.

use std::io;
use std::time::Duration;

use crate::disk::{Fault, Operation};
use crate::entry_index::EntryIndex;
use crate::error::Fatal;
use crate::format::{HEAD_BYTES, HEADER_BYTES, RecordHead, SegmentOpening, salt, span};
use crate::segments::{PreallocatedSegments, RecordSizes, SegmentChain};
use crate::testing::{Parts, SEGMENT_BYTES};
use crate::types::{Entry, HardState, LogId, address_at, offset_of};
use crate::write::{Append, Completed, WriteJob, WritePlanner};

/// End of an opening record, where the log ends at first.
const OPENED: u64 = HEADER_BYTES + span(SegmentOpening::BYTES);
/// Payload of the largest entry that a segment of the usual length holds: 45 bytes precede it in its record, and 64
/// bytes at the end of the segment are left.
const FULL_BYTES: usize = (SEGMENT_BYTES - OPENED - 45 - 64) as usize;

struct Bench {
    parts: Parts,
    planner: WritePlanner,
    index: EntryIndex,
    chain: SegmentChain,
    preallocated: PreallocatedSegments,
}

impl Bench {
    /// A log of one segment without entries, which was just opened.
    fn new() -> Bench {
        let parts = Parts::new().expect("an empty disk");
        let chain = parts.segments(1, OPENED).expect("the disk has room");
        let start = address_at(1, OPENED);
        let planner = WritePlanner::new(parts.shared.clone(), salt(0x1f), HardState::default(), start);
        let (index, preallocated) = (EntryIndex::new(LogId::default()), parts.preallocated(1));
        Bench { parts, planner, index, chain, preallocated }
    }

    /// Plans entries from an index on, with payloads of these lengths.
    fn append(&mut self, first: u64, lengths: &[usize]) -> Append {
        let entry = |(index, length): (u64, &usize)| Entry {
            term: 1,
            index,
            kind: 0,
            payload: vec![index as u8; *length].into(),
        };
        self.plan(None, (first..).zip(lengths).map(entry).collect())
    }

    fn make_room(&mut self, sizes: &RecordSizes) {
        let Bench { planner, chain, preallocated, .. } = self;
        let newest = chain.newest_number();
        while !preallocated.make_room(sizes, None, planner.active_room(), newest) {
            let job = preallocated.next_job().expect("one is missing");
            preallocated.prepared(job.run(), newest).expect("the disk has room");
        }
    }

    fn plan(&mut self, hard_state: Option<HardState>, entries: Vec<Entry>) -> Append {
        let mut sizes = RecordSizes::default();
        hard_state.iter().for_each(|_| sizes.add_hard_state());
        entries.iter().for_each(|entry| sizes.add_entry(entry.payload.len() as u64));
        self.make_room(&sizes);
        let Bench { planner, index, chain, preallocated, .. } = self;
        let append = planner.append(hard_state, entries, index, chain, preallocated);
        self.planner.check(self.chain.newest_number());
        append
    }

    fn run(&mut self, jobs: Vec<WriteJob>) -> Result<Completed, Fatal> {
        self.planner.complete(WriteJob::run_all(jobs, &|| Duration::ZERO))
    }

    fn segments(&self) -> Vec<u32> {
        self.chain.iter().map(|segment| segment.number).collect()
    }
}

/// The file, offset and length of each part of a job.
fn parts(job: &WriteJob) -> Vec<(u32, u64, u64)> {
    let bytes = |buffers: &[bytes::Bytes]| buffers.iter().map(|buffer| buffer.len() as u64).sum();
    job.parts.iter().map(|part| (part.file.number, part.offset, bytes(&part.buffers))).collect()
}

/// The opening record of the last part of a job.
fn opening(job: &WriteJob) -> Option<SegmentOpening> {
    let record = job.parts.last()?.buffers.first()?;
    SegmentOpening::decode(&record[HEAD_BYTES as usize..(HEAD_BYTES + SegmentOpening::BYTES) as usize])
}

/// What the first record of the last part of a job says is durable.
fn synced(job: &WriteJob) -> Option<u64> {
    let part = job.parts.last()?;
    RecordHead::decode(part.buffers.first()?, part.file.number, salt(0x1f)).ok().map(|head| head.synced)
}

#[test]
fn a_plan_is_true_in_memory_at_once_and_durable_when_its_job_is_complete() {
    let mut bench = Bench::new();
    let before = bench.planner.durable();
    let append = bench.append(1, &[3, 5]);
    let payload = |address| bench.parts.shared.tail.read().value(address, 3);
    assert_eq!(append.addresses, [address_at(2, OPENED + 45), address_at(2, OPENED + 48 + 45)]);
    assert_eq!(bench.index.address(1), Some((append.addresses[0], 3)));
    assert_eq!(payload(append.addresses[0]).as_deref(), Some(&[1; 3][..]));
    assert_eq!((bench.planner.position(), bench.planner.durable()), (append.position, before));
    let position = append.position;
    assert_eq!(bench.run(vec![append.job]).expect("the disk works"), Completed { position });
    assert_eq!(bench.planner.durable(), position);
}

#[test]
fn a_segment_is_filled_up_to_the_room_for_a_seal() {
    for (beyond, segments) in [(0, &[1, 2][..]), (1, &[1, 2, 3])] {
        let mut bench = Bench::new();
        let first = bench.append(1, &[3_000]);
        let room = SEGMENT_BYTES - 64 - u64::from(offset_of(first.position));
        let job = bench.append(2, &[room as usize - 45 + beyond]).job;
        assert_eq!(job.parts.len(), 1, "the first segment gets no part of the second entry");
        assert_eq!(bench.segments(), segments, "{beyond} bytes beyond the room of {room}");
    }
}

#[test]
fn an_append_over_two_segments_has_two_parts_and_the_opening_says_what_came_before() {
    let mut bench = Bench::new();
    let hard_state = HardState { term: 1, vote: 7, commit: 0 };
    let first = bench.plan(Some(hard_state), Vec::new());
    let append = bench.append(1, &[3_000, FULL_BYTES]);
    let ends = [3_048, SEGMENT_BYTES - HEADER_BYTES - 64];
    let offset = u64::from(offset_of(first.position));
    assert_eq!(parts(&append.job), [(2, offset, ends[0]), (3, HEADER_BYTES, ends[1])]);
    let expected = SegmentOpening {
        first_index: 2,
        previous_index: 1,
        previous_term: 1,
        previous_end: first.position + ends[0],
        hard_state,
    };
    assert_eq!(opening(&append.job), Some(expected));
    assert_eq!(bench.planner.hard_state(), hard_state);
    assert_eq!(bench.chain.newest().map(|segment| segment.previous_index), Some(1));
}

#[test]
fn an_entry_beyond_a_segment_has_a_longer_file() {
    let mut bench = Bench::new();
    let append = bench.append(1, &[FULL_BYTES + 1]);
    let part = &append.job.parts[0];
    assert_eq!(part.capacity, SEGMENT_BYTES + 8);
    let file = part.file.clone();
    bench.run(vec![append.job]).expect("the disk works");
    let handle = bench.parts.shared.files.open(&file).expect("it exists");
    assert_eq!(handle.length().expect("a length"), SEGMENT_BYTES + 8);
    assert_eq!(bench.append(2, &[FULL_BYTES]).job.parts[0].capacity, SEGMENT_BYTES);
}

#[test]
fn a_seal_is_due_until_a_record_proves_the_last_ones_durable() {
    let mut bench = Bench::new();
    assert!(!bench.planner.is_seal_due());
    assert!(bench.planner.seal().is_none(), "nothing was appended");
    let append = bench.append(1, &[FULL_BYTES]);
    assert!(!bench.planner.is_seal_due(), "the log is not idle");
    bench.run(vec![append.job]).expect("the disk works");
    assert!(bench.planner.is_seal_due());
    let seal = bench.planner.seal().expect("there is an active segment");
    bench.planner.check(bench.chain.newest_number());
    assert_eq!(parts(&seal), [(2, SEGMENT_BYTES - 64, 32)], "a full segment has room for it");
    bench.run(vec![seal]).expect("the disk works");
    assert!(!bench.planner.is_seal_due(), "a seal needs no seal");
    let append = bench.append(2, &[1]);
    bench.run(vec![append.job]).expect("the disk works");
    assert!(bench.planner.is_seal_due());
}

#[test]
fn a_record_says_what_was_durable_when_it_was_planned() {
    let mut bench = Bench::new();
    let start = bench.planner.durable();
    let [one, two] = [1, 2].map(|index| bench.append(index, &[9]));
    assert_eq!([&one, &two].map(|append| synced(&append.job)), [Some(start); 2]);
    bench.run(vec![one.job]).expect("the disk works");
    assert_eq!(synced(&bench.append(3, &[9]).job), Some(one.position));
}

#[test]
fn the_next_segment_is_one_that_is_ready_and_carries_the_hard_state() {
    let mut bench = Bench::new();
    let job = bench.preallocated.next_job().expect("one is wanted");
    bench.preallocated.prepared(job.run(), Some(1)).expect("the disk has room");
    let Bench { planner, index, chain, preallocated, .. } = &mut bench;
    let hard_state = HardState { commit: 1, ..HardState::default() };
    let append = planner.begin_segment(hard_state, index.last(), chain, preallocated);
    assert_eq!(opening(&append.job).map(|opening| opening.hard_state), Some(hard_state));
    assert_eq!(bench.segments(), [1, 2]);
    assert_eq!(bench.planner.active_number(), Some(2));
}

#[test]
#[should_panic(expected = "the next segment is ready")]
fn nothing_is_planned_without_room() {
    let mut bench = Bench::new();
    let Bench { planner, index, chain, preallocated, .. } = &mut bench;
    let _ = planner.begin_segment(HardState::default(), index.last(), chain, preallocated);
}

#[test]
fn entries_replace_those_from_their_index_on() {
    let mut bench = Bench::new();
    let before = bench.append(1, &[9, 9, 9]);
    let replacement = Entry { term: 2, index: 2, kind: 0, payload: "new".into() };
    let append = bench.plan(None, vec![replacement]);
    assert_eq!(bench.index.last(), LogId { index: 2, term: 2 });
    assert_eq!(bench.index.address(2), Some((append.addresses[0], 3)));
    assert!(append.addresses[0] > before.addresses[2], "nothing is overwritten");
}

#[test]
#[should_panic(expected = "a hole before entry 3")]
fn entries_have_no_holes() {
    let mut bench = Bench::new();
    let _ = bench.append(1, &[9]);
    let _ = bench.append(3, &[9]);
}

#[test]
#[should_panic(expected = "are not complete")]
fn writes_complete_in_order() {
    let mut bench = Bench::new();
    let first = bench.append(1, &[9]);
    bench.run(vec![first.job]).expect("the disk works");
    let _ = bench.append(2, &[9]);
    let third = bench.append(3, &[9]);
    let _ = bench.run(vec![third.job]);
}

#[test]
#[should_panic(expected = "nothing is written after a failed write")]
fn a_failed_write_ends_planning() {
    let mut bench = Bench::new();
    let append = bench.append(1, &[9]);
    bench.parts.disk.inject(Fault { operation: Operation::Sync, after: 0, kind: io::ErrorKind::Other });
    let before = bench.planner.durable();
    assert!(bench.run(vec![append.job]).is_err());
    assert_eq!(bench.planner.durable(), before);
    let _ = bench.append(2, &[9]);
}
