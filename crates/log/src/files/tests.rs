//! What is counted over all files is what the files say.

use std::path::Path;
use std::sync::Arc;

use super::{Files, ValueFile};
use crate::disk::MemDisk;

fn sum(files: &Files) -> u64 {
    files.all().iter().map(|file| file.recorded()).sum()
}

#[test]
fn what_is_written_in_all_files_follows_what_becomes_of_each() {
    let files = Files::new(Arc::new(MemDisk::new()), 4);
    let found = files.insert(1, Path::new("data/00000001.dat"));
    files.set_recorded(&found, 5_000);
    let active = Arc::new(ValueFile::new(2, None));
    files.add(active.clone());
    files.set_recorded(&active, 100);
    files.set_recorded(&active, 164);
    assert_eq!((files.recorded_bytes(), sum(&files)), (5_164, 5_164));
    files.set_recorded(&found, 4_000);
    assert_eq!((files.recorded_bytes(), sum(&files)), (4_164, 4_164), "one is shorter than it was taken for");
    files.remove(1);
    files.remove(1);
    assert_eq!((files.recorded_bytes(), sum(&files)), (164, 164), "a file goes once");
    files.remove(2);
    assert_eq!(files.recorded_bytes(), 0);
}

#[test]
fn a_file_known_by_its_references_alone_holds_nothing_until_it_is_found() {
    let files = Files::new(Arc::new(MemDisk::new()), 4);
    files.retain(7, 300);
    assert_eq!(files.recorded_bytes(), 0);
    let found = files.insert(7, Path::new("wal/00000007.seg"));
    files.set_recorded(&found, 900);
    assert_eq!((files.live_bytes(), files.recorded_bytes()), (300, 900));
}
