//! Making a backup, on a thread of its own: a pass over lengths, then a pass that reads and writes.

use std::time::Duration;

use api::Code;
use archive::wall_clock_ms;
use dbfile::WriteError;
use store::{CapturedState, DataState, StateReplaced};
use tokio::sync::mpsc;

use super::output::{BackupOutput, BackupPart};
use super::pauses::BackupPauses;
use super::values;
use super::values::NodeValues;
use crate::grpc::Failure;
use crate::node::Node;

/// Pause while an entry is being applied in slices.
const CAPTURE_DELAY: Duration = Duration::from_millis(1);

/// Why no whole backup was made.
enum MakeError {
    /// The client has gone.
    Gone,
    /// A snapshot from the leader replaced the state.
    Replaced,
    Failed(Failure),
}

impl From<StateReplaced> for MakeError {
    fn from(_: StateReplaced) -> MakeError {
        MakeError::Replaced
    }
}

impl From<WriteError> for MakeError {
    fn from(error: WriteError) -> MakeError {
        match error {
            // The output fails for no other reason.
            WriteError::Output(_) => MakeError::Gone,
            error => MakeError::Failed(Failure::new(Code::Internal, format!("stele: {error}"))),
        }
    }
}

impl From<api::Error> for MakeError {
    fn from(error: api::Error) -> MakeError {
        MakeError::Failed(error.into())
    }
}

/// Makes a backup and gives it to `parts`. Returns early when their receiver is dropped.
pub(super) fn make(node: &Node, parts: mpsc::Sender<BackupPart>) {
    let failure = match make_parts(node, &parts) {
        Ok(()) | Err(MakeError::Gone) => return,
        Err(MakeError::Failed(failure)) => failure,
        Err(MakeError::Replaced) => Failure::new(
            Code::Unavailable,
            "stele: a snapshot from the leader replaced the state of this member; take the backup again",
        ),
    };
    // Without a receiver it does not matter why.
    let _ = parts.blocking_send(BackupPart::Failed(failure));
}

fn make_parts(node: &Node, parts: &mpsc::Sender<BackupPart>) -> Result<(), MakeError> {
    let written_bytes = || node.metrics.events.wal_written_bytes.get() as u64;
    let mut pauses = BackupPauses::new(&written_bytes);
    let mut go_on = || {
        pauses.after(|| ());
        if parts.is_closed() { Err(MakeError::Gone) } else { Ok(()) }
    };
    let (mut state, time_ms, small, plan) = loop {
        let (mut state, time_ms) = capture(node, parts)?;
        let small = dbstate::small(&state);
        match dbstate::lay_out(&small, &mut state.versions, &mut go_on) {
            // Nothing was sent of the state that is gone.
            Err(MakeError::Replaced) => {}
            plan => break (state, time_ms, small, plan?),
        }
    };
    let version = small.storage_version.clone().unwrap_or_default();
    let data = DataState {
        applied: state.applied,
        revision: state.revision,
        compacted: state.compacted,
        hash: state.data_hash,
    };
    let begin = BackupPart::Begin { bytes: plan.bytes(), version, state: data, time_ms };
    parts.blocking_send(begin).map_err(|_| MakeError::Gone)?;
    state.versions.rewind();
    let mut source = NodeValues::new(node);
    let mut read = |versions: &[_]| Ok(values::read(&mut source, versions)?);
    let output = dbstate::write::<_, MakeError>(
        &small,
        &mut state.versions,
        plan,
        BackupOutput::new(parts, BackupPauses::new(&written_bytes)),
        &mut read,
    )?;
    Ok(output.finish().map_err(WriteError::Output)?)
}

/// Captures the state between two entries. Returns it with the time just before, so that what this member applied until
/// then is in it.
fn capture(node: &Node, parts: &mpsc::Sender<BackupPart>) -> Result<(CapturedState, u64), MakeError> {
    while !parts.is_closed() {
        let time_ms = wall_clock_ms();
        match node.reader.capture() {
            Some(state) => return Ok((state, time_ms)),
            None => std::thread::sleep(CAPTURE_DELAY),
        }
    }
    Err(MakeError::Gone)
}
