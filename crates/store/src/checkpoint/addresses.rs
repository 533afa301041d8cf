//! The log addresses in a chunk: read by a sender of snapshots, which sends the values along, and replaced by the
//! receiver, which writes them elsewhere.

use bytes::Bytes;

use super::codec::FieldReader;
use super::error::RestoreError;
use super::frame::{FrameKind, FrameReader, frame};
use crate::values::ValueRef;

/// Bytes from a version's log address to its end: address u64, checksum u32.
const ADDRESS_FROM_END: usize = 12;

/// The references in a chunk of a base, in their order, without those of empty values, which have no address.
///
/// # Errors
/// [`RestoreError`] when it is not a chunk of a base.
pub fn chunk_values(chunk: &[u8]) -> Result<Vec<ValueRef>, RestoreError> {
    let mut values = Vec::new();
    each_frame(chunk, |kind, body| {
        each_value(kind, body, |_, _, value| values.push(value))?;
        Ok(())
    })?;
    Ok(values)
}

/// The key of the first reference to `address` in a chunk of a base; `None` if there is none.
pub fn chunk_key(chunk: &[u8], address: u64) -> Option<Bytes> {
    let mut found = None;
    let read = each_frame(chunk, |kind, body| {
        each_value(kind, body, |key, _, value| {
            if value.address == address && found.is_none() {
                found = Some(Bytes::copy_from_slice(key));
            }
        })
    });
    read.ok().and(found)
}

/// The chunk with other log addresses: calls `address` with each reference, in the order of [`chunk_values`].
///
/// # Errors
/// [`RestoreError`] when it is not a chunk of a base, or `address` returns `None`.
pub fn with_addresses(
    chunk: &[u8],
    mut address: impl FnMut(&ValueRef) -> Option<u64>,
) -> Result<Bytes, RestoreError> {
    let mut readdressed = Vec::with_capacity(chunk.len());
    each_frame(chunk, |kind, body| {
        let mut new_body = body.to_vec();
        let mut missing = false;
        each_value(kind, body, |_, at, value| match address(&value) {
            Some(address) => new_body[at..at + 8].copy_from_slice(&address.to_le_bytes()),
            None => missing = true,
        })?;
        if missing {
            return Err(RestoreError::Malformed("a value is missing"));
        }
        readdressed.extend_from_slice(&frame(kind, &new_body));
        Ok(())
    })?;
    assert_eq!(readdressed.len(), chunk.len(), "addresses have a fixed length");
    Ok(readdressed.into())
}

fn each_frame(
    chunk: &[u8],
    visit: impl FnMut(FrameKind, &[u8]) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    let mut frames = FrameReader::default();
    frames.push(chunk, visit)?;
    frames.finish()
}

/// Calls `visit` with each value, its key before it, and the offset of its address in the body.
fn each_value(
    kind: FrameKind,
    body: &[u8],
    mut visit: impl FnMut(&[u8], usize, ValueRef),
) -> Result<(), RestoreError> {
    match kind {
        FrameKind::Keys => {}
        // They belong to deltas, and a snapshot is a base.
        FrameKind::Relocated | FrameKind::Removed => {
            return Err(RestoreError::Malformed("a part of a delta where a whole state was expected"));
        }
        _ => return Ok(()),
    }
    let mut fields = FieldReader(body);
    let mut key = Vec::new();
    while !fields.is_empty() {
        fields.key(&mut key)?;
        for _ in 0..fields.number()? >> 1 {
            let value = fields.version()?.value;
            if value.len > 0 {
                // Address and checksum are the last fields of a version.
                visit(&key, body.len() - fields.0.len() - ADDRESS_FROM_END, value);
            }
        }
    }
    Ok(())
}
