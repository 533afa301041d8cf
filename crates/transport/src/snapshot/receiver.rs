//! The receiving end of a snapshot stream.

use std::io::Read;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use crate::connection::{FrameReader, PeerSocket};
use crate::context::StreamContext;
use crate::error::Error;
use crate::owner::SnapshotReceiver;
use crate::protocol::{Frame, FrameKind, NUMBER_BYTES, number_body};

/// After a failure the receiver discards what still arrives for this long: closing at once would reset the connection
/// before the reason has arrived.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest reason that is sent to a sender.
const MAX_REASON_BYTES: usize = 1024;

/// Receives one snapshot from peer `from`.
pub(crate) fn receive(context: &StreamContext, from: u64, socket: &mut PeerSocket) -> Result<(), Error> {
    let timeout = context.config.timeouts.snapshot;
    socket.tcp().set_read_timeout(Some(timeout)).map_err(Error::io("set a timeout"))?;
    let mut reader = FrameReader::new(context.config.limits.max_frame_bytes);
    let received = receive_all(context, from, socket, &mut reader).map_err(|error| error.or_stalled(timeout));
    if let Err(Error::SnapshotFailed(reason)) = &received {
        report_failure(socket, reason);
    }
    received
}

/// Receives from the begin frame to the end frame.
fn receive_all(
    context: &StreamContext,
    from: u64,
    socket: &mut PeerSocket,
    reader: &mut FrameReader,
) -> Result<(), Error> {
    let begin = reader.read_frame(socket)?;
    if begin.kind != FrameKind::SnapshotBegin {
        return Err(Error::unexpected(&begin));
    }
    let (mut expected, mut receiver) =
        context.snapshots.begin(from, begin.body).map_err(Error::SnapshotFailed)?;
    socket.write_frame(FrameKind::SnapshotResume, &[number_body(expected)], NUMBER_BYTES as u32)?;
    loop {
        let frame = reader.read_frame(socket)?;
        match frame.kind {
            FrameKind::SnapshotChunk => expected = take_chunk(receiver.as_mut(), frame, expected)?,
            FrameKind::SnapshotEnd => {
                let length = Error::expect_number(&frame)?;
                check_offset(length, expected)?;
                receiver.end(length).map_err(Error::SnapshotFailed)?;
                return socket.write_frame(FrameKind::SnapshotDone, &[], 0);
            }
            _ => return Err(Error::unexpected(&frame)),
        }
    }
}

/// Delivers a chunk; returns the offset of the next one.
fn take_chunk(receiver: &mut dyn SnapshotReceiver, frame: Frame, expected: u64) -> Result<u64, Error> {
    if frame.body.len() < NUMBER_BYTES {
        return Err(Error::unexpected(&frame));
    }
    let mut bytes = frame.body;
    let offset = bytes.get_u64_le();
    check_offset(offset, expected)?;
    let next = offset.checked_add(bytes.len() as u64).ok_or(Error::SnapshotOffset { offset, expected })?;
    receiver.chunk(offset, bytes).map_err(Error::SnapshotFailed)?;
    Ok(next)
}

fn check_offset(offset: u64, expected: u64) -> Result<(), Error> {
    if offset == expected { Ok(()) } else { Err(Error::SnapshotOffset { offset, expected }) }
}

/// Sends the reason to the sender, if that is still possible.
fn report_failure(socket: &mut PeerSocket, reason: &str) {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    let body = Bytes::copy_from_slice(reason.as_bytes());
    let sent = socket.write_frame(FrameKind::SnapshotFailed, &[body], MAX_REASON_BYTES as u32);
    if sent.is_err() || socket.tcp().shutdown(Shutdown::Write).is_err() {
        return;
    }
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut discarded = vec![0; 64 << 10];
    while Instant::now() < deadline {
        let waits = socket.tcp().set_read_timeout(Some(DRAIN_TIMEOUT)).is_ok();
        if !waits || !matches!(socket.read(&mut discarded), Ok(count) if count > 0) {
            return;
        }
    }
}
