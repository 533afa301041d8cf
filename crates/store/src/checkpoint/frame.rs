//! Frames: the units in which a checkpoint is written and verified.
//!
//! `length u32 | kind u8 | CRC-32C u32 | body`, little-endian; the checksum covers kind and body.

use bytes::{BufMut, Bytes, BytesMut};

use super::error::RestoreError;

/// First bytes of a checkpoint.
pub(super) const MAGIC: [u8; 4] = *b"STLC";

const FRAME_HEADER_BYTES: usize = 9;

/// The length has 32 bits. A frame is closed near 64 KiB; only a key with a very long history makes a longer one, and
/// it would need hundreds of millions of versions, more than memory holds, to exceed this.
const MAX_BODY_BYTES: usize = u32::MAX as usize;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum FrameKind {
    Header = 1,
    Small = 2,
    Leases = 3,
    Removed = 4,
    Relocated = 5,
    Keys = 6,
    End = 7,
}

impl FrameKind {
    fn of(number: u8) -> Result<FrameKind, RestoreError> {
        use FrameKind::*;
        let kinds = [Header, Small, Leases, Removed, Relocated, Keys, End];
        kinds
            .into_iter()
            .find(|kind| *kind as u8 == number)
            .ok_or(RestoreError::Malformed("unknown kind of frame"))
    }
}

/// The order of the frames of one checkpoint, for all that read one: header, small state, any number of each kind of
/// content, end.
#[derive(Clone, Copy, Default)]
pub(super) struct FrameOrder {
    /// The kind of the frame before.
    last: Option<FrameKind>,
}

impl FrameOrder {
    /// Takes the kind of the next frame.
    ///
    /// # Errors
    /// It must not follow the frame before.
    pub(super) fn next(&mut self, kind: FrameKind) -> Result<(), RestoreError> {
        use FrameKind::*;
        let fits = match (self.last.replace(kind), kind) {
            (None, Header) | (Some(Header), Small) => true,
            (None | Some(Header), _) | (_, Header | Small) => false,
            (Some(before), End) => before < End,
            (Some(before), Leases | Removed | Relocated | Keys) => before <= kind,
        };
        if fits { Ok(()) } else { Err(NOT_IN_ORDER) }
    }
}

const NOT_IN_ORDER: RestoreError =
    RestoreError::Malformed("a checkpoint is its header, its content and its end");

/// Encodes a frame.
pub(super) fn frame(kind: FrameKind, body: &[u8]) -> Bytes {
    assert!(body.len() <= MAX_BODY_BYTES, "one key's history fits a frame");
    let mut out = BytesMut::with_capacity(FRAME_HEADER_BYTES + body.len());
    out.put_u32_le(body.len() as u32);
    out.put_u8(kind as u8);
    out.put_u32_le(checksum(kind as u8, body));
    out.put_slice(body);
    out.freeze()
}

fn checksum(kind: u8, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[kind]), body)
}

/// The frames of chunks, one after the other. A clone goes on at the same place.
#[derive(Clone)]
pub(super) struct Frames<I> {
    chunks: I,
    /// Bytes of the last chunk that are not taken.
    rest: Bytes,
}

impl<I: Iterator<Item = Bytes>> Frames<I> {
    pub(super) fn new(chunks: I) -> Frames<I> {
        Frames { chunks, rest: Bytes::new() }
    }

    /// The kind and the body of the next frame; `None` after the last.
    ///
    /// # Errors
    /// A frame is damaged, or cut off at the end of the chunks.
    pub(super) fn next(&mut self) -> Result<Option<(FrameKind, Bytes)>, RestoreError> {
        while self.rest.is_empty() {
            match self.chunks.next() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(None),
            }
        }
        if self.rest.len() < frame_bytes(&self.rest) {
            self.gather()?;
        }
        let mut frame = self.rest.split_to(frame_bytes(&self.rest));
        let mut taken = None;
        take_frames(&frame, &mut |kind, _| {
            taken = Some(kind);
            Ok(())
        })?;
        let kind = taken.expect("the frame is complete");
        Ok(Some((kind, frame.split_off(FRAME_HEADER_BYTES))))
    }

    /// Adds chunks until the frame is complete.
    fn gather(&mut self) -> Result<(), RestoreError> {
        let mut whole = self.rest.to_vec();
        while whole.len() < frame_bytes(&whole) {
            whole.extend_from_slice(&self.chunks.next().ok_or(RestoreError::Truncated)?);
        }
        self.rest = whole.into();
        Ok(())
    }
}

/// Bytes of the frame that begins here, as far as they are known: at least those of its header.
fn frame_bytes(bytes: &[u8]) -> usize {
    let body = bytes.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    FRAME_HEADER_BYTES + body
}

/// Assembles frames from chunks, however the bytes are divided.
#[derive(Default)]
pub(super) struct FrameReader {
    /// The beginning of a frame whose end has not arrived.
    rest: Vec<u8>,
}

impl FrameReader {
    /// Takes the next bytes, and calls `visit` with every complete frame.
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        mut visit: impl FnMut(FrameKind, &[u8]) -> Result<(), RestoreError>,
    ) -> Result<(), RestoreError> {
        if self.rest.is_empty() {
            let used = take_frames(chunk, &mut visit)?;
            self.rest.extend_from_slice(&chunk[used..]);
        } else {
            self.rest.extend_from_slice(chunk);
            let used = take_frames(&self.rest, &mut visit)?;
            self.rest.drain(..used);
        }
        Ok(())
    }

    /// Checks that no frame is incomplete.
    pub(super) fn finish(&self) -> Result<(), RestoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(RestoreError::Truncated) }
    }
}

fn take_frames(
    bytes: &[u8],
    visit: &mut impl FnMut(FrameKind, &[u8]) -> Result<(), RestoreError>,
) -> Result<usize, RestoreError> {
    let mut used = 0;
    while let Some((header, rest)) = bytes[used..].split_first_chunk::<FRAME_HEADER_BYTES>() {
        let [l0, l1, l2, l3, kind, c0, c1, c2, c3] = *header;
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let Some(body) = rest.get(..len) else { break };
        if checksum(kind, body) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(RestoreError::Damaged);
        }
        visit(FrameKind::of(kind)?, body)?;
        used += FRAME_HEADER_BYTES + len;
    }
    Ok(used)
}
