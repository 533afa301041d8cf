//! Opens a log: takes the inventory, indexes the records, and returns the parts from which [`crate::Log`] is composed.

use std::sync::Arc;

use parking_lot::RwLock;

use super::create::{FIRST_SEGMENT_BYTES, refuse_orphans};
use super::index_records::{IndexedRecords, index_records, reusable};
use super::inventory::{BegunSegment, Inventory, UnbegunSegment, remove_unfinished, sync_names};
use super::warning::Warning;
use crate::checkpoint::{Checkpoint, Checkpoints, Manifest};
use crate::disk::{Disk, LockGuard};
use crate::entry_index::EntryIndex;
use crate::error::OpenError;
use crate::format::{Layout, salt};
use crate::options::Options;
use crate::read::{Pins, SharedFiles, Tail, ValueCache, ValueFiles};
use crate::segments::{
    FileNumbers, LogSegment, PreallocatedSegments, SegmentChain, SegmentFactory, UsedFile,
};
use crate::types::{HardState, Identity, LogId, address_at, file_of, offset_of};

/// What a log held when it was opened. Load the checkpoint, retain its references, replay the entries after it, then
/// call [`crate::Log::loaded`].
pub struct Recovered {
    /// The owner of the data directory.
    pub identity: Identity,
    /// The newest durable hard state; commit lies between the checkpoint and the last entry.
    pub hard_state: HardState,
    /// The newest checkpoint, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// First entry in the log.
    pub first_index: u64,
    /// Last entry in the log; one below `first_index` if there is none.
    pub last_index: u64,
    /// Entries after the checkpoint whose bodies are damaged, in order. They must be
    /// [repaired](crate::Log::repair_entry) before anything relies on the log, its last index and its terms included.
    pub damaged: Vec<LogId>,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

/// The parts of an opened log.
pub(crate) struct LogParts {
    pub(crate) shared: Arc<SharedFiles>,
    pub(crate) factory: SegmentFactory,
    pub(crate) numbers: FileNumbers,
    pub(crate) salt: u32,
    pub(crate) index: EntryIndex,
    pub(crate) chain: SegmentChain,
    pub(crate) preallocated: PreallocatedSegments,
    pub(crate) checkpoints: Checkpoints,
    /// End of the log.
    pub(crate) end: u64,
    pub(crate) recovered: Recovered,
    pub(crate) lock: Box<dyn LockGuard>,
}

/// Opens a log: finds its end, cuts off a torn write, refuses corruption.
pub(crate) fn open(disk: &Arc<dyn Disk>, options: &Options) -> Result<LogParts, OpenError> {
    let layout = Layout::new(options);
    layout.refuse_etcd(disk.as_ref())?;
    let manifest_path = layout.manifest();
    if !disk.exists(&manifest_path).map_err(OpenError::io("look for", &manifest_path))? {
        refuse_orphans(disk.as_ref(), &layout)?;
        return Err(OpenError::Absent { path: options.data_dir.clone() });
    }
    let lock = layout.lock(disk.as_ref())?;
    sync_names(disk.as_ref(), &layout)?;
    let manifest = Manifest::read(disk.as_ref(), &manifest_path)?;
    remove_unfinished(disk.as_ref(), &layout, &manifest)?;
    let salt = salt(manifest.identity.incarnation);
    let mut inventory = Inventory::take(disk.as_ref(), &layout, &manifest, salt)?;
    let checkpoint = manifest.chain.last().map_or(LogId::default(), |link| link.id);
    let indexed = index_records(disk.as_ref(), &mut inventory, checkpoint, salt, &manifest_path)?;
    let (old, kept) = reusable(&mut inventory, disk.as_ref(), salt)?;
    let found = FoundLog { layout: Arc::new(layout), manifest, inventory, old, kept, indexed };
    Ok(found.assemble(disk, options, salt, lock))
}

/// What recovery found in a data directory.
struct FoundLog {
    layout: Arc<Layout>,
    manifest: Manifest,
    inventory: Inventory,
    /// Segment files without records, which can be recycled.
    old: Vec<UsedFile>,
    /// Segment files that may hold values, but whose opening is damaged.
    kept: Vec<UnbegunSegment>,
    indexed: IndexedRecords,
}

impl FoundLog {
    fn assemble(
        self,
        disk: &Arc<dyn Disk>,
        options: &Options,
        salt: u32,
        lock: Box<dyn LockGuard>,
    ) -> LogParts {
        let shared = Arc::new(SharedFiles {
            files: ValueFiles::new(disk.clone(), options.open_files),
            tail: RwLock::new(Tail::new(options.tail_bytes)),
            cache: ValueCache::new(options.cache_bytes),
            pins: Pins::default(),
        });
        self.insert_files(&shared.files);
        let factory = SegmentFactory {
            disk: disk.clone(),
            layout: self.layout,
            identity: self.manifest.identity,
            segment_bytes: options.segment_bytes,
        };
        let numbers = FileNumbers::after(self.inventory.highest_number);
        let checkpoints = Checkpoints::new(factory.clone(), numbers.clone(), self.manifest);
        let recovered = Recovered {
            identity: factory.identity,
            hard_state: self.indexed.hard_state,
            checkpoint: checkpoints.newest(),
            first_index: self.indexed.index.first(),
            last_index: self.indexed.index.last().index,
            damaged: self.indexed.damaged_ids(),
            warnings: self.inventory.warnings,
        };
        // Only files in the WAL directory can become segments again.
        let wal = &factory.layout.wal;
        let old = self.old.into_iter().filter(|old| old.path.parent() == Some(wal.as_path())).collect();
        let wanted = 1 + options.reserve_segments;
        LogParts {
            shared,
            salt,
            index: self.indexed.index,
            chain: SegmentChain::new(self.inventory.begun.iter().map(log_segment)),
            preallocated: PreallocatedSegments::new(factory.clone(), numbers.clone(), wanted, old),
            checkpoints,
            end: self.indexed.end,
            recovered,
            lock,
            factory,
            numbers,
        }
    }

    /// Registers every file that may hold values.
    fn insert_files(&self, files: &ValueFiles) {
        let begun = &self.inventory.begun;
        for (at, segment) in begun.iter().enumerate() {
            let recorded = match begun.get(at + 1).map(|next| next.opening.previous_end) {
                Some(end) if file_of(end) == segment.number => u64::from(offset_of(end)),
                Some(_) => segment.length,
                None => u64::from(offset_of(self.indexed.end)),
            };
            let file = files.insert(segment.number, &segment.path);
            files.set_recorded(&file, recorded);
            file.note_written(recorded);
        }
        for unbegun in &self.kept {
            files.insert_written(unbegun.number, &unbegun.path, unbegun.length, 0);
        }
        for data in &self.inventory.data {
            files.insert_written(data.number, &data.path, data.bytes, data.footer_bytes);
        }
    }
}

fn log_segment(begun: &BegunSegment) -> LogSegment {
    LogSegment {
        number: begun.number,
        previous_index: begun.opening.previous_index,
        opened_at: address_at(begun.number, FIRST_SEGMENT_BYTES),
    }
}
