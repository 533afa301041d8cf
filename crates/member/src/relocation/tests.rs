//! Which files are emptied, freed and given up, and what eager relocation waits for.
use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;

use super::eager::{CATCH_UP_NS, Settling};
use super::*;
use crate::jobs::Done;
use crate::proposals::batch::CommandKind;
use crate::tests::LogAndStore;

/// A state whose first file holds so many of the 40 values that were written into it, and that file.
fn shrunk_to(live: usize) -> (LogAndStore, u32) {
    let mut state = LogAndStore::new(&[1, 2, 3]);
    (0..40).for_each(|number| state.put(&format!("key{number:02}"), vec![number; 1_000]));
    let file = log::file_of(state.reference("key00").value.address);
    state.end_segment();
    (live..40).for_each(|number| state.put(&format!("key{number:02}"), ""));
    state.drop_history();
    state.checkpoint();
    (state, file)
}

/// Relocates until no file is worth it. Returns the notices, and the keys and addresses of damaged values.
fn relocate(relocator: &mut Relocator, state: &mut LogAndStore) -> (Vec<Notice>, Vec<(Bytes, u64)>) {
    let (mut out, mut damaged) = (Output::default(), Vec::new());
    loop {
        let LogAndStore { log, store, reader, .. } = &mut *state;
        let mut context = RelocationContext { log, store, reader, out: &mut out };
        if relocator.can_begin() && !relocator.begin_files(false, &mut context) && relocator.is_idle() {
            return (out.notices, damaged);
        }
        relocator.step(0, &mut context);
        for job in std::mem::take(&mut context.out.background) {
            let Done::Relocated(copied) = job.run() else { unreachable!() };
            damaged.extend(relocator.copied(*copied, &mut context).expect("the log is intact"));
        }
    }
}

#[test]
fn live_values_leave_a_file_that_holds_little_else_and_a_checkpoint_frees_it() {
    let (mut state, file) = shrunk_to(5);
    let contents = state.contents();
    assert_eq!(relocate(&mut Relocator::default(), &mut state).0, [Notice::Relocated { file }]);
    assert_eq!((state.values_in(file), state.contents()), (0, contents));
    let copies = log::file_of(state.reference("key00").value.address);
    state.checkpoint();
    assert!(!state.has_file(file) && state.has_file(copies));
    (0..5).for_each(|number| state.put(&format!("key{number:02}"), ""));
    state.drop_history();
    state.checkpoint();
    assert!(!state.has_file(copies));
}

/// More files than one job takes: the second job copies while the references of the first are switched, and takes none
/// of its files, whose values are still found there.
#[test]
fn the_next_files_are_copied_while_references_are_switched() {
    const FILES: u32 = 80;
    let mut state = LogAndStore::new(&[1, 2, 3]);
    for file in 0..FILES {
        (0..10).for_each(|number| state.put(&format!("key{file:02}-{number}"), vec![1; 500]));
        state.end_segment();
    }
    for file in 0..FILES {
        (1..10).for_each(|number| state.put(&format!("key{file:02}-{number}"), ""));
    }
    state.drop_history();
    state.background();
    state.end_segment();
    state.checkpoint();
    let contents = state.contents();
    let files: Vec<u32> = (0..FILES)
        .map(|file| log::file_of(state.reference(&format!("key{file:02}-0")).value.address))
        .collect();
    let (mut relocator, mut out) = (Relocator::default(), Output::default());
    let LogAndStore { log, store, reader, .. } = &mut state;
    let mut context = RelocationContext { log, store, reader, out: &mut out };
    let copied = |relocator: &mut Relocator, context: &mut RelocationContext<'_>| {
        assert!(relocator.can_begin() && relocator.begin_files(false, context) && relocator.is_copying());
        let job = context.out.background.pop().expect("a job has begun");
        let Done::Relocated(copied) = job.run() else { unreachable!() };
        let count = copied.references.len();
        assert!(relocator.copied(*copied, context).expect("the log is intact").is_empty());
        count
    };
    let first = copied(&mut relocator, &mut context);
    let second = copied(&mut relocator, &mut context);
    assert_eq!(first + second, FILES as usize, "{first} and {second} values, each copied once");
    assert!(first > 0 && second > 0 && !relocator.can_begin() && !relocator.is_idle());
    while relocator.is_step_due(u64::MAX) {
        relocator.step(0, &mut context);
    }
    assert!(relocator.is_idle());
    assert_eq!(state.contents(), contents);
    assert!(files.iter().all(|file| state.values_in(*file) == 0));
    state.checkpoint();
    assert!(files.iter().all(|file| !state.has_file(*file)));
}

