//! Data directories of members that do not run: their state for an export ([`open_offline`]), and making one.
//!
//! [`StateReplay`] goes on with entries of the cluster that the state is from, or with requests of etcd: a backup to
//! any point, and what etcd's database did not have yet.
//!
//! [`StateRestore`] makes the data directory of a member of a cluster that begins with a state from elsewhere, such as
//! a backup. Its members are new ones, or those that another program's cluster had.
//!
//! It goes the way of a snapshot that is received: values into data segments, the state into a base checkpoint, and the
//! manifest last. A new cluster begins at one entry that no member wrote; so does this one, with data:
//!
//! ```text
//! begin      Log::create, Log::open; an installer at Start::BOOTSTRAP
//! version    value -> data segment, address + version -> index in memory
//! replay     what the state does not have yet: payload -> data segment, commands -> store
//! finish     members, then the index as chunks -> base checkpoint; synced; manifest
//! ```
//!
//! Members that are restored from the same state with the same cluster have equal checkpoints but for log addresses, so
//! they form that cluster. The next start finds a checkpoint and an empty log, as after the first start of a new
//! member. Memory: the index, as a running member has it. Before the manifest is replaced, the directory is one that a
//! start has begun and not ended, so it must not be where a member is started before [`StateReplay::finish`]
//! returns.

mod offline;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use consensus::{ConfState, Start};
use log::{Disk, Identity, Log, LogId, MAX_CHUNK_BYTES, Options, SnapshotInstaller};
use store::{AppliedId, ImportTotals, ImportedMembers, KvRef, RetainedVersion, StateImport, Store, ValueRef};

use crate::conf_state;
use crate::membership::command_sets::NEWEST_COMMAND_SET;
use crate::open::OpenMemberError;

pub use offline::{OfflineState, open_offline};
pub use replay::{StateReplay, entry_clock_ms};

/// A data directory that is being made.
pub struct StateRestore {
    parts: RestoreParts,
    state: StateImport,
}

/// What is written until the end.
struct RestoreParts {
    log: Log,
    installer: Box<SnapshotInstaller>,
    conf: ConfState,
}

impl StateRestore {
    /// Begins the data directory of a member of a cluster of `members`. A member without a name has not been started.
    /// Below the compact revision, history is incomplete.
    ///
    /// # Errors
    /// The directory cannot be made, or has data.
    pub fn begin(
        disk: &Arc<dyn Disk>,
        options: &Options,
        identity: Identity,
        members: &ImportedMembers,
        compacted: Option<i64>,
    ) -> Result<StateRestore, OpenMemberError> {
        Log::create(disk, options, identity)?;
        let log::Opened { mut log, .. } = Log::open(disk, options)?;
        let (index, term) = Start::BOOTSTRAP;
        let installer = Box::new(log.begin_install(LogId { index, term }));
        let mut state = StateImport::new(compacted);
        state.members(AppliedId { index, term }, members.clone(), NEWEST_COMMAND_SET);
        let conf = conf_of(members);
        Ok(StateRestore { parts: RestoreParts { log, installer, conf }, state })
    }

    /// The state, for all but versions. Leases come before the versions that name them.
    pub fn state(&mut self) -> &mut StateImport {
        &mut self.state
    }

    /// Adds the next version, in the order of revisions, with its value.
    ///
    /// # Errors
    /// A version that no store has or that does not follow the one before; or the disk.
    pub fn version(&mut self, kv: KvRef, value: &Bytes, tombstone: bool) -> Result<(), OpenMemberError> {
        let value = match value.len() {
            0 => ValueRef::default(),
            len => {
                let len = u32::try_from(len).map_err(|_| TOO_LARGE)?;
                let checksum = crc32c::crc32c(value);
                ValueRef { address: self.parts.installer.write_value(value, checksum)?, len, checksum }
            }
        };
        Ok(self.state.version(&RetainedVersion { kv: KvRef { value, ..kv }, tombstone })?)
    }

    /// Ends it, after the last version: the directory is whole when this returns.
    ///
    /// # Errors
    /// A state that no store has, or the disk.
    pub fn finish(self) -> Result<ImportTotals, OpenMemberError> {
        self.into_replay()?.finish(None)
    }
}

/// The configuration of these members.
fn conf_of(imported: &ImportedMembers) -> ConfState {
    let ids = |is_learner| {
        let some = imported.members.iter().filter(move |member| member.learner == is_learner);
        some.map(|member| member.id).collect::<BTreeSet<u64>>()
    };
    ConfState { learners: ids(true).into_iter().collect(), ..ConfState::of_voters(ids(false)) }
}

/// Writes the base checkpoint of a state and commits it.
fn write_state(
    mut installer: Box<SnapshotInstaller>,
    conf: &ConfState,
    store: &Store,
) -> Result<(), OpenMemberError> {
    installer.write_chunk(&conf_state::encode(conf))?;
    for chunk in store.begin_snapshot() {
        chunk.chunks(MAX_CHUNK_BYTES).try_for_each(|part| installer.write_chunk(part))?;
    }
    installer.make_durable()?;
    let committed = installer.commit().map_err(|waiting| waiting.error)?;
    Ok(committed.result()?)
}

const TOO_LARGE: store::RestoreError = store::RestoreError::Malformed("a value has 4 GiB or more");
