//! When a checkpoint is due, and when checkpoints are merged.

use std::path::Path;
use std::sync::Arc;

use log::{Disk, Options};
use store::{Limits, Sequential};

use super::*;
use crate::checkpoint_files::{ChainFiles, GiveUp};
use crate::tests::LogAndStore;
use crate::values::LogValues;

/// Runs the merge that is due now. Returns whether one is.
fn merge(schedule: &mut CheckpointSchedule, state: &mut LogAndStore) -> bool {
    let Some(Job::MergeCheckpoints(job)) = schedule.begin_merge(&mut state.log, Limits::default()) else {
        return false;
    };
    assert!(schedule.is_running());
    state.log.checkpoint_done(job.write()).expect("the disk is intact");
    schedule.merged(&Ok(()));
    state.background();
    state.log.check_all();
    true
}

/// Asserts that a restart finds the state of the last checkpoint, with its references.
fn check_restart(state: &LogAndStore) {
    let disk: Arc<dyn Disk> = Arc::new(state.disk.fork());
    let opened = Log::open(&disk, &Options::new("/data")).expect("an intact log");
    let checkpoint = opened.recovered.checkpoint.expect("one was written");
    let files = ChainFiles::open(&checkpoint, &GiveUp::default()).expect("they are intact");
    let values = Arc::new(LogValues::new(opened.reader));
    let chain = files.chain.iter().cloned();
    let (store, reader) =
        Store::restore(values, Limits::default(), chain, &Sequential).expect("an intact chain");
    store.check_all();
    assert_eq!(reader.state_hash(), state.reader.state_hash());
    assert_eq!(reader.referenced_bytes(), state.reader.referenced_bytes());
    assert_eq!(reader.purged(), state.reader.purged());
}

/// Writes a checkpoint of the present state. Returns whether it is a base.
fn write(schedule: &mut CheckpointSchedule, state: &mut LogAndStore) -> bool {
    let (id, conf) = (state.applied(), ConfState::of_voters([1]));
    let Job::Checkpoint(job) = schedule.begin(id, &conf, &mut state.log, &mut state.store) else {
        unreachable!("a checkpoint is begun")
    };
    let kind = job.source.kind();
    state.log.checkpoint_done(job.write()).expect("the disk is intact");
    schedule.done();
    kind == CheckpointKind::Base
}

fn filled(keys: usize) -> LogAndStore {
    let mut state = LogAndStore::new(&[1]);
    (0..keys).for_each(|number| state.put(&format!("key{number}"), "value"));
    state
}

#[test]
fn one_is_due_after_so_many_commands_and_none_while_another_is_written() {
    let mut state = filled(1);
    let mut schedule = CheckpointSchedule::default();
    schedule.applied(9);
    assert!(!schedule.is_due(0, 2, 10));
    schedule.applied(1);
    assert!(schedule.is_due(0, 2, 10));
    schedule.begin(state.applied(), &ConfState::of_voters([1]), &mut state.log, &mut state.store);
    assert!(!schedule.has_changes(), "they are counted from its beginning");
    schedule.applied(10);
    assert!(schedule.is_running() && !schedule.is_due(0, 2, 10));
    schedule.done();
    assert!(schedule.is_due(0, 2, 10));
    schedule.installed();
    assert!(!schedule.is_due(0, 2, 10), "a snapshot is a checkpoint");
}

#[test]
fn a_wanted_one_is_due_from_its_entry_on_until_one_there_has_begun() {
    let mut state = filled(3);
    let mut schedule = CheckpointSchedule::default();
    schedule.want(5);
    assert_eq!(state.applied().index, 4);
    assert!(!schedule.is_due(0, 4, 10));
    assert!(schedule.is_due(0, 5, 10));
    write(&mut schedule, &mut state);
    assert!(schedule.is_due(0, 5, 10), "one before the entry is not the wanted one");
    state.put("key", "value");
    write(&mut schedule, &mut state);
    assert!(!schedule.is_due(0, 5, 10));
}

