//! The sending end of a snapshot stream.

use std::time::Duration;

use bytes::Bytes;

use crate::connection::{FrameReader, PeerSocket, dial, is_pause};
use crate::context::StreamContext;
use crate::error::Error;
use crate::peer_info::PeerInfo;
use crate::protocol::{Frame, FrameKind, NUMBER_BYTES, StreamKind, number_body};

/// A receiver answers with an offset or a reason, which are short.
const MAX_ANSWER_BYTES: u32 = 4 << 10;
/// How long to wait for the receiver's reason once writing has failed.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// Sends one snapshot to one peer; all its calls block. Dropping it before [`SnapshotSender::finish`] breaks
/// the stream; another may be opened to resume.
pub struct SnapshotSender {
    socket: PeerSocket,
    reader: FrameReader,
    offset: u64,
    max_frame_bytes: u32,
    timeout: Duration,
}

impl std::fmt::Debug for SnapshotSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotSender").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl SnapshotSender {
    pub(crate) fn open(
        context: &StreamContext,
        peer: &PeerInfo,
        header: Bytes,
    ) -> Result<SnapshotSender, Error> {
        let timeout = context.config.timeouts.snapshot;
        let (socket, _) = dial(context, peer, StreamKind::Snapshot)?;
        socket.tcp().set_read_timeout(Some(timeout)).map_err(Error::io("set a timeout"))?;
        socket.tcp().set_write_timeout(Some(timeout)).map_err(Error::io("set a timeout"))?;
        let reader = FrameReader::new(MAX_ANSWER_BYTES);
        let max_frame_bytes = context.config.limits.max_frame_bytes;
        let mut sender = SnapshotSender { socket, reader, offset: 0, max_frame_bytes, timeout };
        sender.write(FrameKind::SnapshotBegin, &[header])?;
        sender.offset = Error::expect_number(&sender.answer(FrameKind::SnapshotResume)?)?;
        Ok(sender)
    }

    /// The offset of the next chunk; at first, the offset the receiver resumes from.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The longest chunk that may be sent.
    pub fn max_chunk_bytes(&self) -> usize {
        (self.max_frame_bytes as usize).saturating_sub(NUMBER_BYTES)
    }

    /// Sends the bytes at [`SnapshotSender::offset`], given in parts, none of which is copied.
    pub fn chunk(&mut self, parts: &[Bytes]) -> Result<(), Error> {
        self.check_failed()?;
        let length: usize = parts.iter().map(Bytes::len).sum();
        let mut body = Vec::with_capacity(1 + parts.len());
        body.push(number_body(self.offset));
        body.extend_from_slice(parts);
        self.write(FrameKind::SnapshotChunk, &body)?;
        self.offset += length as u64;
        Ok(())
    }

    /// Ends the snapshot and waits until the receiver has stored it.
    pub fn finish(mut self) -> Result<(), Error> {
        let length = number_body(self.offset);
        self.write(FrameKind::SnapshotEnd, &[length])?;
        self.answer(FrameKind::SnapshotDone).map(drop)
    }

    /// Writes a frame. If that fails because the receiver gave up, the error is the receiver's.
    fn write(&mut self, kind: FrameKind, parts: &[Bytes]) -> Result<(), Error> {
        let Err(error) = self.socket.write_frame(kind, parts, self.max_frame_bytes) else { return Ok(()) };
        if matches!(error, Error::Frame(_))
            || self.socket.tcp().set_read_timeout(Some(REASON_TIMEOUT)).is_err()
        {
            return Err(error);
        }
        match self.reader.read_frame(&mut self.socket) {
            Ok(frame) => Err(failure(frame)),
            Err(_) => Err(error.or_stalled(self.timeout)),
        }
    }

    /// Checks, without waiting, whether the receiver has given up.
    fn check_failed(&mut self) -> Result<(), Error> {
        self.socket.tcp().set_nonblocking(true).map_err(Error::io("set non-blocking"))?;
        let read = self.reader.fill(|room| std::io::Read::read(&mut self.socket, room));
        self.socket.tcp().set_nonblocking(false).map_err(Error::io("set blocking"))?;
        match read {
            Ok(0) => Err(Error::Closed),
            Ok(_) => self.reader.next_frame()?.map_or(Ok(()), |frame| Err(failure(frame))),
            Err(error) if is_pause(&error) => Ok(()),
            Err(error) => Err(Error::io("read")(error)),
        }
    }

    /// Waits for the receiver's next frame, which must be of this kind.
    fn answer(&mut self, kind: FrameKind) -> Result<Frame, Error> {
        let timeout = self.timeout;
        let frame = self.reader.read_frame(&mut self.socket).map_err(|error| error.or_stalled(timeout))?;
        if frame.kind == kind { Ok(frame) } else { Err(failure(frame)) }
    }
}

/// The error that a frame of another kind than the expected one stands for.
fn failure(frame: Frame) -> Error {
    match frame.kind {
        FrameKind::SnapshotFailed => {
            Error::SnapshotReceiver(String::from_utf8_lossy(&frame.body).into_owned())
        }
        _ => Error::unexpected(&frame),
    }
}
