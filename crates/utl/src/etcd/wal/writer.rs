//! Writing a file of etcd's write-ahead log.
//!
//! ```text
//! checksum 0   metadata: member, cluster   snapshot 0   hard state: term, commit 1,207   snapshot 1,207: who votes
//! ```
//!
//! So begins the log of a member that has received a snapshot and no entry yet: etcd begins with the last snapshot that
//! is committed, and finds its effects in the database.

use prost::Message;

use super::file::{CHECKSUM, HARD_STATE, LENGTH_BITS, METADATA, SNAPSHOT, WalRecord};
use super::messages::{WalHardState, WalMetadata, WalSnapshot};

/// Bytes to whose multiples records are filled up.
const ALIGNMENT: usize = 8;

/// The name of the first file of a log.
pub(in crate::etcd) const FIRST_FILE: &str = "0000000000000000-0000000000000000.wal";

/// The records of a file.
#[derive(Default)]
pub(super) struct WalFileWriter {
    pub(super) bytes: Vec<u8>,
    /// Over all data so far, those of earlier files included.
    pub(super) sum: u32,
}

impl WalFileWriter {
    /// Adds a record.
    pub(super) fn record(&mut self, kind: i64, data: Vec<u8>) {
        if kind != CHECKSUM {
            self.sum = crc32c::crc32c_append(self.sum, &data);
        }
        let record = WalRecord { kind, checksum: self.sum, data: data.into() }.encode_to_vec();
        let padding = record.len().next_multiple_of(ALIGNMENT) - record.len();
        let mark = if padding > 0 { (0x80 | padding as u64) << LENGTH_BITS } else { 0 };
        self.bytes.extend((record.len() as u64 | mark).to_le_bytes());
        self.bytes.extend(&record);
        self.bytes.extend(&[0; ALIGNMENT][..padding]);
    }
}

/// The [first file](FIRST_FILE) of a log that has no entries: its member begins with a snapshot.
pub(in crate::etcd) fn log_of_snapshot(metadata: &WalMetadata, snapshot: &WalSnapshot) -> Vec<u8> {
    let hard_state = WalHardState { term: snapshot.term, vote: 0, commit: snapshot.index };
    let mut file = WalFileWriter::default();
    file.record(CHECKSUM, Vec::new());
    file.record(METADATA, metadata.encode_to_vec());
    file.record(SNAPSHOT, WalSnapshot::default().encode_to_vec());
    file.record(HARD_STATE, hard_state.encode_to_vec());
    file.record(SNAPSHOT, snapshot.encode_to_vec());
    file.bytes
}
