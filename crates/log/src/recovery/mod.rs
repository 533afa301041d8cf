//! Creating a log, and opening one after whatever happened to it.
//!
//! What is durable comes back whole; of what was not acknowledged a prefix may. Damage is never taken for a
//! torn write when anything proves that the bytes were durable: it refuses to start if they must be replayed,
//! else it is a warning. A log is never continued in the segment where it ended: what a crash left behind
//! there cannot come back to life.

mod inventory;
mod scan;
mod walk;

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::RwLock;

use crate::cache::ValueCache;
use crate::checkpoint::{Checkpoint, Checkpoints, Manifest};
use crate::disk::{Disk, LockGuard};
use crate::error::OpenError;
use crate::files::Files;
use crate::header::{FileType, HEADER_BYTES, Header};
use crate::layout::{Layout, SEGMENT_SUFFIX, file_name, list, parse_name};
use crate::log::{Log, Segment};
use crate::pins::Pins;
use crate::prepare::{SegmentFactory, Used};
use crate::reader::{Reader, SharedFiles};
use crate::record::{self, Head, Kind, Opening};
use crate::spares::{Numbers, PreallocatedSegments};
use crate::tail::Tail;
use crate::types::{HardState, Identity, LogId, Options, address_at, file_of, offset_of};

use inventory::Inventory;

/// The segment that creating a log writes; it holds nothing but its opening.
const FIRST_SEGMENT: u32 = 1;
const FIRST_SEGMENT_BYTES: u64 = HEADER_BYTES + record::span(Opening::BYTES);

/// Something to tell the operator; the log works all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The log ended in something that does not check and has been cut off: most likely a write that a crash tore
    /// before it was acknowledged. Nothing proves that it was durable.
    TornTail {
        /// The segment.
        path: PathBuf,
        /// Where it was cut.
        offset: u64,
        /// How much of the file lay behind.
        bytes: u64,
    },
    /// Something that need not be replayed does not check. Values there are checked when they are read.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::TornTail { path, offset, bytes } => write!(
                out,
                "{} ended in a record that does not check, as a write torn by a crash does: cut at offset {offset}, \
                 with the {bytes} bytes of the file behind it",
                path.display()
            ),
            Warning::Damaged { path, offset } => {
                write!(out, "{} is damaged at offset {offset}, outside of what is replayed", path.display())
            }
        }
    }
}

/// An opened log.
pub struct Opened {
    /// The owner's side.
    pub log: Log,
    /// The readers' side.
    pub reader: Reader,
    /// What was found.
    pub recovered: Recovered,
}

/// What a log held when it was opened. Load the checkpoint, retain what it references, replay the entries
/// behind it, then call [`Log::loaded`].
pub struct Recovered {
    /// Whose log it is.
    pub identity: Identity,
    /// The newest durable hard state; commit lies between the checkpoint and the last entry.
    pub hard_state: HardState,
    /// The newest checkpoint, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// First entry in the log.
    pub first_index: u64,
    /// Last entry in the log; one below `first_index` if there is none.
    pub last_index: u64,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

impl Log {
    /// Whether a data directory holds a log. One that belongs to etcd is an error.
    pub fn exists(disk: &dyn Disk, options: &Options) -> Result<bool, OpenError> {
        let layout = Layout::new(options);
        layout.refuse_etcd(disk)?;
        let path = layout.manifest();
        disk.exists(&path).map_err(OpenError::io("look for", &path))
    }

    /// Creates an empty log, durably. A creation that was cut short can be begun again.
    pub fn create(disk: &Arc<dyn Disk>, options: &Options, identity: Identity) -> Result<(), OpenError> {
        let layout = Layout::new(options);
        layout.refuse_etcd(disk.as_ref())?;
        layout.create_directories(disk.as_ref())?;
        let _lock = layout.lock(disk.as_ref())?;
        let manifest_path = layout.manifest();
        if disk.exists(&manifest_path).map_err(OpenError::io("look for", &manifest_path))? {
            return Err(OpenError::Present { path: options.data_dir.clone() });
        }
        refuse_orphans(disk.as_ref(), &layout)?;
        write_first_segment(disk.as_ref(), &layout, identity)?;
        let manifest = Manifest { identity, next_number: FIRST_SEGMENT + 1, chain: Vec::new() };
        manifest.replace(disk.as_ref(), &layout).map_err(OpenError::io("write", &manifest_path))
    }