#[test]
fn all_are_merged_when_the_deltas_are_twice_the_base() {
    let mut state = filled(30);
    let mut schedule = CheckpointSchedule::default();
    assert!(write(&mut schedule, &mut state), "the first is a base");
    let (base, _) = state.log.checkpoint_bytes();
    let mut deltas = 0;
    while deltas < 2 * base {
        assert!(!merge(&mut schedule, &mut state), "{deltas} bytes of deltas, {base} of the base");
        (0..10).for_each(|number| state.put(&format!("key{number}"), "other"));
        state.drop_history();
        assert!(!write(&mut schedule, &mut state), "what changed is written, not everything");
        deltas = state.log.checkpoint_bytes().1;
    }
    assert!(merge(&mut schedule, &mut state));
    let (merged, deltas) = state.log.checkpoint_bytes();
    assert!(deltas == 0 && merged < base + base / 4, "{merged} bytes, {base} before");
    check_restart(&state);
}

/// A few keys that change forever: no base is written again, however many checkpoints follow, and few bytes are.
#[test]
fn small_deltas_are_merged_with_each_other() {
    let mut state = filled(4_000);
    let mut schedule = CheckpointSchedule::default();
    write(&mut schedule, &mut state);
    let (base, _) = state.log.checkpoint_bytes();
    let (mut written, mut merges, mut merged) = (0, 0, 0);
    for round in 0..8 * MAX_DELTAS {
        state.put(&format!("key{}", round % 7), "other");
        state.drop_history();
        assert!(!write(&mut schedule, &mut state));
        written += state.log.checkpoint_lengths().last().expect("it is there");
        if merge(&mut schedule, &mut state) {
            merges += 1;
            merged += state.log.checkpoint_lengths().last().expect("it is there");
        }
        assert!(state.log.checkpoint_lengths().len() <= MAX_DELTAS + 1);
        assert_eq!(state.log.checkpoint_bytes().0, base, "it is the same base");
    }
    assert!((7..=9).contains(&merges), "{merges} merges");
    assert!(merged < written / 4, "{merged} bytes are merged, of {written}");
    check_restart(&state);
}

#[test]
fn nothing_is_merged_while_space_is_low_before_there_are_many() {
    let lengths = |deltas: usize| [vec![1 << 40], vec![1; deltas]].concat();
    assert_eq!(first_merged(&lengths(MAX_DELTAS - 1), false), None);
    assert_eq!(first_merged(&lengths(MAX_DELTAS), false), Some(1));
    assert_eq!(first_merged(&lengths(MAX_DELTAS_WHILE_LOW - 1), true), None);
    assert_eq!(first_merged(&lengths(MAX_DELTAS_WHILE_LOW), true), Some(1));
    assert_eq!(first_merged(&[1, 2], false), Some(0));
    assert_eq!(first_merged(&[1, 2], true), None);
    assert_eq!(first_merged(&[], false), None);
    assert_eq!(first_merged(&[0], false), None, "one alone is not merged");
}

#[test]
fn a_delta_is_merged_again_when_as_many_bytes_follow() {
    let mut lengths = vec![1 << 40];
    let mut written = 0;
    for _ in 0..100 * MAX_DELTAS {
        lengths.push(1_000);
        if let Some(first) = first_merged(&lengths, false) {
            let merged: u64 = lengths.drain(first..).sum();
            written += merged;
            lengths.push(merged);
        }
        assert!(lengths.len() <= MAX_DELTAS + 2);
    }
    let once = 100 * MAX_DELTAS as u64 * 1_000;
    assert!(written < 4 * once, "{written} bytes are merged, of {once}");
}

/// A load that declines: each delta is smaller than the one before.
#[test]
fn deltas_that_become_smaller_are_merged() {
    for shrink in [|length: u64| length - 1, |length: u64| length - length / 3] {
        let (mut lengths, mut delta) = (vec![1 << 40], 3 << 20);
        while delta > 300 {
            lengths.push(delta);
            delta = shrink(delta);
            if let Some(first) = first_merged(&lengths, false) {
                let merged: u64 = lengths.drain(first..).sum();
                lengths.push(merged);
            }
            assert!(lengths.len() <= MAX_DELTAS + 32);
        }
    }
}

