//! State for peers that are too far behind for the log, and from a leader when we are.

use bytes::Bytes;
use consensus::SnapshotMeta;

use crate::io::{Fatal, Now, Output};
use crate::member::Member;

/// Snapshots under way.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {}

impl Snapshots {
    /// The lowest index whose following entries a running snapshot still needs.
    pub(crate) fn oldest_needed(&self) -> u64 {
        u64::MAX
    }
}

impl Member {
    pub(crate) fn prepare_snapshot(&mut self, _now: Now, _peer: u64, _out: &mut Output) {}

    pub(crate) fn stream_snapshot(
        &mut self,
        _to: u64,
        _meta: SnapshotMeta,
        _message: Vec<Bytes>,
        _out: &mut Output,
    ) {
    }

    pub(crate) fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta,
        hard_state: Option<log::HardState>,
        entries: Vec<log::Entry>,
        _out: &mut Output,
    ) -> Result<log::Append, Fatal> {
        Ok(self.log.append(hard_state, entries))
    }
}
