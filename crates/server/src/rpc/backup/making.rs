//! Making a backup, on a thread of its own: a pass over lengths, then a pass that reads and writes.

use std::time::Duration;

use api::Code;
use dbfile::records::{BUCKETS, KEY_BUCKET, SmallRecords};
use dbfile::{FileLayout, FilePlan, FileWriter, WriteError};
use store::{CapturedState, RetainedVersion, StateReplaced, VersionWalk};
use tokio::sync::mpsc;

use super::output::{BackupOutput, BackupPart};
use super::values::NodeValues;
use super::{records, values};
use crate::grpc::Failure;
use crate::node::Node;

/// Versions that are looked up in one hold of the store's lock.
const MAX_STEP_VERSIONS: usize = 256;

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
    let (mut state, small, plan) = loop {
        let mut state = capture(node, parts)?;
        let small = records::small(&state);
        match lay_out(&small, &mut state.versions, parts) {
            // Nothing was sent of the state that is gone.
            Err(MakeError::Replaced) => {}
            plan => break (state, small, plan?),
        }
    };
    let begin = BackupPart::Begin { bytes: plan.bytes() };
    parts.blocking_send(begin).map_err(|_| MakeError::Gone)?;
    state.versions.rewind();
    let mut writer = FileWriter::new(BackupOutput::new(parts), plan)?;
    for bucket in BUCKETS {
        writer.bucket(bucket)?;
        small.visit(bucket, &mut |key, value| writer.pair(key, value))?;
        if bucket == KEY_BUCKET {
            write_versions(node, &mut state.versions, &mut writer)?;
        }
    }
    Ok(writer.finish()?.finish().map_err(WriteError::Output)?)
}

/// Captures the state between two entries.
fn capture(node: &Node, parts: &mpsc::Sender<BackupPart>) -> Result<CapturedState, MakeError> {
    while !parts.is_closed() {
        match node.reader.capture() {
            Some(state) => return Ok(state),
            None => std::thread::sleep(CAPTURE_DELAY),
        }
    }
    Err(MakeError::Gone)
}

/// The first pass: the length of the file.
fn lay_out(
    small: &SmallRecords,
    versions: &mut VersionWalk,
    parts: &mpsc::Sender<BackupPart>,
) -> Result<FilePlan, MakeError> {
    let mut layout = FileLayout::default();
    for bucket in BUCKETS {
        layout.bucket(bucket)?;
        small.visit(bucket, &mut |key, value| layout.pair(key.len(), value.len()))?;
        if bucket != KEY_BUCKET {
            continue;
        }
        loop {
            let chunk = versions.next_chunk(MAX_STEP_VERSIONS)?;
            if chunk.is_empty() {
                break;
            }
            if parts.is_closed() {
                return Err(MakeError::Gone);
            }
            for version in &chunk {
                let record = records::version(version);
                layout.pair(record.revision.encoded_len(), record.encoded_len())?;
            }
        }
    }
    Ok(layout.finish()?)
}

/// The second pass, of the versions.
fn write_versions(
    node: &Node,
    versions: &mut VersionWalk,
    writer: &mut FileWriter<BackupOutput<'_>>,
) -> Result<(), MakeError> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut source = NodeValues::new(node);
    loop {
        let chunk = versions.next_chunk(MAX_STEP_VERSIONS)?;
        if chunk.is_empty() {
            return Ok(());
        }
        for some in values::together(&chunk) {
            let read = values::read(&mut source, some)?;
            for (version, bytes) in some.iter().zip(read) {
                key.clear();
                value.clear();
                write_version(version, &bytes, (&mut key, &mut value), writer)?;
            }
        }
    }
}

fn write_version(
    version: &RetainedVersion,
    bytes: &[u8],
    (key, value): (&mut Vec<u8>, &mut Vec<u8>),
    writer: &mut FileWriter<BackupOutput<'_>>,
) -> Result<(), WriteError> {
    let record = records::version(version);
    record.revision.encode(key);
    record.encode(bytes, value);
    writer.pair(key, value)
}