#[test]
fn a_base_is_written_when_a_file_is_damaged() {
    let mut state = filled(30);
    let mut schedule = CheckpointSchedule::default();
    write(&mut schedule, &mut state);
    while schedule.begin_merge(&mut state.log, Limits::default()).is_none() {
        (0..10).for_each(|number| state.put(&format!("key{number}"), "other"));
        assert!(!write(&mut schedule, &mut state));
    }
    schedule.merged(&Err(JobError::Unreadable("a file".to_owned())));
    assert!(write(&mut schedule, &mut state), "the state has what the files had");
    assert!(!write(&mut schedule, &mut state));
    schedule.is_running = true;
    schedule.merged(&Err(JobError::Superseded));
    assert!(!write(&mut schedule, &mut state), "a base would not help where nothing is damaged");
}

/// A base with so many deltas behind it that a merge of all is due, and the job for it.
fn due_merge(schedule: &mut CheckpointSchedule, state: &mut LogAndStore) -> Box<MergeJob> {
    write(schedule, state);
    loop {
        if let Some(Job::MergeCheckpoints(job)) = schedule.begin_merge(&mut state.log, Limits::default()) {
            return job;
        }
        (0..10).for_each(|number| state.put(&format!("key{number}"), "other"));
        write(schedule, state);
    }
}

/// In the first chunks, and in the mark at the end, which follows the last chunk.
#[test]
fn a_merge_does_not_write_what_is_damaged() {
    for from_end in [None, Some(4)] {
        let mut state = filled(30);
        let mut schedule = CheckpointSchedule::default();
        let job = due_merge(&mut schedule, &mut state);
        let path = Path::new("/data/member/checkpoint").join(base_name(&state));
        let before = state.log.checkpoint_lengths();
        let offset = from_end.map_or(300, |from_end| before[0] - from_end);
        state.disk.flip_bit(&path, offset, 1).expect("the base is there");
        let error = state.log.checkpoint_done(job.write()).expect_err("the base is damaged").to_string();
        assert!(error.contains("cannot read") && error.contains(".base"), "{error}");
        assert_eq!(state.log.checkpoint_lengths(), before);
    }
}

#[test]
fn a_merge_that_lacks_descriptors_makes_no_base() {
    let mut state = filled(30);
    let mut schedule = CheckpointSchedule::default();
    let job = due_merge(&mut schedule, &mut state);
    state.disk.set_max_open(Some(2));
    let result = state.log.checkpoint_done(job.write());
    assert!(result.as_ref().is_err_and(JobError::is_out_of_descriptors), "{result:?}");
    state.disk.set_max_open(None);
    schedule.merged(&result);
    state.background();
    assert!(!write(&mut schedule, &mut state), "nothing is damaged");
    assert!(merge(&mut schedule, &mut state), "it is tried again");
    check_restart(&state);
}

#[test]
fn a_merge_that_is_given_up_changes_nothing_and_is_tried_again() {
    let mut state = filled(30);
    let mut schedule = CheckpointSchedule::default();
    let job = due_merge(&mut schedule, &mut state);
    let before = state.log.checkpoint_lengths();
    schedule.give_up_merge();
    let read = state.disk.bytes_read();
    let result = state.log.checkpoint_done(job.write());
    assert!(matches!(result, Err(JobError::GivenUp)), "{result:?}");
    // The first chunk of each file, which it reads when it opens them.
    assert!(state.disk.bytes_read() - read <= before.len() as u64 * (256 << 10));
    schedule.merged(&result);
    state.background();
    assert_eq!(state.log.checkpoint_lengths(), before);
    assert!(!write(&mut schedule, &mut state));
    assert!(merge(&mut schedule, &mut state));
    check_restart(&state);
}

