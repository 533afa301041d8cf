//! The sending end of a snapshot stream.

use std::time::Duration;

use bytes::Bytes;

use super::OFFSET_BYTES;
use crate::frame::{Frame, number_body};
use crate::peer::Peer;
use crate::peers::Shared;
use crate::reader::FrameReader;
use crate::stream::{Stream, is_pause};
use crate::{Error, Kind, StreamKind, dial};

/// What a receiver says is short: an offset or a reason.
const MAX_ANSWER_BYTES: u32 = 4 << 10;
/// How long a reason may take to arrive once writing has failed.
const REASON: Duration = Duration::from_millis(500);

/// Sends one snapshot to one peer; all its calls block. Dropping it before [`SnapshotSender::finish`] breaks the
/// stream off, and another may be opened to resume.
pub struct SnapshotSender {
    stream: Stream,
    reader: FrameReader,
    offset: u64,
    max_frame_bytes: u32,
    patience: Duration,
}

impl std::fmt::Debug for SnapshotSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotSender").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl SnapshotSender {
    pub(crate) fn open(shared: &Shared, peer: &Peer, header: Bytes) -> Result<SnapshotSender, Error> {
        let patience = shared.config.timeouts.snapshot;
        let stream = dial::open(shared, peer, StreamKind::Snapshot)?;
        stream.tcp().set_read_timeout(Some(patience)).map_err(Error::io("set a timeout"))?;
        stream.tcp().set_write_timeout(Some(patience)).map_err(Error::io("set a timeout"))?;
        let reader = FrameReader::new(MAX_ANSWER_BYTES);
        let max_frame_bytes = shared.config.limits.max_frame_bytes;
        let mut sender = SnapshotSender { stream, reader, offset: 0, max_frame_bytes, patience };
        sender.write(Kind::SnapshotBegin, &[header])?;
        sender.offset = sender.answer(Kind::SnapshotResume)?.number()?;
        Ok(sender)
    }

    /// Where the next chunk belongs: at first where the receiver wants to resume.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The longest chunk that may be sent.
    pub fn max_chunk_bytes(&self) -> usize {
        (self.max_frame_bytes as usize).saturating_sub(OFFSET_BYTES)
    }

    /// Sends the bytes at [`SnapshotSender::offset`], given in pieces, none of which is copied.
    pub fn chunk(&mut self, pieces: &[Bytes]) -> Result<(), Error> {
        self.listen()?;
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let mut body = Vec::with_capacity(1 + pieces.len());
        body.push(number_body(self.offset));
        body.extend_from_slice(pieces);
        self.write(Kind::SnapshotChunk, &body)?;
        self.offset += length as u64;
        Ok(())
    }

    /// Says that all was sent and waits until the receiver has it.
    pub fn finish(mut self) -> Result<(), Error> {
        let length = number_body(self.offset);
        self.write(Kind::SnapshotEnd, &[length])?;
        self.answer(Kind::SnapshotDone).map(drop)
    }

    /// Writes a frame; when that fails because the receiver gave up, the error is the receiver's.
    fn write(&mut self, kind: Kind, pieces: &[Bytes]) -> Result<(), Error> {
        let Err(error) = self.stream.write_frame(kind, pieces, self.max_frame_bytes) else { return Ok(()) };
        if matches!(error, Error::Frame(_)) || self.stream.tcp().set_read_timeout(Some(REASON)).is_err() {
            return Err(error);
        }
        match self.reader.read_frame(&mut self.stream) {
            Ok(frame) => Err(failure(frame)),
            Err(_) => Err(error.or_stalled(self.patience)),
        }
    }

    /// Looks, without waiting, whether the receiver has given up.
    fn listen(&mut self) -> Result<(), Error> {
        self.stream.tcp().set_nonblocking(true).map_err(Error::io("set non-blocking"))?;
        let read = self.reader.fill(|room| std::io::Read::read(&mut self.stream, room));
        self.stream.tcp().set_nonblocking(false).map_err(Error::io("set blocking"))?;
        match read {
            Ok(0) => Err(Error::Closed),
            Ok(_) => self.reader.next_frame()?.map_or(Ok(()), |frame| Err(failure(frame))),
            Err(error) if is_pause(&error) => Ok(()),
            Err(error) => Err(Error::io("read")(error)),
        }
    }

    /// Waits for the receiver's next word, which should be of this kind.
    fn answer(&mut self, kind: Kind) -> Result<Frame, Error> {
        let patience = self.patience;
        let frame = self.reader.read_frame(&mut self.stream).map_err(|error| error.or_stalled(patience))?;
        if frame.kind == kind { Ok(frame) } else { Err(failure(frame)) }
    }
}

/// What a frame means that is not the expected one.
fn failure(frame: Frame) -> Error {
    match frame.kind {
        Kind::SnapshotFailed => Error::SnapshotReceiver(String::from_utf8_lossy(&frame.body).into_owned()),
        _ => frame.unexpected(),
    }
}
