//! How the chain grows, and which files it leaves behind.

use std::path::PathBuf;

use super::checkpoints::Checkpoints;
use super::manifest::{CheckpointKind, Manifest};
use super::writer::CheckpointWriter;
use crate::checkpoint::CheckpointKind::{Base, Delta};
use crate::error::JobError;
use crate::testing::Parts;
use crate::types::LogId;

fn bench() -> (Parts, Checkpoints) {
    let parts = Parts::new().expect("an empty disk");
    let manifest = Manifest { identity: parts.factory.identity, next_number: 1, chain: Vec::new() };
    let checkpoints = Checkpoints::new(parts.factory.clone(), parts.numbers.clone(), manifest);
    (parts, checkpoints)
}

fn begin(checkpoints: &mut Checkpoints, kind: CheckpointKind, index: u64) -> CheckpointWriter {
    checkpoints.begin(kind, LogId { index, term: 1 }, vec![index as u32])
}

/// Makes a checkpoint and returns the names of the files that can be removed then.
fn make(checkpoints: &mut Checkpoints, kind: CheckpointKind, index: u64) -> Vec<String> {
    let done = begin(checkpoints, kind, index).finish();
    let effects = checkpoints.done(done);
    assert_eq!(effects.result.expect("it is durable"), [index as u32], "what was noted when it began");
    checkpoints.check_all();
    names(&effects.removable)
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

fn delta_count(checkpoints: &Checkpoints) -> usize {
    checkpoints.lengths().count().saturating_sub(1)
}

/// The numbers of the files in the manifest on disk.
fn chain(parts: &Parts) -> Vec<u32> {
    let manifest = Manifest::read(&parts.disk, &parts.layout.manifest()).expect("it is committed");
    manifest.chain.iter().map(|link| link.number).collect()
}

#[test]
fn a_merge_takes_the_position_of_what_it_merges() {
    let (parts, mut checkpoints) = bench();
    make(&mut checkpoints, Base, 10);
    [20, 30, 40].into_iter().for_each(|index| drop(make(&mut checkpoints, Delta, index)));
    let (writer, merged) = checkpoints.begin_merge(1..3);
    assert_eq!((merged.id.index, merged.files().expect("they are there").len()), (30, 2));
    let effects = checkpoints.done(writer.finish());
    checkpoints.check_all();
    assert_eq!(effects.result.expect("it is durable"), [0_u32; 0], "it frees no file of the log");
    assert_eq!(names(&effects.removable), ["00000002.delta", "00000003.delta"]);
    assert_eq!((chain(&parts), checkpoints.newest_index()), (vec![1, 5, 4], 40));
    let (writer, _) = checkpoints.begin_merge(0..3);
    let effects = checkpoints.done(writer.finish());
    assert_eq!(names(&effects.removable), ["00000001.base", "00000005.delta", "00000004.delta"]);
    let (base, deltas) = checkpoints.bytes();
    assert_eq!((chain(&parts), checkpoints.newest_index(), deltas), (vec![6], 40, 0));
    assert!(base > 0);
}

#[test]
fn a_merge_of_a_chain_that_was_replaced_is_superseded() {
    let (parts, mut checkpoints) = bench();
    make(&mut checkpoints, Base, 10);
    make(&mut checkpoints, Delta, 20);
    let (writer, merged) = checkpoints.begin_merge(0..2);
    let files = merged.files().expect("they are there");
    make(&mut checkpoints, Base, 30);
    let effects = checkpoints.done(writer.finish());
    assert!(matches!(effects.result, Err(JobError::Superseded)));
    assert_eq!(names(&effects.removable), ["00000003.base"]);
    assert_eq!(chain(&parts), [4]);
    assert_eq!(files.into_iter().flatten().count(), 0, "they are read although their names are gone");
}

#[test]
fn deltas_extend_the_chain_and_a_base_replaces_it() {
    let (_, mut checkpoints) = bench();
    assert_eq!(
        (checkpoints.newest_id(), checkpoints.newest_index(), delta_count(&checkpoints)),
        (None, 0, 0)
    );
    assert!(make(&mut checkpoints, Base, 10).is_empty());
    assert!(make(&mut checkpoints, Delta, 20).is_empty());
    assert!(make(&mut checkpoints, Delta, 20).is_empty(), "two may be of the same entry");
    assert_eq!((checkpoints.newest_index(), delta_count(&checkpoints)), (20, 2));
    let (base, deltas) = checkpoints.bytes();
    assert_eq!(deltas, 2 * base, "all three are without chunks");
    let superseded = make(&mut checkpoints, Base, 30);
    assert_eq!(superseded, ["00000001.base", "00000002.delta", "00000003.delta"]);
    assert_eq!(
        (checkpoints.newest_index(), delta_count(&checkpoints), checkpoints.bytes()),
        (30, 0, (base, 0))
    );
}

#[test]
fn a_checkpoint_counts_when_its_result_is_taken() {
    let (_, mut checkpoints) = bench();
    let done = begin(&mut checkpoints, Base, 10).finish();
    assert!(checkpoints.newest().is_none());
    assert!(checkpoints.done(done).result.is_ok());
    assert_eq!(checkpoints.newest().map(|checkpoint| checkpoint.id.index), Some(10));
}

#[test]
fn a_failed_checkpoint_leaves_the_chain_and_its_own_file() {
    let (_, mut checkpoints) = bench();
    make(&mut checkpoints, Base, 10);
    let done = begin(&mut checkpoints, Delta, 20).abandon(JobError::Superseded);
    let effects = checkpoints.done(done);
    assert!(effects.result.is_err(), "what was noted is not freed");
    assert_eq!(names(&effects.removable), ["00000002.delta"]);
    assert_eq!((checkpoints.newest_index(), delta_count(&checkpoints)), (10, 0));
    assert!(make(&mut checkpoints, Delta, 30).is_empty(), "the next extends the same chain");
}

#[test]
fn a_delta_of_a_chain_that_was_replaced_is_superseded() {
    let (parts, mut checkpoints) = bench();
    make(&mut checkpoints, Base, 10);
    let late = begin(&mut checkpoints, Delta, 20);
    assert_eq!(make(&mut checkpoints, Base, 30), ["00000001.base"]);
    let effects = checkpoints.done(late.finish());
    assert!(matches!(effects.result, Err(JobError::Superseded)));
    assert_eq!(names(&effects.removable), ["00000002.delta"]);
    assert_eq!(chain(&parts), [3]);
}

#[test]
#[should_panic(expected = "a delta needs a checkpoint before it")]
fn a_chain_begins_with_a_base() {
    let (_, mut checkpoints) = bench();
    drop(begin(&mut checkpoints, Delta, 10));
}
