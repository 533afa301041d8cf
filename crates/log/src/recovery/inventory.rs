//! The files found when a log is opened: segments with an opening, segments without one, data segments.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::create::FIRST_SEGMENT_BYTES;
use super::scan::{ScannedRecord, SegmentScan};
use super::warning::Warning;
use crate::checkpoint::Manifest;
use crate::disk::{Disk, File};
use crate::error::OpenError;

use crate::format::{
    DATA_SUFFIX, END_BYTES, FileHeader, FileType, HEADER_BYTES, Layout, RecordKind, SEGMENT_SUFFIX,
    SegmentOpening, UNFINISHED_SUFFIX, list, parse_name,
};
use crate::relocation::{DataSegment, FooterLocation, TRAILER_BYTES};

/// Highest number of a file that recovery accepts: one file a second for a lifetime, and half of all numbers are left.
const MAX_NUMBER: u32 = 1 << 31;

/// A segment with a valid opening: part of the log. It is not kept open, because there may be more segments than a
/// process may open files.
pub(super) struct BegunSegment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    pub(super) opening: SegmentOpening,
}

/// A segment file without a valid opening.
pub(super) struct UnbegunSegment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// It has its full length, and no record was written into it under this number.
    pub(super) is_clean: bool,
}

pub(super) struct Inventory {
    /// By number, which is their order in the log.
    pub(super) begun: Vec<BegunSegment>,
    pub(super) unbegun: Vec<UnbegunSegment>,
    pub(super) data: Vec<DataSegment>,
    pub(super) highest_number: u32,
    pub(super) warnings: Vec<Warning>,
}

/// Makes all names durable. A killed process may have left names that a power loss would undo. Files that the newest
/// manifest makes superfluous must not be removed while a power loss could restore an older manifest.
pub(super) fn sync_names(disk: &dyn Disk, layout: &Layout) -> Result<(), OpenError> {
    for dir in [&layout.wal, &layout.data, &layout.checkpoint] {
        if disk.exists(dir).map_err(OpenError::io("look for", dir))? {
            disk.sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        }
    }
    Ok(())
}

/// Removes unfinished files and checkpoints that the manifest does not name.
pub(super) fn remove_unfinished(
    disk: &dyn Disk,
    layout: &Layout,
    manifest: &Manifest,
) -> Result<(), OpenError> {
    for dir in [&layout.wal, &layout.data, &layout.checkpoint] {
        let mut has_removed = false;
        for name in list(disk, dir)? {
            let path = dir.join(&name);
            let unnamed = (name.ends_with(".base") || name.ends_with(".delta"))
                && !manifest.chain.iter().any(|link| link.path(layout) == path);
            let unfinished = name.rsplit_once('.').is_some_and(|(_, suffix)| suffix == UNFINISHED_SUFFIX);
            if unfinished || unnamed {
                disk.remove(&path).map_err(OpenError::io("remove", &path))?;
                has_removed = true;
            }
        }
        if has_removed {
            disk.sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        }
    }
    Ok(())
}

impl Inventory {
    pub(super) fn take(
        disk: &dyn Disk,
        layout: &Layout,
        manifest: &Manifest,
        salt: u32,
    ) -> Result<Inventory, OpenError> {
        let mut inventory = Inventory {
            begun: Vec::new(),
            unbegun: Vec::new(),
            data: Vec::new(),
            highest_number: manifest.next_number.saturating_sub(1),
            warnings: Vec::new(),
        };
        for (number, path) in segments(disk, layout)? {
            inventory.note_number(number);
            inventory.add_segment(disk, number, path, manifest, salt)?;
        }
        for name in list(disk, &layout.data)? {
            if let Some((number, DATA_SUFFIX)) = parse_name(&name) {
                inventory.note_number(number);
                inventory.add_data_segment(disk, number, layout.data_segment(number), manifest)?;
            }
        }
        for link in &manifest.chain {
            inventory.note_number(link.number);
        }
        match inventory.highest_number <= MAX_NUMBER {
            true => Ok(inventory),
            false => Err(OpenError::corrupt(&layout.manifest(), HEADER_BYTES, "file numbers are used up")),
        }
    }

    fn note_number(&mut self, number: u32) {
        self.highest_number = self.highest_number.max(number);
    }

