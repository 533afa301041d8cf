//! Which segment moves next, and what a move changes.
use super::*;
use crate::disk::Disk;
use crate::segments::LogSegment;
use crate::testing::{Parts, SEGMENT_BYTES};
use crate::types::address_at;

/// Segments 1, 2 and 3 with 1,000 bytes each, which take as much as if they were full; the last is active.
fn bench(max_bytes: u64) -> (Parts, SegmentChain, WalDirMoves) {
    let parts = Parts::new().expect("an empty disk");
    let chain = parts.segments(3, 1_000).expect("the disk has room");
    let moves = WalDirMoves::new(parts.shared.clone(), parts.factory.clone(), max_bytes);
    (parts, chain, moves)
}

#[test]
fn the_oldest_segment_moves_when_the_sealed_ones_are_too_much() {
    let (_, chain, mut moves) = bench(2 * SEGMENT_BYTES);
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none(), "the active segment does not count");
    assert_eq!((moves.moving(), moves.is_idle()), (None, true));
    let (_, chain, mut moves) = bench(2 * SEGMENT_BYTES - 1);
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_some());
    assert_eq!((moves.moving(), moves.is_idle()), (Some(1), false));
}

#[test]
fn any_sealed_segment_is_too_much_while_space_is_low() {
    let (_, chain, mut moves) = bench(2 * SEGMENT_BYTES);
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none());
    moves.retry();
    for number in [1, 2] {
        let next = moves.next_move(&chain, Some(3), u64::MAX, true).expect("it is sealed");
        let (file, _) = moves.moved(next.run()).expect("the disk has room");
        assert_eq!(file.number, number);
    }
    assert!(moves.next_move(&chain, Some(3), u64::MAX, true).is_none(), "the active segment stays");
}

/// With hundreds of segments, each step of the owner would look at all of them.
#[test]
fn the_segments_are_looked_at_once_until_there_is_another() {
    let (parts, mut chain, mut moves) = bench(2 * SEGMENT_BYTES);
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none());
    let sealed = parts.shared.files.get(1).expect("it is known");
    parts.shared.files.set_recorded(&sealed, 5_000);
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none(), "it was not looked at");
    let opened_at = address_at(4, 152);
    chain.push(LogSegment { number: 4, previous_index: 40, opened_at });
    assert!(moves.next_move(&chain, Some(4), u64::MAX, false).is_some());
}

#[test]
fn a_segment_moves_only_when_it_is_durable_to_its_end() {
    let (_, chain, mut moves) = bench(0);
    let opened = address_at(2, 152);
    assert!(moves.next_move(&chain, Some(3), opened - 1, false).is_none());
    assert!(moves.next_move(&chain, Some(3), opened, false).is_some());
}

#[test]
fn only_a_separate_wal_directory_is_emptied() {
    let Parts { shared, factory, .. } = Parts::with_layout(None).expect("an empty disk");
    assert!(!WalDirMoves::new(shared, factory, 0).is_idle());
}

#[test]
fn a_move_copies_the_bytes_and_changes_the_path() {
    let (parts, chain, mut moves) = bench(2 * SEGMENT_BYTES - 1);
    let (old_path, new_path) = (parts.layout.segment(1), parts.layout.moved_segment(1));
    let original = parts.disk.open(&old_path).expect("it exists");
    original.write_at(&[IoSlice::new(b"an entry")], 992).expect("the disk has room");
    let unfinished = parts.layout.data.join("00000001.new");
    parts.disk.create_new(&unfinished).expect("a move that failed left it");
    let next = moves.next_move(&chain, Some(3), u64::MAX, false).expect("two segments are too much");
    let (file, retired_path) = moves.moved(next.run()).expect("the disk has room");
    assert_eq!((file.path(), retired_path), (Some(new_path.clone()), old_path));
    assert_eq!(parts.names(&parts.layout.data), ["00000001.seg"]);
    let power_lost = parts.disk.lose_power(&mut |_| 0);
    let copy = power_lost.open(&new_path).expect("its name is durable");
    assert_eq!(copy.length().expect("a length"), 1_000, "what is only allocated is not copied");
    compare(original.as_ref(), copy.as_ref(), 1_000).expect("its bytes are durable");
    assert!(moves.is_idle());
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none(), "one segment is not too much");
}

#[test]
fn a_failed_move_changes_nothing_and_may_be_tried_again() {
    let (parts, chain, mut moves) = bench(2 * SEGMENT_BYTES - 1);
    let file = parts.shared.files.get(1).expect("it is known");
    parts.shared.files.set_recorded(&file, 5_000);
    let next = moves.next_move(&chain, Some(3), u64::MAX, false).expect("two segments are too much");
    let failed = moves.moved(next.run());
    assert!(matches!(failed, Err(JobError::Io { action: "move", .. })), "the file has 4,096 bytes");
    assert_eq!(file.path(), Some(parts.layout.segment(1)));
    assert!(parts.names(&parts.layout.data).is_empty());
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_none(), "it would fail again");
    moves.retry();
    assert!(moves.next_move(&chain, Some(3), u64::MAX, false).is_some());
}

#[test]
fn a_copy_that_differs_in_one_bit_is_refused() {
    let (parts, ..) = bench(0);
    let paths = ["/data/one", "/data/other"].map(PathBuf::from);
    let files = paths.clone().map(|path| parts.disk.create_new(&path).expect("an empty directory"));
    files.iter().for_each(|file| file.allocate(COPY_BYTES + 9).expect("the disk has room"));
    let compared = || compare(files[0].as_ref(), files[1].as_ref(), COPY_BYTES + 9);
    assert!(compared().is_ok());
    parts.disk.flip_bit(&paths[1], COPY_BYTES + 8, 3).expect("the file exists");
    assert!(compared().is_err());
}
