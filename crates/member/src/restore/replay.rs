//! A state from elsewhere, and entries of its cluster applied to it: a restore to any entry that was backed up.
//!
//! ```text
//! StateRestore   base: the state after entry 900 of the old cluster
//! into_replay
//! apply 901      payload -> data segment, whole; commands -> store, whose values are parts of that payload
//! apply 902      ...
//! finish         the state -> base checkpoint at the first entry of the new cluster
//! ```
//!
//! Commands about members, the cluster version and the command set are passed over, as in the base: they belong to the
//! old cluster. All others are applied as its members applied them, with the terms of their entries, so the data after
//! an entry has the hash that it had there.
//!
//! A payload is written as a whole, with values that later ones replaced, and what is dead of it is relocated away
//! later, as in a log.

use bytes::Bytes;
use consensus::{ConfState, EntryKind, Start};
use log::{Log, SnapshotInstaller, StoredValue};
use store::{AppliedId, BatchContext, Caller, Damaged, DataState, Reader, Slice, Store, ValueRef, Values};

use super::write_state;
use crate::apply::{callers, decode_all};
use crate::open::OpenMemberError;
use crate::proposals::batch::{self, BatchError, CommandKind, LogCommand};

/// Changes below the compact revision that are dropped after each entry: more than an entry can make.
const MAX_PURGE_STEPS: usize = 16_384;

/// A state to which entries are applied. See the module.
pub struct EntryReplay {
    log: Log,
    installer: Box<SnapshotInstaller>,
    store: Store,
    reader: Reader,
    conf: ConfState,
    /// Counts applications for the store, which wants indexes that rise: a batch may be applied in parts.
    next_index: u64,
    /// Commands applied of the entry that was applied last, if it was applied in part.
    part: u64,
}

/// Nothing is read during a replay but what [`Slice::NeedsValues`] asks for, and files are kept as they are.
pub(super) struct UnreadValues;

impl Values for UnreadValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let reason = "values are not read during a restore".into();
        Err(Damaged { address: value.address, len: value.len, key: None, reason, is_transient: false })
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

impl EntryReplay {
    pub(super) fn new(
        log: Log,
        installer: Box<SnapshotInstaller>,
        mut store: Store,
        conf: ConfState,
    ) -> EntryReplay {
        store.begin_replay();
        let reader = store.reader();
        let next_index = Start::BOOTSTRAP.0 + 1;
        EntryReplay { log, installer, store, reader, conf, next_index, part: 0 }
    }

    /// The data as it is now. Its entry is one of the new cluster.
    pub fn data(&self) -> DataState {
        // Between two entries there always is one.
        self.reader.data_state().expect("no entry is being applied")
    }

    /// The number of live keys.
    pub fn keys(&self) -> u64 {
        self.reader.counts().keys
    }

    /// How many commands were applied of the last entry, if it was left before its end; else 0.
    pub fn part(&self) -> u64 {
        self.part
    }

    /// Applies the next entry. Stops behind the command that makes the revision `until`, and returns whether it did.
    ///
    /// # Errors
    /// The entry is none that this release can apply; or the disk.
    pub fn apply(&mut self, entry: &log::Entry, until: Option<i64>) -> Result<bool, OpenMemberError> {
        let refused = |reason: String| OpenMemberError::Replay { index: entry.index, reason };
        let kind = EntryKind::from_u8(entry.kind)
            .ok_or_else(|| refused(format!("it is of kind {}, which is not known here", entry.kind)))?;
        self.part = 0;
        if kind != EntryKind::Batch {
            return Ok(false);
        }
        let commands = data_commands(&entry.payload).map_err(|error| refused(error.to_string()))?;
        let (decoded, store_commands) = decode_all(commands);
        if store_commands.is_empty() {
            return Ok(false);
        }
        let callers = callers(&decoded);
        let written = self.installer.write_value(&entry.payload, crc32c::crc32c(&entry.payload));
        let payload = (written.map_err(OpenMemberError::from)?, entry.payload.clone());
        let revision = self.data().revision;
        let highest = revision.saturating_add_unsigned(store_commands.len() as u64);
        if until.is_none_or(|until| highest < until) {
            self.apply_commands(entry.term, &payload, store_commands, callers)?;
            self.store.purge_step(MAX_PURGE_STEPS);
            return Ok(false);
        }
        for (at, command) in store_commands.into_iter().enumerate() {
            let caller = callers.get(at).cloned();
            self.apply_commands(entry.term, &payload, vec![command], caller.into_iter().collect())?;
            if until.is_some_and(|until| self.data().revision >= until) {
                self.part = at as u64 + 1;
                return Ok(true);
            }
        }
        self.store.purge_step(MAX_PURGE_STEPS);
        Ok(false)
    }

    fn apply_commands(
        &mut self,
        term: u64,
        payload: &(u64, Bytes),
        commands: Vec<store::Command>,
        callers: Vec<Caller>,
    ) -> Result<(), OpenMemberError> {
        let context = BatchContext {
            payload: payload.1.clone(),
            payload_address: payload.0,
            callers,
            ..BatchContext::at(self.next_index, term)
        };
        self.next_index += 1;
        self.store.begin_batch(context, commands);
        loop {
            match self.store.apply_slice(&mut 0) {
                Slice::Partial { .. } => {}
                Slice::NeedsValues(wanted) => {
                    let mut values = Vec::with_capacity(wanted.len());
                    for value in wanted {
                        let ValueRef { address, len, checksum } = value;
                        let bytes = self.installer.read_value(StoredValue { address, len, checksum })?;
                        values.push((value, bytes.into()));
                    }
                    self.store.supply_values(values.into_iter());
                }
                Slice::Last(_) => return Ok(()),
            }
        }
    }

    /// Ends it: the directory is whole when this returns, and holds a member of a new cluster. Members of the cluster
    /// must be made with the same `lineage`, not 0, which tells states apart.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self, lineage: u64) -> Result<DataState, OpenMemberError> {
        let data = self.data();
        let EntryReplay { log, installer, mut store, conf, .. } = self;
        store.end_replay();
        while !store.purge_step(MAX_PURGE_STEPS) {}
        let (index, term) = Start::BOOTSTRAP;
        store.begin_cluster(AppliedId { index, term }, lineage.max(1));
        write_state(installer, &conf, &store)?;
        drop(log);
        Ok(data)
    }
}

/// When an entry was proposed, by the clock of its leader, in milliseconds since 1970; `None` if it has no commands.
pub fn entry_clock_ms(entry: &log::Entry) -> Option<u64> {
    let is_batch = EntryKind::from_u8(entry.kind) == Some(EntryKind::Batch);
    if is_batch { batch::clock_ms(&entry.payload) } else { None }
}

/// The commands of a batch but for those about the cluster. As for members, a batch that does not decode has none.
///
/// # Errors
/// It was written by a newer release.
fn data_commands(payload: &Bytes) -> Result<Vec<LogCommand>, BatchError> {
    let mut commands = match batch::decode(payload) {
        Err(error @ BatchError::Version(_)) => return Err(error),
        decoded => decoded.map(|batch| batch.commands).unwrap_or_default(),
    };
    commands.retain(|command| {
        !matches!(
            command.kind,
            CommandKind::ClusterVersion
                | CommandKind::Publish
                | CommandKind::CommandSet
                | CommandKind::DowngradeInfo
        )
    });
    Ok(commands)
}
