//! A data directory as a script: which file, its number, its bytes, and how many zeros follow them.

use std::io::IoSlice;
use std::path::PathBuf;

use log::{Disk, MemDisk};

use crate::input::script::{Script, put_bytes};

/// Where the directory is on the disk in memory.
pub const DATA_DIR: &str = "/data";

const MANIFEST: u8 = 0;
/// Folder and suffix of the other sorts of files, by their number.
const SORTS: [(&str, &str); 6] = [
    ("checkpoint", ""),
    ("wal", "seg"),
    ("checkpoint", "base"),
    ("checkpoint", "delta"),
    ("data", "dat"),
    ("data", "seg"),
];

fn path(sort: u8, number: u8) -> PathBuf {
    let (folder, suffix) = SORTS[usize::from(sort) % SORTS.len()];
    let name = match suffix {
        "" => "MANIFEST".to_owned(),
        suffix => format!("{number:08x}.{suffix}"),
    };
    PathBuf::from(DATA_DIR).join("member").join(folder).join(name)
}

/// Makes the disk that a script describes. Of two files with one name the first counts.
pub fn lay_out(bytes: &[u8]) -> MemDisk {
    let disk = MemDisk::new();
    for folder in ["wal", "data", "checkpoint"] {
        let folder = PathBuf::from(DATA_DIR).join("member").join(folder);
        disk.create_dir_all(&folder).expect("the disk has no faults");
    }
    let mut script = Script::new(bytes);
    while let (Some(sort), Some(number), Some(zeros)) = (script.byte(), script.byte(), script.half()) {
        let bytes = script.bytes().unwrap_or_default();
        let Ok(file) = disk.create_new(&path(sort, number)) else {
            continue;
        };
        file.write_at(&[IoSlice::new(bytes)], 0).expect("the disk has no faults");
        file.set_length(bytes.len() as u64 + u64::from(zeros)).expect("the disk has no faults");
    }
    disk
}

/// The script of a disk whose files are all short and have small numbers.
///
/// # Panics
/// When they do not.
pub fn describe(disk: &MemDisk) -> Vec<u8> {
    let mut script = Vec::new();
    for sort in 0..SORTS.len() as u8 {
        for number in 0..=u8::MAX {
            let path = path(sort, number);
            let is_second_manifest = sort == MANIFEST && number > 0;
            if is_second_manifest || !disk.exists(&path).expect("the disk has no faults") {
                continue;
            }
            let file = disk.open(&path).expect("the disk has no faults");
            let mut bytes = vec![0; file.length().expect("the disk has no faults") as usize];
            file.read_at(&mut bytes, 0).expect("the disk has no faults");
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let zeros = u16::try_from(bytes.len() - used).expect("files are short");
            script.extend([sort, number]);
            script.extend(zeros.to_le_bytes());
            put_bytes(&mut script, &bytes[..used]);
        }
    }
    script
}
