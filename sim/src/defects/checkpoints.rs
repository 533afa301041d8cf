//! Checkpoint files, as bytes: what a defective writer leaves out of them.
//!
//! Layouts as in `docs/internals/checkpoint.md` (header, frames of length, checksum and data; the manifest that
//! names the files with their lengths) and `docs/internals/store-checkpoint.md` (frames of length, kind, checksum
//! and body inside).

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use log::{Disk, MemDisk};

const FILE_HEADER: usize = 64;
/// Length and checksum before a frame's data.
const FRAME_HEAD: usize = 8;
/// The length that marks the last frame.
const LAST: u32 = u32::MAX;
/// Length, kind and checksum before a body of the store's.
const STORE_HEAD: usize = 9;
/// The kinds of the small state and of leases.
const SMALL: [u8; 2] = [2, 3];
/// The kind of a frame of keys, and of the last frame, whose body is the number of keys.
const KEYS: u8 = 6;
const END: u8 = 7;

const MANIFEST_COUNT: usize = 68;
const MANIFEST_CHAIN: usize = 72;
const MANIFEST_ENTRY: usize = 32;
/// Where a file's length stands in its entry.
const ENTRY_LENGTH: usize = 24;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read(disk: &MemDisk, path: &Path) -> Option<Vec<u8>> {
    let file = disk.open(path).ok()?;
    let mut bytes = vec![0; file.length().ok()? as usize];
    file.read_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

fn replace(disk: &MemDisk, path: &Path, bytes: &[u8]) {
    if let Ok(file) = disk.open(path) {
        let _ = file.set_length(bytes.len() as u64);
        let _ = file.write_at(&[IoSlice::new(bytes)], 0);
        let _ = file.sync_data();
    }
}

/// Changes the frames of the store, given as bytes.
type ChangeFrames = fn(&[u8]) -> Option<Vec<u8>>;

/// Removes members, alarms and leases from every checkpoint that the manifest names.
pub(crate) fn drop_small_state(disk: &MemDisk, paths: &[PathBuf]) {
    change(disk, paths, |_| true, without_small_frames);
}

/// Removes all keys from a checkpoint, if the manifest names it.
pub(crate) fn drop_keys(disk: &MemDisk, paths: &[PathBuf], of: Option<&Path>) {
    let stem = of.and_then(Path::file_stem);
    change(disk, paths, |path| stem.is_some() && path.file_stem() == stem, without_keys);
}

/// Changes those checkpoints that the manifest names and that are meant.
fn change(disk: &MemDisk, paths: &[PathBuf], is_meant: impl Fn(&Path) -> bool, frames: ChangeFrames) {
    let Some(manifest_path) = paths.iter().find(|path| path.ends_with("MANIFEST")) else { return };
    let Some(mut manifest) = read(disk, manifest_path) else { return };
    let count = u32_at(&manifest, MANIFEST_COUNT).unwrap_or(0) as usize;
    for entry in (0..count).map(|nth| MANIFEST_CHAIN + nth * MANIFEST_ENTRY) {
        let Some(number) = u32_at(&manifest, entry) else { return };
        let stem = format!("{number:08x}");
        let file = paths.iter().find(|path| {
            let is_checkpoint = path.parent().is_some_and(|dir| dir.ends_with("checkpoint"));
            is_checkpoint && is_meant(path) && path.file_stem().is_some_and(|name| name == stem.as_str())
        });
        let changed = file.and_then(|path| Some((path, rewritten(&read(disk, path)?, frames)?)));
        let Some((path, bytes)) = changed else { continue };
        replace(disk, path, &bytes);
        let length = (bytes.len() as u64).to_le_bytes();
        manifest[entry + ENTRY_LENGTH..entry + ENTRY_LENGTH + 8].copy_from_slice(&length);
    }
    let end = manifest.len() - 4;
    let checksum = crc32c::crc32c(&manifest[FILE_HEADER..end]).to_le_bytes();
    manifest[end..].copy_from_slice(&checksum);
    replace(disk, manifest_path, &manifest);
}

/// A checkpoint file with changed frames of the store. `None` if the file is incomplete.
fn rewritten(file: &[u8], frames: ChangeFrames) -> Option<Vec<u8>> {
    let mut out = file.get(..FILE_HEADER)?.to_vec();
    let (mut at, mut ordinal) = (FILE_HEADER, 0u64);
    loop {
        let length = u32_at(file, at)?;
        let size = if length == LAST { 8 } else { length as usize };
        let data = file.get(at + FRAME_HEAD..at + FRAME_HEAD + size)?;
        // The first two frames are the log's and the member's own.
        let kept = if length == LAST || ordinal < 2 { data.to_vec() } else { frames(data)? };
        let shown = if length == LAST { LAST } else { u32::try_from(kept.len()).ok()? };
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&ordinal.to_le_bytes()), &kept);
        out.extend(shown.to_le_bytes());
        out.extend(checksum.to_le_bytes());
        out.extend(&kept);
        (at, ordinal) = (at + FRAME_HEAD + size, ordinal + 1);
        if length == LAST {
            return Some(out);
        }
    }
}

fn without_small_frames(data: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let size = STORE_HEAD + u32_at(rest, 0)? as usize;
        let frame = rest.get(..size)?;
        if !SMALL.contains(&frame[4]) {
            kept.extend(frame);
        }
        rest = &rest[size..];
    }
    Some(kept)
}

/// Frames without those of keys; the last one says that there are none.
fn without_keys(data: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let size = STORE_HEAD + u32_at(rest, 0)? as usize;
        let frame = rest.get(..size)?;
        match frame[4] {
            KEYS => {}
            END => {
                let kind_and_body = [&[END][..], &0u64.to_le_bytes()].concat();
                kept.extend(&frame[..5]);
                kept.extend(crc32c::crc32c(&kind_and_body).to_le_bytes());
                kept.extend(&kind_and_body[1..]);
            }
            _ => kept.extend(frame),
        }
        rest = &rest[size..];
    }
    Some(kept)
}
