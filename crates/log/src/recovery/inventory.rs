//! What lies in the directories when the log is opened: swept of what is unfinished, and sorted out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::{Found, Scan};
use super::{FIRST_SEGMENT_BYTES, Warning};
use crate::checkpoint::Manifest;
use crate::disk::{Disk, File};
use crate::error::OpenError;
use crate::header::{FileType, HEADER_BYTES, Header};
use crate::layout::{DATA_SUFFIX, Layout, SEGMENT_SUFFIX, UNFINISHED_SUFFIX, list, parse_name};
use crate::record::{END_BYTES, Kind, Opening};

/// The highest number of a file that is found: a file a second for a lifetime, and as many again before they are used
/// up.
const MAX_NUMBER: u32 = 1 << 31;

/// A segment that was begun.
pub(super) struct Opened {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) length: u64,
    pub(super) opening: Opening,
}

/// A segment file whose first record is not there.
pub(super) struct Unopened {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// It is whole, and nothing was ever written into it under this number.
    pub(super) clean: bool,
}

pub(super) struct Inventory {
    /// By number, which is the order of the log.
    pub(super) opened: Vec<Opened>,
    pub(super) unopened: Vec<Unopened>,
    /// Data segments: number, path, length.
    pub(super) data: Vec<(u32, PathBuf, u64)>,
    pub(super) highest_number: u32,
    pub(super) warnings: Vec<Warning>,
}

/// Makes durable what is found by its name. A process that was killed may have left names that a power loss would undo:
/// files that the newest manifest makes superfluous must not go while an older one can come back.
pub(super) fn settle_names(disk: &dyn Disk, layout: &Layout) -> Result<(), OpenError> {
    for dir in [&layout.wal, &layout.data, &layout.checkpoint] {
        if disk.exists(dir).map_err(OpenError::io("look for", dir))? {
            disk.sync_dir(dir).map_err(OpenError::io("sync", dir))?;
        }
    }
    Ok(())
}

/// Removes unfinished files and checkpoints that the manifest does not name.
pub(super) fn sweep(disk: &dyn Disk, layout: &Layout, manifest: &Manifest) -> Result<(), OpenError> {
    for dir in [&layout.wal, &layout.data, &layout.checkpoint] {
        let mut swept = false;
        for name in list(disk, dir)? {
            let path = dir.join(&name);
            let unnamed = (name.ends_with(".base") || name.ends_with(".delta"))
                && !manifest.chain.iter().any(|link| link.path(layout) == path);
            let unfinished = name.rsplit_once('.').is_some_and(|(_, suffix)| suffix == UNFINISHED_SUFFIX);
            if unfinished || unnamed {
                disk.remove(&path).map_err(OpenError::io("remove", &path))?;
                swept = true;
            }
        }
        if swept {
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
            opened: Vec::new(),
            unopened: Vec::new(),
            data: Vec::new(),
            highest_number: manifest.next_number.saturating_sub(1),
            warnings: Vec::new(),
        };
        for (number, path) in segments(disk, layout)? {
            inventory.note_number(number);
            inventory.look_at(disk, number, path, manifest, salt)?;
        }
        for name in list(disk, &layout.data)? {
            if let Some((number, DATA_SUFFIX)) = parse_name(&name) {
                inventory.note_number(number);
                inventory.look_at_data(disk, number, layout.data_segment(number), manifest)?;
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

    fn look_at(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        path: PathBuf,
        manifest: &Manifest,
        salt: u32,
    ) -> Result<(), OpenError> {
        let (file, length) = open(disk, &path)?;
        read_header(&file, FileType::Segment, &path)?.check(&manifest.identity, number, &path)?;
        let mut scan = Scan::new(&path, file.clone(), number, salt, length);
        let found = scan.record(HEADER_BYTES)?;
        let opening = match &found {
            Found::Record(head, body) if head.kind == Kind::Opening => Opening::decode(body),
            _ => None,
        };
        match opening {
            Some(opening) => self.opened.push(Opened { number, path, file, length, opening }),
            None => {
                let is_whole = length >= FIRST_SEGMENT_BYTES + END_BYTES;
                let clean = is_whole && scan.is_clean(HEADER_BYTES)?;
                self.unopened.push(Unopened { number, path, length, clean });
            }
        }
        Ok(())
    }

    /// A data segment's values check for themselves, so a damaged header is no reason to refuse.
    fn look_at_data(
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
        self.data.push((number, path, length));
        Ok(())
    }
}

fn open(disk: &dyn Disk, path: &Path) -> Result<(Arc<dyn File>, u64), OpenError> {
    let file = disk.open(path).map_err(OpenError::io("open", path))?;
    let length = file.length().map_err(OpenError::io("measure", path))?;
    Ok((file, length))
}

fn read_header(file: &Arc<dyn File>, file_type: FileType, path: &Path) -> Result<Header, OpenError> {
    let mut bytes = [0; HEADER_BYTES as usize];
    let count = file.read_at(&mut bytes, 0).map_err(OpenError::io("read", path))?;
    Header::decode(&bytes[..count], file_type, path)
}

/// All segments by number. One that was being moved lies in both directories; the copy is whole, since it
/// only got its name when it was durable, so the original goes.
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
            Entry::Vacant(address) => {
                address.insert(path);
            }
            Entry::Occupied(_) => disk.remove(&path).map_err(OpenError::io("remove", &path))?,
        }
    }
    Ok(found)
}