    /// Opens a log: finds its end, cuts a torn tail, refuses corruption.
    pub fn open(disk: &Arc<dyn Disk>, options: &Options) -> Result<Opened, OpenError> {
        let layout = Layout::new(options);
        layout.refuse_etcd(disk.as_ref())?;
        let manifest_path = layout.manifest();
        if !disk.exists(&manifest_path).map_err(OpenError::io("look for", &manifest_path))? {
            refuse_orphans(disk.as_ref(), &layout)?;
            return Err(OpenError::Absent { path: options.data_dir.clone() });
        }
        let lock = layout.lock(disk.as_ref())?;
        inventory::settle_names(disk.as_ref(), &layout)?;
        let manifest = Manifest::read(disk.as_ref(), &manifest_path)?;
        inventory::sweep(disk.as_ref(), &layout, &manifest)?;
        let salt = record::salt(manifest.identity.incarnation);
        let mut inventory = Inventory::take(disk.as_ref(), &layout, &manifest, salt)?;
        let checkpoint = manifest.chain.last().map_or(LogId::default(), |link| link.id);
        let walk = walk::walk(&mut inventory, checkpoint, salt, &manifest_path)?;
        let (old, kept) = walk::reusable(&mut inventory, disk.as_ref(), salt)?;
        let found = Found { layout: Arc::new(layout), manifest, inventory, old, kept, walk };
        Ok(found.assemble(disk, options, salt, lock))
    }

