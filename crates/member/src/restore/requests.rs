//! Requests that a state from elsewhere does not have yet, on top of it.
//!
//! ```text
//! requests     1. values of the file -> data segments, readable from here on
//!              2. for each request: its bytes -> data segment, request -> store
//! finish       members, then the index as chunks -> base checkpoint; synced; manifest
//! ```
//!
//! The bytes of a request are stored whole and referred to in part, as the payload of an entry is. Those that were
//! written last are also in memory: transactions may compare their values before the data segment is whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use store::{Caller, Command, Damaged, ImportReplay, ImportTotals, Outcome, ValueRef, Values};

use super::{RestoreParts, StateRestore, write_state};
use crate::open::OpenMemberError;
use crate::values::LogValues;

/// Bytes of requests in memory; about a segment.
const MAX_RECENT_BYTES: usize = 64 << 20;

/// A data directory whose state is changed by requests before it is whole.
pub struct RequestRestore {
    parts: RestoreParts,
    values: Arc<ReplayValues>,
    replay: ImportReplay,
}

impl StateRestore {
    /// Ends the versions; requests may follow.
    ///
    /// # Errors
    /// A state that no store has, or the disk.
    pub fn requests(self) -> Result<RequestRestore, OpenMemberError> {
        let StateRestore { mut parts, reader, state } = self;
        let (restored, totals) = state.finish()?;
        parts.log.make_installed_readable(&mut parts.installer)?;
        let values = Arc::new(ReplayValues { log: LogValues::new(reader), recent: RwLock::default() });
        let replay = ImportReplay::new(restored, totals, Arc::clone(&values) as Arc<dyn Values>);
        Ok(RequestRestore { parts, values, replay })
    }
}

impl RequestRestore {
    /// Applies a request, as a member applies one that was committed: it may be refused. Its values are slices of
    /// `bytes`.
    ///
    /// # Errors
    /// The disk.
    pub fn apply(
        &mut self,
        caller: Caller,
        command: Command,
        bytes: Bytes,
    ) -> Result<Outcome, OpenMemberError> {
        let mut address = 0;
        if matches!(command, Command::Put(_) | Command::Txn(_)) && !bytes.is_empty() {
            address = self.parts.installer.write_value(&bytes, crc32c::crc32c(&bytes))?;
            if self.values.remember(address, &bytes) > MAX_RECENT_BYTES {
                self.parts.log.make_installed_readable(&mut self.parts.installer)?;
                *self.values.recent.write() = RecentRequests::default();
            }
        }
        let applied = self.replay.apply(caller, command, bytes, address);
        applied.map_err(|damaged| OpenMemberError::Read { reason: damaged.to_string() })
    }

    /// Raises the newest revision by so much, and compacts at it.
    ///
    /// # Errors
    /// No store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), OpenMemberError> {
        Ok(self.replay.raise_revision(by)?)
    }

    /// Ends it: the directory is whole when this returns.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self) -> Result<ImportTotals, OpenMemberError> {
        let RequestRestore { parts, replay, .. } = self;
        let RestoreParts { log, installer, conf } = parts;
        let (store, totals) = replay.finish();
        write_state(installer, &conf, &store)?;
        drop(log);
        Ok(totals)
    }
}

/// Values that are written to the directory. References are not counted: the next open does.
struct ReplayValues {
    log: LogValues,
    /// Requests in a data segment that is not whole, by address.
    recent: RwLock<RecentRequests>,
}

#[derive(Default)]
struct RecentRequests {
    by_address: BTreeMap<u64, Bytes>,
    total_bytes: usize,
}

impl ReplayValues {
    /// Keeps a request, and returns how many bytes are kept.
    fn remember(&self, address: u64, bytes: &Bytes) -> usize {
        let mut recent = self.recent.write();
        recent.total_bytes += bytes.len();
        recent.by_address.insert(address, bytes.clone());
        recent.total_bytes
    }
}

impl Values for ReplayValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        self.read_in_memory(value).map_or_else(|| self.log.read(value), Ok)
    }

    fn read_in_memory(&self, value: &ValueRef) -> Option<Bytes> {
        let recent = self.recent.read();
        let (address, bytes) = recent.by_address.range(..=value.address).next_back()?;
        let begin = usize::try_from(value.address - address).ok()?;
        let end = begin.checked_add(value.len as usize).filter(|end| *end <= bytes.len())?;
        Some(bytes.slice(begin..end))
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}
