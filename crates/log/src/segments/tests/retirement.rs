//! When a file is retired, when it is freed, and that each path is freed once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::segments::{FileRetirement, PreallocatedSegments, SegmentChain, WalDirMoves};
use crate::testing::Parts;

const NONE: BTreeSet<u32> = BTreeSet::new();

struct Bench {
    parts: Parts,
    chain: SegmentChain,
    retirement: FileRetirement,
    preallocated: PreallocatedSegments,
}

/// Files that are freed: those to be recycled, then those to be removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Freed {
    recycled: Vec<PathBuf>,
    removed: Vec<PathBuf>,
}

impl Bench {
    /// Segments 1, 2 and 3, in a separate WAL directory. One old file at a time is of use.
    fn new() -> Bench {
        let parts = Parts::new().expect("an empty disk");
        let chain = parts.segments(3, 1_000).expect("the disk has room");
        let retirement = FileRetirement::new(parts.shared.clone(), parts.layout.clone());
        let preallocated = parts.preallocated(1);
        Bench { parts, chain, retirement, preallocated }
    }

    fn retire(&mut self, files: &[u32]) {
        self.retirement.add_unreferenced(files.iter().copied());
        self.retirement.retire_unreferenced(&NONE, None, &mut self.chain);
    }

    /// Moves segment 1 to the data directory, and retires it under its old path.
    fn move_first(&mut self) {
        let Parts { shared, factory, .. } = &self.parts;
        let mut moves = WalDirMoves::new(shared.clone(), factory.clone(), 0);
        let next =
            moves.next_move(&self.chain, Some(3), u64::MAX, false).expect("segments 1 and 2 are too much");
        let (file, old_path) = moves.moved(next.run()).expect("the disk has room");
        self.retirement.retire(file, old_path);
    }

    fn chain(&self) -> Vec<u32> {
        self.chain.iter().map(|segment| segment.number).collect()
    }

    fn knows(&self, number: u32) -> bool {
        self.parts.shared.files.get(number).is_some()
    }

    fn free(&mut self) -> Freed {
        self.retirement.check_all();
        self.retirement.release_retired(&mut self.preallocated);
        Freed {
            recycled: std::iter::from_fn(|| self.preallocated.old.pop()).map(|old| old.path).collect(),
            removed: std::iter::from_fn(|| self.retirement.take_removable()).collect(),
        }
    }
}

#[test]
fn a_file_is_retired_when_it_is_neither_needed_nor_moving() {
    let mut bench = Bench::new();
    bench.retirement.add_unreferenced([1, 2]);
    for (needed, moving, left) in
        [(&[2][..], Some(1), &[1, 2, 3][..]), (&[2], None, &[2, 3]), (&[], None, &[3])]
    {
        assert!(bench.retirement.has_unreferenced());
        let needed = needed.iter().copied().collect();
        bench.retirement.retire_unreferenced(&needed, moving, &mut bench.chain);
        assert_eq!(bench.chain(), left);
    }
    assert!(!bench.retirement.has_unreferenced());
}

#[test]
#[should_panic(expected = "file 00000001 was referenced again")]
fn a_referenced_file_is_never_retired() {
    let mut bench = Bench::new();
    bench.parts.shared.files.retain(1, 1, 10);
    bench.retire(&[1]);
}

#[test]
fn a_retired_file_waits_for_the_pins_of_its_epoch_only() {
    let mut bench = Bench::new();
    let before = bench.parts.shared.pins.pin();
    bench.retire(&[1]);
    let after = bench.parts.shared.pins.pin();
    assert_eq!(bench.free(), Freed::default());
    assert!(bench.knows(1), "its reader may still open it");
    bench.parts.shared.pins.unpin(before);
    assert_eq!(bench.free(), Freed { recycled: vec![bench.parts.layout.segment(1)], removed: vec![] });
    assert!(!bench.knows(1));
    bench.parts.shared.pins.unpin(after);
    assert_eq!(bench.free(), Freed::default());
}

#[test]
fn a_file_is_recycled_if_it_is_in_the_wal_directory_and_of_use() {
    let mut bench = Bench::new();
    let data_segment = bench.parts.layout.data_segment(9);
    bench.parts.shared.files.insert_written(9, &data_segment, 100, 0);
    bench.retire(&[9]);
    assert_eq!(bench.free(), Freed { recycled: vec![], removed: vec![data_segment] });
    bench.retire(&[1, 2]);
    let [first, second] = [1, 2].map(|number| bench.parts.layout.segment(number));
    assert_eq!(bench.free(), Freed { recycled: vec![first], removed: vec![second] });
}

#[test]
fn a_pinned_file_is_retired_once_however_often_it_is_found_unreferenced() {
    let mut bench = Bench::new();
    let pin = bench.parts.shared.pins.pin();
    bench.retire(&[1]);
    let later = bench.parts.shared.pins.pin();
    bench.retire(&[1, 1]);
    bench.parts.shared.pins.unpin(pin);
    assert_eq!(bench.free(), Freed { recycled: vec![bench.parts.layout.segment(1)], removed: vec![] });
    bench.parts.shared.pins.unpin(later);
    assert_eq!(bench.free(), Freed::default(), "a second retirement would have waited for the later pin");
}

#[test]
fn a_moved_segment_is_freed_under_both_its_paths() {
    let mut bench = Bench::new();
    let pin = bench.parts.shared.pins.pin();
    bench.move_first();
    let file = bench.parts.shared.files.get(1).expect("it is in use under its new path");
    assert!(!bench.retirement.is_retired(&file));
    bench.retire(&[1]);
    assert!(bench.retirement.is_retired(&file));
    assert_eq!(bench.free(), Freed::default());
    bench.parts.shared.pins.unpin(pin);
    let (old, new) = (bench.parts.layout.segment(1), bench.parts.layout.moved_segment(1));
    assert_eq!(bench.free(), Freed { recycled: vec![old], removed: vec![new] });
    assert!(!bench.knows(1));
}

#[test]
fn freeing_the_old_path_of_a_moved_segment_leaves_the_segment() {
    let mut bench = Bench::new();
    bench.move_first();
    assert_eq!(bench.free(), Freed { recycled: vec![bench.parts.layout.segment(1)], removed: vec![] });
    assert!(bench.knows(1));
    assert_eq!(bench.chain(), [1, 2, 3]);
}

#[test]
fn orphans_are_files_that_nothing_referenced_or_needs() {
    let mut bench = Bench::new();
    bench.parts.shared.files.retain(2, 1, 10);
    bench.parts.shared.files.release(2 << 32 | 64, 10);
    bench.retirement.add_orphans(&BTreeSet::from([3])).expect("no file is missing");
    bench.retirement.retire_unreferenced(&NONE, None, &mut bench.chain);
    assert_eq!(
        bench.chain(),
        [2, 3],
        "a checkpoint may refer to segment 2, whose values were deleted after it"
    );
}

#[test]
fn a_referenced_file_that_does_not_exist_is_an_error() {
    let mut bench = Bench::new();
    bench.parts.shared.files.retain(7, 1, 10);
    let error = bench.retirement.add_orphans(&NONE).expect_err("file 7 is missing");
    let OpenError::MissingFiles { numbers, path } = error else { panic!("{error}") };
    assert_eq!((&numbers[..], &*path), (&[7][..], Path::new("/data")));
}