/// A job's result counts for that job alone.
#[test]
fn the_copies_of_a_job_from_before_an_installed_snapshot_are_not_those_of_the_next() {
    let (mut state, file) = shrunk_to(5);
    let contents = state.contents();
    let (mut relocator, mut out) = (Relocator::default(), Output::default());
    let LogAndStore { log, store, reader, .. } = &mut state;
    let mut context = RelocationContext { log, store, reader, out: &mut out };
    let begin = |relocator: &mut Relocator, context: &mut RelocationContext<'_>| {
        assert!(relocator.can_begin() && relocator.begin_files(false, context));
        let Done::Relocated(copied) = context.out.background.pop().expect("a job has begun").run() else {
            unreachable!()
        };
        copied
    };
    let late = begin(&mut relocator, &mut context);
    relocator.state_replaced(context.log);
    let next = begin(&mut relocator, &mut context);
    assert_eq!((late.references.len(), next.references.len()), (5, 5));
    assert!(relocator.copied(*late, &mut context).expect("the log is intact").is_empty());
    assert!(relocator.is_copying(), "the next one is still awaited");
    assert!(relocator.copied(*next, &mut context).expect("the log is intact").is_empty());
    while relocator.is_step_due(u64::MAX) {
        relocator.step(0, &mut context);
    }
    assert_eq!((state.values_in(file), state.contents()), (0, contents));
    state.checkpoint();
    assert!(!state.has_file(file));
}

#[test]
fn a_file_that_holds_more_is_emptied_only_eagerly() {
    let (mut state, file) = shrunk_to(20);
    let mut relocator = Relocator::default();
    assert_eq!(relocate(&mut relocator, &mut state).0, []);
    relocator.start_eager();
    assert_eq!(relocate(&mut relocator, &mut state).0, [Notice::Relocated { file }]);
}

#[test]
fn a_file_that_cannot_be_emptied_is_left_alone_until_less_of_it_is_live() {
    let (mut state, file) = shrunk_to(5);
    let mut relocator = Relocator::default();
    state.disk.set_capacity(Some(0));
    assert!(matches!(relocate(&mut relocator, &mut state).0[..], [Notice::Failure { .. }]));
    state.disk.set_capacity(None);
    assert_eq!(relocate(&mut relocator, &mut state).0, []);
    state.put("key00", "");
    state.drop_history();
    assert_eq!(relocate(&mut relocator, &mut state).0, [Notice::Relocated { file }]);
}

#[test]
fn a_damaged_value_is_reported_and_stays_while_the_others_leave() {
    let (mut state, file) = shrunk_to(5);
    let address = state.reference("key02").value.address;
    state.damage(address);
    let (_, damaged) = relocate(&mut Relocator::default(), &mut state);
    assert_eq!(damaged, [(Bytes::from_static(b"key02"), address)]);
    assert_eq!(state.values_in(file), 1);
}

