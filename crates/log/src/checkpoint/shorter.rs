//! Repair of a log that is not open: a chain of checkpoints without its newest ones.
//!
//! A checkpoint that cannot be read makes a log useless, although its entries may still be there. The state of an older
//! checkpoint and the entries after it make the same state. Whether all of them, and all values, are still there is for
//! the caller to find out, before it commits: opened over a disk that shows [`ShorterManifest::bytes`] as the manifest,
//! the log must load, and every value must be readable.
//!
//! ```text
//!   MANIFEST  [ base 2a, entry 100 ] -> [ delta 2d, entry 140 ] -> [ delta 31, damaged ]
//!   shorter   [ base 2a, entry 100 ] -> [ delta 2d, entry 140 ]       and entries from 141 on are replayed
//! ```

use std::path::{Path, PathBuf};

use super::manifest::Manifest;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::Layout;
use crate::options::Options;
use crate::types::LogId;

/// A manifest without its newest checkpoints.
pub struct ShorterManifest {
    layout: Layout,
    path: PathBuf,
    before: Manifest,
    manifest: Manifest,
}

impl ShorterManifest {
    /// The manifest of a log without its `dropped` newest checkpoints. None if no checkpoint would be left.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn plan(
        disk: &dyn Disk,
        options: &Options,
        dropped: usize,
    ) -> Result<Option<ShorterManifest>, OpenError> {
        let layout = Layout::new(options);
        let path = layout.manifest();
        let before = Manifest::read(disk, &path)?;
        let kept = before.chain.len().saturating_sub(dropped);
        if kept == 0 {
            return Ok(None);
        }
        let mut manifest = before.clone();
        // The numbers of dropped files are not used again.
        let highest = before.chain.iter().map(|link| link.number).max().unwrap_or(0);
        manifest.next_number = manifest.next_number.max(highest.saturating_add(1));
        manifest.chain.truncate(kept);
        Ok(Some(ShorterManifest { layout, path, before, manifest }))
    }

    /// Where the manifest is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the shorter one.
    pub fn bytes(&self) -> Vec<u8> {
        self.manifest.encode()
    }

    /// The entry of the newest checkpoint that is left.
    pub fn newest(&self) -> LogId {
        self.manifest.chain.last().map_or(LogId::default(), |link| link.id)
    }

    /// Replaces the manifest. The next start removes the files that it does not name.
    ///
    /// # Errors
    /// A process uses the log, the manifest has changed meanwhile, or the system refuses.
    pub fn commit(self, disk: &dyn Disk) -> Result<(), OpenError> {
        let _lock = self.layout.lock(disk)?;
        if Manifest::read(disk, &self.path)? != self.before {
            return Err(OpenError::corrupt(&self.path, 0, "it has changed while the log was repaired"));
        }
        self.manifest
            .write_unfinished(disk, &self.layout)
            .and_then(|()| Manifest::replace_by_unfinished(disk, &self.layout))
            .map_err(OpenError::io("replace", &self.path))
    }
}