/// It may be asked at any time, from another thread: it looks with each chunk that it reads.
#[test]
fn a_reader_of_checkpoints_finds_nothing_after_it_is_asked_to_give_up() {
    let mut state = filled(4_000);
    let mut schedule = CheckpointSchedule::default();
    let job = due_merge(&mut schedule, &mut state);
    let files = ChainFiles::open(&job.checkpoint, &job.give_up).expect("they are intact");
    let mut base = files.chain[0].clone();
    assert!((0..2).all(|_| base.next().is_some_and(|chunk| chunk.len() < 1 << 20)));
    schedule.give_up_merge();
    assert!(base.next().is_none() && files.take_error().is_none());
}

/// One that is due even while space is low would otherwise be given up for each checkpoint, forever.
#[test]
fn a_merge_makes_way_for_space_unless_the_chain_is_too_long() {
    let mut state = filled(4_000);
    let mut schedule = CheckpointSchedule::default();
    let mut job = due_merge(&mut schedule, &mut state);
    schedule.make_way_for_space(&state.log);
    assert!(job.give_up.is_asked());
    while state.log.checkpoint_lengths().len() <= MAX_DELTAS_WHILE_LOW {
        schedule.merged(&Err(JobError::GivenUp));
        state.put("key", "other");
        write(&mut schedule, &mut state);
        let Some(Job::MergeCheckpoints(next)) = schedule.begin_merge(&mut state.log, Limits::default())
        else {
            continue;
        };
        job = next;
    }
    schedule.make_way_for_space(&state.log);
    assert!(!job.give_up.is_asked());
}

fn base_name(state: &LogAndStore) -> String {
    let names = state.disk.list(Path::new("/data/member/checkpoint")).expect("it is there");
    names.into_iter().find(|name| name.ends_with(".base")).expect("one was written")
}

/// A damaged one refuses the next start, so it does not outlast a stop, nor a base that failed on an idle member.
#[test]
fn a_base_takes_the_place_of_a_damaged_one_before_a_stop_and_after_a_failure() {
    let mut state = filled(3);
    let mut schedule = CheckpointSchedule::default();
    write(&mut schedule, &mut state);
    assert!(!schedule.has_changes());
    schedule.replace_damaged();
    assert!(schedule.has_changes(), "a stop writes a base first");
    let (id, conf) = (state.applied(), ConfState::of_voters([1]));
    let Job::Checkpoint(job) = schedule.begin(id, &conf, &mut state.log, &mut state.store) else {
        unreachable!("a checkpoint is begun")
    };
    assert_eq!(job.source.kind(), CheckpointKind::Base);
    state.disk.set_capacity(Some(0));
    let done = job.write();
    state.disk.set_capacity(None);
    schedule.done();
    assert!(state.log.checkpoint_done(done).is_err());
    state.store.abandon_checkpoint();
    schedule.failed(7, true);
    assert!(schedule.has_changes());
    assert!(!schedule.is_due(6 + RETRY_DAMAGED_NS, id.index, 10));
    assert!(schedule.is_due(7 + RETRY_DAMAGED_NS, id.index, 10), "also when nothing is written");
    assert!(!write(&mut schedule, &mut state), "a delta may fit");
    assert!(!schedule.take_replaced() && schedule.is_due(0, id.index, 10));
    assert!(write(&mut schedule, &mut state));
    assert!(schedule.take_replaced() && !schedule.has_changes() && !schedule.is_due(u64::MAX, id.index, 10));
}

#[test]
fn a_base_that_had_begun_before_the_damage_was_found_repairs_nothing() {
    let mut state = filled(3);
    let mut schedule = CheckpointSchedule::default();
    let (id, conf) = (state.applied(), ConfState::of_voters([1]));
    let Job::Checkpoint(job) = schedule.begin(id, &conf, &mut state.log, &mut state.store) else {
        unreachable!("a checkpoint is begun")
    };
    schedule.replace_damaged();
    state.log.checkpoint_done(job.write()).expect("the disk is intact");
    schedule.done();
    assert!(!schedule.take_replaced());
    assert!(schedule.is_due(0, id.index, 10));
    schedule.installed();
    assert!(!schedule.has_changes() && !schedule.is_due(0, id.index, 10), "a snapshot replaces all of them");
}
