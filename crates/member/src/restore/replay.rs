//! A state from elsewhere, and what is applied to it before the directory is whole: entries of its cluster, for a
//! restore to any of them, or requests that etcd had logged behind its database.
//!
//! ```text
//! StateRestore   base: the state after entry 900
//! into_replay
//! apply_entry    901: payload -> data segment, whole; commands -> store, whose values are parts of that payload
//! apply_entry    902: ...
//! finish         the state -> base checkpoint at the first entry of the new directory
//! ```
//!
//! A request of etcd goes the same way: its bytes are the payload, and it is the one command.
//!
//! Commands about members, the cluster version and the command set are skipped: the directory was begun with its
//! members, those of a new cluster, or, in an import, those that stay, changed by the same requests. All others are
//! applied as its members applied them, with the terms of their entries, so the data after an entry has the hash that
//! it had there.
//!
//! A payload is written as a whole, with values that later ones replaced, and what is dead of it is relocated away
//! later, as in a log. Values that transactions compare are read back from the files that are being written.

use bytes::Bytes;
use consensus::{EntryKind, Start};
use log::StoredValue;
use store::{BatchContext, Caller, DataState, ImportReplay, ImportTotals, Outcome, ValueRef};

use super::{RestoreParts, StateRestore, write_state};
use crate::apply::{callers, decode_all};
use crate::open::OpenMemberError;
use crate::proposals::batch::{self, BatchError, CommandKind, LogCommand};

/// A state to which entries or requests are applied. See the module.
pub struct StateReplay {
    parts: RestoreParts,
    replay: ImportReplay,
    /// Commands applied of the entry that was applied last, if it was applied in part.
    part: u64,
}

impl StateRestore {
    /// Ends the versions; entries or requests may follow.
    ///
    /// # Errors
    /// A state that no store has.
    pub fn into_replay(self) -> Result<StateReplay, OpenMemberError> {
        let StateRestore { parts, state } = self;
        let (restored, totals) = state.finish()?;
        Ok(StateReplay { parts, replay: ImportReplay::new(restored, totals), part: 0 })
    }
}

impl StateReplay {
    /// The data as it is now. Its entry is one of the new directory, whatever entries were applied.
    pub fn data(&self) -> DataState {
        self.replay.data()
    }

    /// How many commands were applied of the last entry, if it was left before its end; else 0.
    pub fn part(&self) -> u64 {
        self.part
    }

    /// Applies the next entry. Stops behind the command that makes the revision `until`, and returns whether it did.
    ///
    /// # Errors
    /// The entry is none that this release can apply; or the disk.
    pub fn apply_entry(&mut self, entry: &log::Entry, until: Option<i64>) -> Result<bool, OpenMemberError> {
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
        let context = self.write_payload(&entry.payload)?;
        let context = BatchContext { term: entry.term, ..context };
        let highest = self.data().revision.saturating_add_unsigned(store_commands.len() as u64);
        if until.is_none_or(|until| highest < until) {
            self.apply(BatchContext { callers, ..context }, store_commands)?;
            return Ok(false);
        }
        for (at, command) in store_commands.into_iter().enumerate() {
            let caller = callers.get(at).cloned();
            self.apply(
                BatchContext { callers: caller.into_iter().collect(), ..context.clone() },
                vec![command],
            )?;
            if until.is_some_and(|until| self.data().revision >= until) {
                self.part = at as u64 + 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Applies a request of etcd, as a member applies one that was committed: it may be refused. Its values are slices
    /// of `bytes`, which become a part of the lineage.
    ///
    /// # Errors
    /// The disk.
    pub fn apply_request(
        &mut self,
        caller: Caller,
        command: store::Command,
        bytes: &Bytes,
    ) -> Result<Outcome, OpenMemberError> {
        let has_values = matches!(command, store::Command::Put(_) | store::Command::Txn(_));
        let context = match has_values && !bytes.is_empty() {
            true => self.write_payload(bytes)?,
            false => BatchContext { payload: bytes.clone(), ..BatchContext::at(0, Start::BOOTSTRAP.1) },
        };
        self.replay.note_history(bytes);
        let mut outcomes = self.apply(BatchContext { callers: vec![caller], ..context }, vec![command])?;
        // One command has one outcome.
        Ok(outcomes.pop().expect("the command has an outcome"))
    }

    /// Writes the payload of commands, and returns what they are applied with.
    fn write_payload(&mut self, payload: &Bytes) -> Result<BatchContext, OpenMemberError> {
        let address = self.parts.installer.write_value(payload, crc32c::crc32c(payload))?;
        let begun = BatchContext::at(0, Start::BOOTSTRAP.1);
        Ok(BatchContext { payload: payload.clone(), payload_address: address, ..begun })
    }

    fn apply(
        &mut self,
        context: BatchContext,
        commands: Vec<store::Command>,
    ) -> Result<Vec<Outcome>, OpenMemberError> {
        let installer = &mut self.parts.installer;
        self.replay.apply(context, commands, |value| {
            let ValueRef { address, len, checksum } = *value;
            Ok(installer.read_value(StoredValue { address, len, checksum })?.into())
        })
    }

    /// Raises the newest revision by so much, and compacts at it, so that no client which knows a later revision than
    /// that of the state sees revisions fall.
    ///
    /// # Errors
    /// No store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), OpenMemberError> {
        Ok(self.replay.raise_revision(by)?)
    }

    /// Ends it: the directory is whole when this returns, and holds the member with which it was begun. The lineage
    /// tells states apart: all members of a cluster must have the same. Without a given one it is computed from the
    /// state, its versions and its requests.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self, lineage: Option<u64>) -> Result<ImportTotals, OpenMemberError> {
        let RestoreParts { log, installer, conf } = self.parts;
        let (store, totals) = self.replay.finish(lineage);
        write_state(installer, &conf, &store)?;
        drop(log);
        Ok(totals)
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
