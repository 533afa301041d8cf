//! The places in a chunk: listed for whoever sends the values along, replaced by whoever wrote them elsewhere.

use bytes::Bytes;

use super::RestoreError;
use super::codec::Fields;
use super::frame::{FrameKind, Frames, frame};
use crate::types::ValueRef;

/// The references in a chunk that a [`CheckpointSource`](super::CheckpointSource) of a whole state gave, in their
/// order. Empty values are left out: they have no place.
///
/// # Errors
/// [`RestoreError`] when it is no such chunk.
pub fn chunk_values(chunk: &[u8]) -> Result<Vec<ValueRef>, RestoreError> {
    let mut values = Vec::new();
    each_frame(chunk, |kind, body| {
        each_value(kind, body, |_, value| values.push(value))?;
        Ok(())
    })?;
    Ok(values)
}

/// The chunk with other places, which `address` is asked for in the order of [`chunk_values`].
///
/// # Errors
/// [`RestoreError`] when it is no chunk of a whole state, or `address` has no answer.
pub fn with_addresses(
    chunk: &[u8],
    mut address: impl FnMut(&ValueRef) -> Option<u64>,
) -> Result<Bytes, RestoreError> {
    let mut moved = Vec::with_capacity(chunk.len());
    each_frame(chunk, |kind, body| {
        let mut body_moved = body.to_vec();
        let mut missing = false;
        each_value(kind, body, |at, value| match address(&value) {
            Some(address) => body_moved[at..at + 8].copy_from_slice(&address.to_le_bytes()),
            None => missing = true,
        })?;
        if missing {
            return Err(RestoreError::Malformed("a value is missing"));
        }
        moved.extend_from_slice(&frame(kind, &body_moved));
        Ok(())
    })?;
    Ok(moved.into())
}

fn each_frame(
    chunk: &[u8],
    visit: impl FnMut(FrameKind, &[u8]) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    let mut frames = Frames::default();
    frames.push(chunk, visit)?;
    frames.finish()
}

/// Calls `visit` with each value and the offset of its place in the body.
fn each_value(
    kind: FrameKind,
    body: &[u8],
    mut visit: impl FnMut(usize, ValueRef),
) -> Result<(), RestoreError> {
    match kind {
        FrameKind::Keys => {}
        // They belong to deltas, and a delta means nothing to somebody else.
        FrameKind::Moved | FrameKind::Removed => {
            return Err(RestoreError::Malformed("a part of a delta where a whole state was expected"));
        }
        _ => return Ok(()),
    }
    let mut fields = Fields(body);
    let mut key = Vec::new();
    while !fields.is_empty() {
        fields.key(&mut key)?;
        for _ in 0..fields.number()? >> 1 {
            let value = fields.version()?.value;
            if value.len > 0 {
                // Place and checksum are a version's last fields.
                visit(body.len() - fields.0.len() - PLACE_FROM_END, value);
            }
        }
    }
    Ok(())
}

/// Bytes from a version's place to its end: place u64, checksum u32.
const PLACE_FROM_END: usize = 12;
