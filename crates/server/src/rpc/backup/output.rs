//! What the file is written to: chunks for the channel, and the SHA-256 of all of them.

use std::io::{self, Write};

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};
use store::DataState;
use tokio::sync::mpsc;

use super::pauses::BackupPauses;
use crate::grpc::Failure;

/// Bytes that cross the channel at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What crosses the channel, in this order. A failure may come instead of any of them, and is the last.
#[derive(Debug)]
pub(crate) enum BackupPart {
    /// The length of the file.
    Begin {
        bytes: u64,
        /// The storage version.
        version: String,
        /// What the file is of.
        state: DataState,
        /// Just before the state was captured, in milliseconds since 1970.
        time_ms: u64,
    },
    /// Bytes of the file.
    Chunk(Bytes),
    /// The SHA-256 of the file.
    Sum(Bytes),
    Failed(Failure),
}

/// Gives the file to the channel. Waits while the client is behind, and pauses while clients write.
pub(super) struct BackupOutput<'a> {
    parts: &'a mpsc::Sender<BackupPart>,
    pauses: BackupPauses<'a>,
    sum: Sha256,
    chunk: BytesMut,
}

impl<'a> BackupOutput<'a> {
    pub(super) fn new(parts: &'a mpsc::Sender<BackupPart>, pauses: BackupPauses<'a>) -> BackupOutput<'a> {
        BackupOutput { parts, pauses, sum: Sha256::new(), chunk: BytesMut::with_capacity(CHUNK_BYTES) }
    }

    /// Sends the rest, and the SHA-256 behind it.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the client has gone.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.send_chunk()?;
        let sum = std::mem::take(&mut self.sum).finalize();
        self.send(BackupPart::Sum(Bytes::copy_from_slice(&sum)))
    }

    fn send_chunk(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, BytesMut::with_capacity(CHUNK_BYTES)).freeze();
        self.sum.update(&chunk);
        if chunk.is_empty() { Ok(()) } else { self.send(BackupPart::Chunk(chunk)) }
    }

    fn send(&mut self, part: BackupPart) -> io::Result<()> {
        let parts = self.parts;
        self.pauses.after(|| parts.blocking_send(part)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for BackupOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.put_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.send_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! All bytes cross, in chunks, and their sum last.
    use super::*;

    #[test]
    fn all_bytes_cross_and_then_their_sum() {
        let (sender, mut parts) = mpsc::channel(8);
        let bytes: Vec<u8> = (0..CHUNK_BYTES + 100).map(|n| n as u8).collect();
        let mut output = BackupOutput::new(&sender, BackupPauses::new(&|| 0));
        bytes.chunks(4_096).try_for_each(|page| output.write_all(page)).unwrap();
        output.finish().unwrap();
        let lengths = [CHUNK_BYTES, 100];
        let mut crossed = Vec::new();
        for length in lengths {
            let Some(BackupPart::Chunk(chunk)) = parts.blocking_recv() else { panic!("a chunk") };
            assert_eq!(chunk.len(), length);
            crossed.extend_from_slice(&chunk);
        }
        assert_eq!(crossed, bytes);
        let Some(BackupPart::Sum(sum)) = parts.blocking_recv() else { panic!("the sum") };
        assert_eq!(sum[..], Sha256::digest(&bytes)[..]);
    }

    #[test]
    fn a_client_that_has_gone_ends_the_writing() {
        let (sender, parts) = mpsc::channel(1);
        drop(parts);
        let mut output = BackupOutput::new(&sender, BackupPauses::new(&|| 0));
        let ended = output.write_all(&vec![0; 2 * CHUNK_BYTES]);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