    fn add_segment(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        path: PathBuf,
        manifest: &Manifest,
        salt: u32,
    ) -> Result<(), OpenError> {
        let (file, length) = open(disk, &path)?;
        let header = match read_header(&file, FileType::Segment, &path) {
            Ok(header) => header.check(&manifest.identity, number, &path).map(Ok)?,
            Err(error @ (OpenError::Corrupt { .. } | OpenError::BadMagic { .. })) => Err(error),
            Err(error) => return Err(error),
        };
        let mut scan = SegmentScan::new(&path, file, number, salt, length).of_opening();
        let first = scan.record(HEADER_BYTES)?;
        let opening = match &first {
            ScannedRecord::Valid(head, body) if head.kind == RecordKind::Opening => {
                SegmentOpening::decode(body)
            }
            _ => None,
        };
        match opening {
            // A valid opening says all that the header says: its checksum covers the incarnation and the number.
            Some(opening) => {
                if header.is_err() {
                    self.warnings.push(Warning::Damaged { path: path.clone(), offset: 0 });
                }
                self.begun.push(BegunSegment { number, path, length, opening });
            }
            None => {
                header?;
                let is_whole = length >= FIRST_SEGMENT_BYTES + END_BYTES;
                let is_clean = is_whole && scan.is_clean(HEADER_BYTES)?;
                self.unbegun.push(UnbegunSegment { number, path, length, is_clean });
            }
        }
        Ok(())
    }

    /// Each value of a data segment has a checksum of its own, so a damaged header is a warning, not an error.
    fn add_data_segment(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        path: PathBuf,
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        let (file, length) = open(disk, &path)?;
        match read_header(&file, FileType::DataSegment, &path) {
            Ok(header) => header.check(&manifest.identity, number, &path)?,
            Err(OpenError::Corrupt { .. } | OpenError::BadMagic { .. }) => {
                self.warnings.push(Warning::Damaged { path: path.clone(), offset: 0 });
            }
            Err(error) => return Err(error),
        }
        let footer_bytes = footer_bytes(&file, length).map_err(OpenError::io("read", &path))?;
        self.data.push(DataSegment { number, path, bytes: length, footer_bytes });
        Ok(())
    }
}

/// Bytes of the footer of a data segment; 0 if it has none that can be used.
fn footer_bytes(file: &Arc<dyn File>, length: u64) -> std::io::Result<u64> {
    let Some(start) = length.checked_sub(TRAILER_BYTES) else { return Ok(0) };
    let mut trailer = [0; TRAILER_BYTES as usize];
    let count = file.read_at(&mut trailer, start)?;
    Ok(FooterLocation::decode(&trailer[..count], length).map_or(0, |footer| length - footer.start))
}

fn open(disk: &dyn Disk, path: &Path) -> Result<(Arc<dyn File>, u64), OpenError> {
    let file = disk.open(path).map_err(OpenError::io("open", path))?;
    let length = file.length().map_err(OpenError::io("measure", path))?;
    Ok((file, length))
}

fn read_header(file: &Arc<dyn File>, file_type: FileType, path: &Path) -> Result<FileHeader, OpenError> {
    let mut bytes = [0; HEADER_BYTES as usize];
    let count = file.read_at(&mut bytes, 0).map_err(OpenError::io("read", path))?;
    FileHeader::decode(&bytes[..count], file_type, path)
}

/// All segments by number. One that was being moved may be in both directories. The copy got its name when it was
/// durable, so it is whole, and the original is removed.
fn segments(disk: &dyn Disk, layout: &Layout) -> Result<BTreeMap<u32, PathBuf>, OpenError> {
    let mut found = BTreeMap::new();
    for name in list(disk, &layout.data)? {
        if let Some((number, SEGMENT_SUFFIX)) = parse_name(&name) {
            found.insert(number, layout.moved_segment(number));
        }
    }
    for name in list(disk, &layout.wal)? {
        let Some((number, SEGMENT_SUFFIX)) = parse_name(&name) else { continue };
        let path = layout.segment(number);
        match found.entry(number) {
            Entry::Vacant(vacant) => {
                vacant.insert(path);
            }
            Entry::Occupied(_) => disk.remove(&path).map_err(OpenError::io("remove", &path))?,
        }
    }
    Ok(found)
}