    /// To be called once, when the checkpoint is loaded, its references are retained and the entries behind
    /// it are replayed: files that nothing ever referenced are freed, and files that are referenced but
    /// missing are an error.
    pub fn loaded(&mut self) -> Result<(), OpenError> {
        let mut missing = Vec::new();
        let needed = self.needed_segments(u64::MAX);
        for file in self.shelf.files.all() {
            if file.is_absent() && file.live() > 0 {
                missing.push(file.number);
            } else if !file.was_referenced() && !needed.contains(&file.number) {
                self.unreferenced.insert(file.number);
            }
        }
        if !missing.is_empty() {
            let path = self.workshop.layout.data_dir.clone();
            return Err(OpenError::MissingFiles { numbers: missing, path });
        }
        self.retire_unreferenced();
        Ok(())
    }
}

/// Without a manifest there must be no segments, except the one that an unfinished creation leaves.
fn refuse_orphans(disk: &dyn Disk, layout: &Layout) -> Result<(), OpenError> {
    for name in list(disk, &layout.wal)? {
        let Some((number, SEGMENT_SUFFIX)) = parse_name(&name) else { continue };
        let path = layout.wal.join(&name);
        let file = disk.open(&path).map_err(OpenError::io("open", &path))?;
        let length = file.length().map_err(OpenError::io("measure", &path))?;
        if number != FIRST_SEGMENT || length != FIRST_SEGMENT_BYTES {
            return Err(OpenError::NoManifest { manifest: layout.manifest(), segment: path });
        }
    }
    Ok(())
}

fn write_first_segment(disk: &dyn Disk, layout: &Layout, identity: Identity) -> Result<(), OpenError> {
    let opening = Opening { first_index: 1, ..Opening::default() }.encode();
    let head = Head {
        segment: FIRST_SEGMENT,
        length: opening.len() as u32,
        kind: Kind::Opening,
        synced: 0,
        checksum: crc32c::crc32c(&opening),
    };
    let header = Header { file_type: FileType::Segment, number: FIRST_SEGMENT, identity };
    let mut bytes = BytesMut::from(&header.encode()[..]);
    head.encode(record::salt(identity.incarnation), &mut bytes);
    bytes.extend_from_slice(&opening);
    bytes.resize(FIRST_SEGMENT_BYTES as usize, 0);
    let path = layout.segment(FIRST_SEGMENT);
    let unfinished = layout.wal.join(file_name(FIRST_SEGMENT, crate::layout::UNFINISHED_SUFFIX));
    let write = || {
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let file = disk.create_new(&unfinished)?;
        file.write_at(&[IoSlice::new(&bytes)], 0)?;
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(&layout.wal)
    };
    write().map_err(OpenError::io("create", &path))
}

/// Everything that opening found.
struct Found {
    layout: Arc<Layout>,
    manifest: Manifest,
    inventory: Inventory,
    old: Vec<Used>,
    kept: Vec<inventory::Unopened>,
    walk: walk::Walk,
}

impl Found {
    fn assemble(
        self,
        disk: &Arc<dyn Disk>,
        options: &Options,
        salt: u32,
        lock: Box<dyn LockGuard>,
    ) -> Opened {
        let shelf = Arc::new(SharedFiles {
            files: Files::new(disk.clone(), options.open_files),
            tail: RwLock::new(Tail::new(options.tail_bytes)),
            cache: ValueCache::new(options.cache_bytes),
            pins: Pins::default(),
        });
        self.shelve(&shelf);
        let workshop = SegmentFactory {
            disk: disk.clone(),
            layout: self.layout,
            identity: self.manifest.identity,
            segment_bytes: options.segment_bytes,
        };
        let checkpoints = Checkpoints::new(self.manifest);
        let recovered = Recovered {
            identity: workshop.identity,
            hard_state: self.walk.hard_state,
            checkpoint: checkpoints.source(&workshop),
            first_index: self.walk.index.first(),
            last_index: self.walk.index.last().index,
            warnings: self.inventory.warnings.clone(),
        };
        // Only files in the WAL directory can become segments again.
        let wal = &workshop.layout.wal;
        let old = self.old.into_iter().filter(|old| old.path.parent() == Some(wal.as_path())).collect();
        let end = self.walk.end;
        let log = Log {
            shelf: shelf.clone(),
            workshop,
            numbers: Numbers::after(self.inventory.highest_number),
            salt,
            index: self.walk.index,
            hard_state: self.walk.hard_state,
            segments: self.inventory.opened.iter().map(segment).collect(),
            active: None,
            spares: PreallocatedSegments::new(1 + options.reserve_segments, old),
            position: end,
            durable: end,
            stamped: end,
            content_end: end,
            failed: false,
            checkpoints,
            unreferenced: Default::default(),
            young: Default::default(),
            installed: Vec::new(),
            retired: Vec::new(),
            removable: Vec::new(),
            moving: None,
            wal_dir_bytes: options.wal_dir_bytes,
            _lock: lock,
        };
        Opened { log, reader: Reader { shelf }, recovered }
    }

    /// Makes every file known that may hold values.
    fn shelve(&self, shelf: &SharedFiles) {
        let opened = &self.inventory.opened;
        for (at, segment) in opened.iter().enumerate() {
            let recorded = match opened.get(at + 1).map(|next| next.opening.previous_end) {
                Some(end) if file_of(end) == segment.number => u64::from(offset_of(end)),
                Some(_) => segment.length,
                None => u64::from(offset_of(self.walk.end)),
            };
            let file = shelf.files.insert(segment.number, &segment.path);
            shelf.files.set_recorded(&file, recorded);
            file.note_written(recorded);
        }
        for unopened in &self.kept {
            let file = shelf.files.insert(unopened.number, &unopened.path);
            shelf.files.set_recorded(&file, unopened.length);
        }
        for (number, path, length) in &self.inventory.data {
            let file = shelf.files.insert(*number, path);
            shelf.files.set_recorded(&file, *length);
        }
    }
}

fn segment(opened: &inventory::Opened) -> Segment {
    Segment {
        number: opened.number,
        previous_index: opened.opening.previous_index,
        opened_at: address_at(opened.number, FIRST_SEGMENT_BYTES),
    }
}
