//! `Backup.Entries` and `Backup.Base`: what a continuous backup is made of. Methods of our own.
//!
//! ```text
//! backup     Base                      -> the state after entry 900, as a file
//!            Entries from 901          -> 901 .. 950, and what the state after 950 is
//!            Entries from 951          -> nothing new, and that it still is so
//! ```
//!
//! Each call reads what it needs and is over, so a backup is resumed by asking for the next entry, of any member.

use std::sync::Arc;
use std::time::Duration;

use api::Code;
use api::stelepb::{
    BackupBaseRequest, BackupBaseResponse, BackupEntriesRequest, BackupEntriesResponse, BackupEntry,
    BackupPoint,
};
use archive::wall_clock_ms;
use bytes::Bytes;
use member::{Answer, Input, WantedEntries};
use prost::Message;
use store::{AppliedId, DataState};
use tokio::sync::mpsc;

use super::output::BackupPart;
use super::root_sink::RootSink;
use super::{MAX_BLOB_BYTES, SUM_BYTES, begin_backup};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;
use crate::rpc::call::{Call, bind_to_user, decode, decode_in_stream};
use crate::rpc::streaming_call::{CountedRequests, Responses};

/// Bytes of payload in a response, besides one entry of any size. A response is in memory as a whole.
const MAX_RESPONSE_BYTES: u64 = 4 << 20;

/// Pause while an entry is being applied in slices.
const STATE_DELAY: Duration = Duration::from_millis(1);

/// Answers with applied entries, and with the state after the last one if there are no more.
///
/// # Errors
/// There is no leader, the first entry has left the log, or an entry cannot be read.
pub(in crate::rpc) async fn entries(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: BackupEntriesRequest = decode(body)?;
    let response = read_entries(node, request.from, request.max_bytes).await?;
    Ok(EncodedMessage::message(&response))
}

/// Entries from an index on, up to a number of bytes.
///
/// # Errors
/// As [`entries`].
pub(crate) async fn read_entries(
    node: &Node,
    from: u64,
    max_bytes: u64,
) -> Result<BackupEntriesResponse, Failure> {
    // The time is taken before the round: all that was acknowledged by then is in what follows.
    let time_ms = wall_clock_ms();
    node.linearize().await?;
    let state = loop {
        match node.reader.data_state() {
            Some(state) => break state,
            None => tokio::time::sleep(STATE_DELAY).await,
        }
    };
    let point = backup_point(node, state, time_ms);
    if from == 0 {
        return Ok(BackupEntriesResponse { entries: Vec::new(), point: Some(point) });
    }
    if from > point.index + 1 {
        return Err(Failure::new(
            Code::OutOfRange,
            format!("stele: there is no entry {from} yet, the last one is {}", point.index),
        ));
    }
    let max_bytes = answered_bytes(max_bytes);
    let to = point.index + 1;
    let wanted = |token| Input::ReadEntries(WantedEntries { token, from, to, max_bytes });
    let entries: Vec<BackupEntry> = match node.request(wanted).await? {
        Answer::Entries(None) => Vec::new(),
        Answer::Entries(Some(job)) => {
            let read = tokio::task::spawn_blocking(move || job.run());
            let read = read.await.map_err(|_| Failure::unexpected())?;
            let read = read.map_err(|error| Failure::new(Code::Unavailable, format!("stele: {error}")))?;
            read.into_iter().map(entry).collect()
        }
        Answer::EntriesGone => {
            return Err(Failure::new(Code::OutOfRange, format!("stele: entry {from} has left the log")));
        }
        _ => return Err(Failure::unexpected()),
    };
    let last = entries.last().map_or(from - 1, |last| last.index);
    let point = (last == point.index).then_some(point);
    Ok(BackupEntriesResponse { entries, point })
}

/// Bytes of entries in an answer to a call that asks for at most so many; 0 leaves it to the member.
fn answered_bytes(wanted: u64) -> u64 {
    if wanted == 0 { MAX_RESPONSE_BYTES } else { wanted.min(MAX_RESPONSE_BYTES) }
}

/// Sends the state as a file.
///
/// # Errors
/// As many backups as are allowed are under way; later, the caller does not have the role root any more.
pub(in crate::rpc) async fn base(
    node: Arc<Node>,
    call: Call,
    mut requests: CountedRequests,
) -> Result<Responses, Failure> {
    decode_in_stream::<BackupBaseRequest>(requests.only().await?)?;
    let call = bind_to_user(&node, &call).await?;
    let parts = begin_backup(&node)?;
    Ok(Responses::of(move |sink| async move {
        let sink = RootSink::new(sink, node.clone(), call);
        send_base(&node, parts, sink).await
    }))
}

async fn send_base(
    node: &Node,
    mut parts: mpsc::Receiver<BackupPart>,
    mut sink: RootSink,
) -> Result<(), Failure> {
    while let Some(part) = parts.recv().await {
        match part {
            BackupPart::Begin { bytes, state, time_ms, .. } => {
                let (point, file_bytes) =
                    (Some(backup_point(node, state, time_ms)), backup_file_bytes(bytes));
                let first = BackupBaseResponse { point, file_bytes, blob: Bytes::new() };
                sink.send(EncodedMessage::message(&first)).await?;
            }
            BackupPart::Chunk(mut chunk) => {
                while !chunk.is_empty() {
                    let blob = chunk.split_to(chunk.len().min(MAX_BLOB_BYTES));
                    sink.send(blob_message(blob)).await?;
                }
            }
            BackupPart::Sum(sum) => {
                sink.send(blob_message(sum)).await?;
                return Ok(());
            }
            BackupPart::Failed(failure) => return Err(failure),
        }
    }
    Err(Failure::unexpected())
}

/// Bytes of a base, given those of its database file: the SHA-256 is behind it.
pub(crate) fn backup_file_bytes(database: u64) -> u64 {
    database + SUM_BYTES
}

fn blob_message(blob: Bytes) -> EncodedMessage {
    EncodedMessage(vec![BackupBaseResponse { blob, ..Default::default() }.encode_to_vec().into()])
}

fn entry(entry: log::Entry) -> BackupEntry {
    let log::Entry { term, index, kind, payload } = entry;
    BackupEntry { term, index, kind: u32::from(kind), payload }
}

/// Names a state of this member, which has everything that it had applied at this time, in milliseconds since 1970.
pub(crate) fn backup_point(node: &Node, state: DataState, time_ms: u64) -> BackupPoint {
    let AppliedId { index, term } = state.applied;
    BackupPoint {
        cluster_id: node.cluster_id,
        lineage: node.reader.lineage(),
        member_id: node.member_id,
        index,
        term,
        revision: state.revision,
        compact_revision: state.compacted,
        data_hash: state.hash,
        time_ms,
    }
}

#[cfg(test)]
mod tests {
    //! How much an answer has.
    use super::*;

    #[test]
    fn an_answer_has_as_much_as_is_wanted_and_allowed() {
        let most = 4 << 20;
        for (wanted, answered) in [(0, most), (1, 1), (most, most), (most + 1, most), (u64::MAX, most)] {
            assert_eq!(answered_bytes(wanted), answered, "{wanted} bytes");
        }
    }
}