#[test]
fn eager_relocation_waits_for_purge_segment_checkpoint_and_followers() {
    let mut state = LogAndStore::new(&[1, 2, 3]);
    let mut relocator = Relocator::default();
    relocator.start_eager();
    state.put("key", "value");
    state.compact();
    assert_eq!(relocator.eager.settle(0, &state.log, &state.reader, true), Settling::Waits, "for the purge");
    state.drop_history();
    assert_eq!(relocator.eager.settle(0, &state.log, &state.reader, true), Settling::EndSegment);
    state.end_segment();
    relocator.eager.segment_ended(state.log.last_index());
    assert_eq!(
        relocator.eager.settle(0, &state.log, &state.reader, true),
        Settling::Waits,
        "for a checkpoint"
    );
    state.checkpoint();
    let mut settle = |now_ns, leads| relocator.eager.settle(now_ns, &state.log, &state.reader, leads);
    assert_eq!(settle(5, false), Settling::Waits, "a follower for the others");
    assert_eq!(settle(4 + CATCH_UP_NS, false), Settling::Waits);
    assert_eq!(settle(5 + CATCH_UP_NS, false), Settling::Settled);
    assert_eq!(settle(6, true), Settling::Settled, "a leader knows what they have");
}

/// Neither a checkpoint for each byte, nor one that never comes, and a look ten times a second.
#[test]
fn a_checkpoint_for_space_comes_for_much_or_after_a_while() {
    const S: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;
    let mut relocator = Relocator::default();
    relocator.looked(100 * S);
    assert!(!relocator.is_look_due(100 * S + S / 10 - 1) && relocator.is_look_due(100 * S + S / 10));
    relocator.checkpoint_began(100 * S);
    let is_worth = |after_ns, freed, live, is_low| {
        relocator.is_worth_a_checkpoint(100 * S + after_ns, freed, live, is_low)
    };
    for (after_ns, freed, live, is_low, expected) in [
        (S, 64 * MIB, 0, false, true),
        (S - 1, 64 * MIB, 0, false, false),
        (S, 64 * MIB - 1, 0, false, false),
        (S, 64 * MIB, 32 * 64 * MIB, false, true),
        (S, 64 * MIB, 32 * 65 * MIB, false, false),
        (S, 65 * MIB, 32 * 65 * MIB, false, true),
        (10 * S, 1, 32 * 65 * MIB, false, true),
        (10 * S - 1, 1, 0, false, false),
        (S, 1, 0, true, true),
        (S - 1, 1, 0, true, false),
        (20 * S, 0, 0, true, false),
    ] {
        let is_it = is_worth(after_ns, freed, live, is_low);
        assert_eq!(is_it, expected, "{freed} of {live} bytes after {after_ns} ns, low: {is_low}");
    }
}

/// Steps until the relocator waits for something else; each must be late enough.
fn steps(relocator: &mut Relocator, context: &mut RelocationContext<'_>) -> usize {
    let (mut now_ns, mut steps) = (0, 0);
    while relocator.has_step() {
        relocator.step(now_ns, context);
        steps += 1;
        assert!(!relocator.is_step_due(now_ns + STEP_NS - 1), "requests go first");
        now_ns += STEP_NS;
    }
    steps
}

#[test]
fn references_are_switched_and_searched_for_in_steps_with_pauses() {
    for (is_searched, values) in [(false, 2 * STEP_SWITCHES + 1), (true, 2 * STEP_VERSIONS + 1)] {
        let mut state = LogAndStore::new(&[1, 2, 3]);
        (0..values).for_each(|number| state.put(&format!("key{number:04}"), "v"));
        let file = log::file_of(state.reference("key0000").value.address);
        state.background();
        state.end_segment();
        state.checkpoint();
        let (mut relocator, mut out) = (Relocator::default(), Output::default());
        let LogAndStore { log, store, reader, .. } = &mut state;
        let mut context = RelocationContext { log, store, reader, out: &mut out };
        if is_searched {
            // As after its contents could not be read.
            relocator.to_search.push_back(file);
            assert!(relocator.begin_search());
            assert_eq!(steps(&mut relocator, &mut context), 3, "for the versions of all files");
            continue;
        }
        let contents = context.log.contents(file, 0).expect("it says what it holds");
        let writer = context.log.begin_relocation();
        let files = VecDeque::from([(file, contents)]);
        let work = RelocationWork::Files { files, reader: context.reader.clone(), writer };
        relocator.start_job(work, vec![file], None, context.out);
        let Done::Relocated(copied) = context.out.background.pop().expect("it has begun").run() else {
            unreachable!()
        };
        assert_eq!(copied.references.len(), values, "all lie in one file");
        relocator.copied(*copied, &mut context).expect("the log is intact");
        assert_eq!(steps(&mut relocator, &mut context), 3);
    }
}

