//! A disk in memory and what all components of a log share, for the unit tests of this crate.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::disk::{Disk, MemDisk};
use crate::error::{JobError, OpenError};
use crate::format::Layout;
use crate::options::Options;
use crate::read::{Pins, SharedFiles, Tail, ValueCache, ValueFiles};
use crate::segments::{FileNumbers, LogSegment, PreallocatedSegments, SegmentChain, SegmentFactory};
use crate::types::{Identity, address_at};

/// Length of a segment.
pub(crate) const SEGMENT_BYTES: u64 = 4096;

/// What components of a log are made with. Files are numbered from 1.
pub(crate) struct Parts {
    pub(crate) disk: MemDisk,
    pub(crate) layout: Arc<Layout>,
    pub(crate) factory: SegmentFactory,
    pub(crate) numbers: FileNumbers,
    pub(crate) shared: Arc<SharedFiles>,
}

impl Parts {
    /// Empty directories, with a WAL directory outside of the data directory.
    pub(crate) fn new() -> Result<Parts, OpenError> {
        Parts::with_layout(Some("/wal"))
    }

    pub(crate) fn with_layout(wal_dir: Option<&str>) -> Result<Parts, OpenError> {
        let disk = MemDisk::new();
        let layout =
            Arc::new(Layout::new(&Options { wal_dir: wal_dir.map(Into::into), ..Options::new("/data") }));
        layout.create_directories(&disk)?;
        let shared_disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let shared = Arc::new(SharedFiles {
            files: ValueFiles::new(shared_disk.clone(), 4),
            tail: RwLock::new(Tail::new(1 << 20)),
            cache: ValueCache::new(0),
            pins: Pins::default(),
        });
        let identity = Identity { cluster_id: 0xc1, member_id: 0xa2, incarnation: 0x1f };
        let factory = SegmentFactory {
            disk: shared_disk,
            layout: layout.clone(),
            identity,
            segment_bytes: SEGMENT_BYTES,
        };
        Ok(Parts { disk, layout, factory, numbers: FileNumbers::after(0), shared })
    }

    /// Preallocated segments of which `wanted` should be ready, none so far.
    pub(crate) fn preallocated(&self, wanted: usize) -> PreallocatedSegments {
        PreallocatedSegments::new(self.factory.clone(), self.numbers.clone(), wanted, Vec::new())
    }

    /// Makes the next `count` segments of a log, with `recorded` bytes each.
    pub(crate) fn segments(&self, count: usize, recorded: u64) -> Result<SegmentChain, JobError> {
        let mut chain = SegmentChain::new(std::iter::empty());
        for _ in 0..count {
            let number = self.numbers.next();
            let path = self.layout.segment(number);
            self.factory.segment(number, SEGMENT_BYTES, None).map_err(JobError::io("prepare", &path))?;
            self.shared.files.insert_written(number, &path, recorded, 0);
            let opened_at = address_at(number, 152);
            chain.push(LogSegment { number, previous_index: u64::from(number) * 10, opened_at });
        }
        Ok(chain)
    }

    /// The names of the files in a directory.
    pub(crate) fn names(&self, dir: &Path) -> Vec<String> {
        self.disk.list(dir).unwrap_or_default()
    }
}
