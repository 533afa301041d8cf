//! The state of a member that does not run.

use std::sync::Arc;

use log::{Disk, Identity, Log, LogId, Options, Warning};
use store::{Limits, Parallel, Reader, Values};

use crate::open::{self, Loaded, Loading, OpenMemberError};
use crate::values::LogValues;

/// The state of a member that does not run, for reading. It holds the lock of the directory.
pub struct OfflineState {
    /// Reads the store.
    pub reader: Reader,
    /// Reads values.
    pub values: Arc<dyn Values>,
    /// Reads the log.
    pub log: Log,
    /// Whose data directory it is.
    pub identity: Identity,
    /// The recorded commit index; entries after it are part of the state all the same.
    pub committed: u64,
    /// First and last entry of the log; the last is one below the first if there is none.
    pub entries: (u64, u64),
    /// Entries after the checkpoint that are damaged, in order. The state is the one before the first of them.
    pub damaged: Vec<LogId>,
    /// What the operator should read.
    pub warnings: Vec<Warning>,
    /// What the state was made from.
    pub loading: Loading,
    _loaded: Loaded,
}

/// Loads the state of a member that does not run: its checkpoint, and all entries that its log has. So an acknowledged
/// change that this member has is never missing, even if it has not recorded that it was committed; one that was not
/// acknowledged may be there, as it may after a restart.
///
/// The state ends before the first damaged entry: see [`OfflineState::damaged`].
///
/// Recovery writes to the disk as at a start. Give it one that ignores writes if nothing may change.
///
/// # Errors
/// The directory has no data, is in use, or so damaged that no state can be made of it.
pub fn open_offline(
    disk: &Arc<dyn Disk>,
    options: &Options,
    parallel: &dyn Parallel,
) -> Result<OfflineState, OpenMemberError> {
    let log::Opened { log, reader: log_reader, recovered } = Log::open(disk, options)?;
    let values = Arc::new(LogValues::new(log_reader));
    let (identity, committed) = (recovered.identity, recovered.hard_state.commit);
    let forced = (Limits::default(), Some(identity.member_id));
    let loaded = open::load(&log, &recovered, &values, forced, parallel)?;
    loaded.check_replayed()?;
    Ok(OfflineState {
        reader: loaded.reader.clone(),
        values,
        log,
        identity,
        committed,
        entries: (recovered.first_index, recovered.last_index),
        damaged: recovered.damaged,
        warnings: recovered.warnings,
        loading: loaded.loading,
        _loaded: loaded,
    })
}