/// The first file is copied whatever it holds; others join it as far as they fit.
#[test]
fn one_job_copies_so_many_bytes_of_so_many_files() {
    let mut state = LogAndStore::new(&[1, 2, 3]);
    for file in 0..70 {
        (0..4).for_each(|number| state.put(&format!("key{file:02}-{number}"), vec![1; 500]));
        state.end_segment();
    }
    (0..70).for_each(|file| (1..4).for_each(|number| state.put(&format!("key{file:02}-{number}"), "")));
    state.drop_history();
    state.end_segment();
    state.checkpoint();
    let chosen = |max_bytes| sources(&state.log, 80, max_bytes, |_| false).len();
    assert_eq!(chosen(u64::MAX), 64);
    assert_eq!(chosen(0), 1);
    let (two, ten) = (chosen(2 * 600), chosen(10 * 600));
    assert!(two == 2 && (10..=12).contains(&ten), "{two} and {ten} files of one value each");
}

/// Values and bytes that one job after the other moves out of a file.
fn jobs_of(state: &mut LogAndStore, file: u32) -> Vec<(usize, u64)> {
    let (mut jobs, mut position) = (Vec::new(), Some(0));
    while let Some(from) = position.take() {
        let contents = state.log.contents(file, from).expect("the file tells what it holds");
        let (files, reader) = (VecDeque::from([(file, contents)]), state.reader.clone());
        let work = RelocationWork::Files { files, reader, writer: state.log.begin_relocation() };
        let moved = RelocationJob { id: 1, work }.run();
        let bytes = moved.references.iter().map(|reference| u64::from(reference.value.len)).sum();
        jobs.push((moved.references.len(), bytes));
        assert!(state.log.relocated(moved.done).is_ok() && moved.damaged.is_empty());
        position = moved.rest.map(|(_, position)| position);
    }
    jobs
}

/// A full job leaves the rest of a file to the next one.
#[test]
fn one_job_moves_so_many_values_and_bytes_of_a_file() {
    let mut state = LogAndStore::with_segments_of(48 << 20, &[1, 2, 3]);
    (0..40).for_each(|number| state.put(&format!("large{number:02}"), vec![number; 1 << 20]));
    let large = log::file_of(state.reference("large00").value.address);
    state.end_segment();
    let put = |number| pb::RequestOp {
        request: Some(Request::RequestPut(pb::PutRequest {
            key: format!("small{number:05}").into(),
            value: "v".into(),
            ..Default::default()
        })),
    };
    for first in (0..80_000).step_by(1_000) {
        let success = (first..first + 1_000).map(put).collect();
        state.commit(CommandKind::Txn, &pb::TxnRequest { success, ..Default::default() });
    }
    let small = log::file_of(state.reference("small00000").value.address);
    state.end_segment();
    // A job notices that it is full after the values of a look-up: 16,384 and what their last entry has more, or 4 MiB.
    let by_bytes = jobs_of(&mut state, large);
    assert!(by_bytes.len() == 2 && (32 << 20..=36 << 20).contains(&by_bytes[0].1), "{by_bytes:?}");
    assert_eq!(by_bytes.iter().map(|job| job.0).sum::<usize>(), 40);
    let by_values = jobs_of(&mut state, small);
    assert!(by_values.len() == 2 && (50_000..=67_384).contains(&by_values[0].0), "{by_values:?}");
    assert_eq!(by_values.iter().map(|job| job.0).sum::<usize>(), 80_000);
}
