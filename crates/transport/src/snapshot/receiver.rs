//! The receiving end of a snapshot stream.

use std::io::Read;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use super::OFFSET_BYTES;
use crate::frame::{Frame, number_body};
use crate::peers::Shared;
use crate::reader::FrameReader;
use crate::stream::Stream;
use crate::{Error, Kind, SnapshotReceiver};

/// After a failure what the sender still sends is read away this long, so that closing does not reset the
/// connection before the reason has arrived.
const DRAIN: Duration = Duration::from_secs(2);
/// The longest reason told to a sender.
const MAX_REASON_BYTES: usize = 1024;

/// Receives one snapshot from peer `from`.
pub(crate) fn receive(shared: &Shared, from: u64, stream: &mut Stream) -> Result<(), Error> {
    let patience = shared.config.timeouts.snapshot;
    stream.tcp().set_read_timeout(Some(patience)).map_err(Error::io("set a timeout"))?;
    let mut reader = FrameReader::new(shared.config.limits.max_frame_bytes);
    let received = take(shared, from, stream, &mut reader).map_err(|error| error.or_stalled(patience));
    if let Err(Error::SnapshotFailed(reason)) = &received {
        tell(stream, reason);
    }
    received
}

fn take(shared: &Shared, from: u64, stream: &mut Stream, reader: &mut FrameReader) -> Result<(), Error> {
    let begin = reader.read_frame(stream)?;
    if begin.kind != Kind::SnapshotBegin {
        return Err(begin.unexpected());
    }
    let (mut expected, mut receiver) =
        shared.snapshots.begin(from, begin.body).map_err(Error::SnapshotFailed)?;
    stream.write_frame(Kind::SnapshotResume, &[number_body(expected)], OFFSET_BYTES as u32)?;
    loop {
        let frame = reader.read_frame(stream)?;
        match frame.kind {
            Kind::SnapshotChunk => expected = take_chunk(receiver.as_mut(), frame, expected)?,
            Kind::SnapshotEnd => {
                let length = frame.number()?;
                check_offset(length, expected)?;
                receiver.end(length).map_err(Error::SnapshotFailed)?;
                return stream.write_frame(Kind::SnapshotDone, &[], 0);
            }
            _ => return Err(frame.unexpected()),
        }
    }
}

/// Hands a chunk on; returns where the next one belongs.
fn take_chunk(receiver: &mut dyn SnapshotReceiver, frame: Frame, expected: u64) -> Result<u64, Error> {
    if frame.body.len() < OFFSET_BYTES {
        return Err(frame.unexpected());
    }
    let mut bytes = frame.body;
    let offset = bytes.get_u64_le();
    check_offset(offset, expected)?;
    let next = offset.checked_add(bytes.len() as u64).ok_or(Error::SnapshotGap { offset, expected })?;
    receiver.chunk(offset, bytes).map_err(Error::SnapshotFailed)?;
    Ok(next)
}

fn check_offset(offset: u64, expected: u64) -> Result<(), Error> {
    if offset == expected { Ok(()) } else { Err(Error::SnapshotGap { offset, expected }) }
}

/// Tells the sender why, as well as that is still possible.
fn tell(stream: &mut Stream, reason: &str) {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    let body = Bytes::copy_from_slice(reason.as_bytes());
    let told = stream.write_frame(Kind::SnapshotFailed, &[body], MAX_REASON_BYTES as u32);
    if told.is_err() || stream.tcp().shutdown(Shutdown::Write).is_err() {
        return;
    }
    let deadline = Instant::now() + DRAIN;
    let mut away = vec![0; 64 << 10];
    while Instant::now() < deadline {
        let waits = stream.tcp().set_read_timeout(Some(DRAIN)).is_ok();
        if !waits || !matches!(stream.read(&mut away), Ok(count) if count > 0) {
            return;
        }
    }
}
