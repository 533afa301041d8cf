//! `Maintenance.Snapshot`: a backup of this member's state as etcd's database file, and the SHA-256 of it.
//!
//! ```text
//! a thread of its own (making)                             channel, 2 x 1 MiB         RPC worker (here)
//! captures the state at one applied entry
//! walks all versions: lengths -> FileLayout               -> Begin { bytes }       -> knows `remaining_bytes`
//! walks them again: reads values, records -> FileWriter   -> Chunk(1 MiB), ...     -> messages of 64 KiB
//!                                                          -> Sum(SHA-256)          -> the last message
//! ```
//!
//! The captured state pins the compact revision, so versions stay; values are read where their references say at that
//! moment, a MiB at a time, so relocation goes on. The file is never in memory, and no lock is held for long. A client
//! that does not read holds up its own thread alone, and history is not purged meanwhile; when it goes, the thread
//! finds the channel closed.
//!
//! | file | holds |
//! |---|---|
//! | `entries` | `Backup.Base` and `Backup.Entries`, for continuous backups |
//! | `making` | the thread: both passes of the crate `dbstate` |
//! | `root_sink` | sending as long as the caller is root |
//! | `values` | reading the values of versions, where they are now |
//! | `output` | what the file is written to: the channel, and the SHA-256 |
//! | `pauses` | how the thread gives way to writes |

mod entries;
mod making;
mod output;
mod pauses;
mod root_sink;
mod values;

use std::sync::Arc;
use std::time::Instant;

use api::etcdserverpb as pb;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::mpsc;

use self::root_sink::RootSink;
use super::call::{Call, bind_to_user, decode_in_stream};
use super::streaming_call::{CountedRequests, Responses};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

pub(crate) use entries::{backup_file_bytes, backup_point, read_entries};
pub(super) use entries::{base, entries};
pub(crate) use output::BackupPart;

/// Bytes of the file in a message: twice those of etcd's, far below what any client accepts.
const MAX_BLOB_BYTES: usize = 64 << 10;

/// Parts that wait for a slow client, 1 MiB each: one to send and one to fetch it from meanwhile.
const MAX_WAITING_PARTS: usize = 2;

/// Bytes of the SHA-256 behind the file.
const SUM_BYTES: u64 = 32;

/// The tag of `SnapshotResponse.blob`.
const BLOB_TAG: u32 = 3;

/// Sends a backup. Any member sends its own state, a learner too, without asking the leader.
///
/// # Errors
/// When as many backups as are allowed are under way; later, when the caller does not have the role root any more.
pub(super) async fn snapshot(
    node: Arc<Node>,
    call: Call,
    mut requests: CountedRequests,
) -> Result<Responses, Failure> {
    decode_in_stream::<pb::SnapshotRequest>(requests.only().await?)?;
    let call = bind_to_user(&node, &call).await?;
    let parts = begin_backup(&node)?;
    Ok(Responses::of(|sink| async move {
        let metrics = node.metrics.clone();
        // Observed at the end, whatever it is: also of a transfer that its client breaks off, as in etcd.
        let _timer = metrics.events.snapshot_transfer.start_timer();
        send(parts, RootSink::new(sink, node, call)).await
    }))
}

/// Begins to make a backup, on a thread of its own.
///
/// # Errors
/// As many as are allowed are under way.
pub(crate) fn begin_backup(node: &Arc<Node>) -> Result<mpsc::Receiver<BackupPart>, Failure> {
    let permit = node.backups.begin()?;
    let (sender, parts) = mpsc::channel(MAX_WAITING_PARTS);
    let making = node.clone();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        making::make(&making, sender);
    });
    Ok(parts)
}

/// Sends what is made.
async fn send(mut parts: mpsc::Receiver<BackupPart>, mut sink: RootSink) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut remaining, mut storage_version) = (0, String::new());
    while let Some(part) = parts.recv().await {
        match part {
            BackupPart::Begin { bytes, version, .. } => {
                (remaining, storage_version) = (bytes, version);
                tracing::info!(total_bytes = bytes, storage_version, "sending database snapshot to client");
            }
            BackupPart::Chunk(mut chunk) => {
                while !chunk.is_empty() {
                    let blob = chunk.split_to(chunk.len().min(MAX_BLOB_BYTES));
                    // What is made is never longer than announced.
                    remaining -= blob.len() as u64;
                    sink.send(message(remaining, blob, &storage_version)).await?;
                }
            }
            BackupPart::Sum(sum) => {
                sink.send(message(remaining, sum, &storage_version)).await?;
                tracing::info!(
                    took = format!("{:?}", began.elapsed()),
                    "successfully sent database snapshot to client"
                );
                return Ok(());
            }
            BackupPart::Failed(failure) => {
                tracing::warn!(error = %failure.message, "cannot send a database snapshot");
                return Err(failure);
            }
        }
    }
    Err(Failure::unexpected())
}

/// A `SnapshotResponse`, whose blob is not copied.
fn message(remaining_bytes: u64, blob: Bytes, version: &str) -> EncodedMessage {
    let mut before = pb::SnapshotResponse { remaining_bytes, ..Default::default() }.encode_to_vec();
    encode_key(BLOB_TAG, WireType::LengthDelimited, &mut before);
    encode_varint(blob.len() as u64, &mut before);
    let behind = pb::SnapshotResponse { version: version.to_owned(), ..Default::default() };
    EncodedMessage(vec![before.into(), blob, behind.encode_to_vec().into()])
}

#[cfg(test)]
mod tests {
    //! What is sent.
    use super::*;

    #[test]
    fn a_message_is_an_encoded_response() {
        for (remaining_bytes, blob) in [(70_000, "some bytes"), (0, "x")] {
            let response = pb::SnapshotResponse {
                header: None,
                remaining_bytes,
                blob: blob.into(),
                version: "3.7.0".to_owned(),
            };
            assert_eq!(message(remaining_bytes, blob.into(), "3.7.0").0.concat(), response.encode_to_vec());
        }
    }
}
