//! The fields of frames, written and read side by side: LEB128 numbers, zigzag for numbers that may be negative,
//! length-prefixed bytes.

use super::error::RestoreError;
use crate::index::Version;
use crate::types::Revision;
use crate::values::ValueRef;

const TOMBSTONE: u8 = 1;
const LEASED: u8 = 2;
/// The first version of its generation.
const FIRST: u8 = 4;
/// Sub is not 0.
const SUB: u8 = 8;

/// No key reaches this version number, and what is added to it does not overflow.
const MAX_VERSION: i64 = 1 << 61;

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative.
pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63) as u64);
}

/// Appends bytes with their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a key: the length of the prefix that it shares with the key before, and the rest.
pub(super) fn put_key(out: &mut Vec<u8>, before: &[u8], key: &[u8]) {
    let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
    put_number(out, shared as u64);
    put_bytes(out, &key[shared..]);
}

/// Appends a version.
pub(super) fn put_version(out: &mut Vec<u8>, version: &Version) {
    let first = version.create == version.revision.main && version.version == 1;
    let mut flags = 0;
    for (flag, set) in [
        (TOMBSTONE, version.is_tombstone()),
        (LEASED, version.lease != 0),
        (FIRST, first),
        (SUB, version.revision.sub != 0),
    ] {
        flags |= if set { flag } else { 0 };
    }
    out.push(flags);
    put_number(out, version.revision.main as u64);
    if version.revision.sub != 0 {
        put_number(out, u64::from(version.revision.sub));
    }
    if version.is_tombstone() {
        return;
    }
    if !first {
        put_number(out, (version.revision.main - version.create) as u64);
        put_number(out, version.version as u64);
    }
    if version.lease != 0 {
        put_signed(out, version.lease);
    }
    put_number(out, u64::from(version.value.len));
    if version.value.len > 0 {
        out.extend_from_slice(&version.value.address.to_le_bytes());
        out.extend_from_slice(&version.value.checksum.to_le_bytes());
    }
}

/// Reads fields from the front of a frame's body. The frame's checksum matched, so a field that does not fit comes
/// from a faulty writer or is forged; it is answered with an error.
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], RestoreError> {
        let (head, rest) =
            self.0.split_at_checked(len).ok_or(RestoreError::Malformed("a field is cut off"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn byte(&mut self) -> Result<u8, RestoreError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, RestoreError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(RestoreError::Malformed("a number is too long"))
    }

    /// A number that must fit into a smaller type.
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, RestoreError> {
        T::try_from(self.number()?).map_err(|_| RestoreError::Malformed("a number is too large"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, RestoreError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RestoreError> {
        let len = self.small()?;
        self.take(len)
    }

    pub(super) fn string(&mut self) -> Result<String, RestoreError> {
        let bytes = self.bytes()?.to_vec();
        String::from_utf8(bytes).map_err(|_| RestoreError::Malformed("a text is not UTF-8"))
    }

    /// Reads a key; `key` is the key before, and becomes this one.
    pub(super) fn key(&mut self, key: &mut Vec<u8>) -> Result<(), RestoreError> {
        let (shared, rest) = self.key_after(key.len())?;
        key.truncate(shared);
        key.extend_from_slice(rest);
        Ok(())
    }

    /// Reads a key that follows one of `before` bytes: how many of them it shares, and its other bytes.
    pub(super) fn key_after(&mut self, before: usize) -> Result<(usize, &'a [u8]), RestoreError> {
        let shared: usize = self.small()?;
        if shared > before {
            return Err(RestoreError::Malformed("a key shares more than there is"));
        }
        Ok((shared, self.bytes()?))
    }

    pub(super) fn revision(&mut self) -> Result<Revision, RestoreError> {
        Ok(Revision { main: self.small()?, sub: self.small()? })
    }

    pub(super) fn version(&mut self) -> Result<Version, RestoreError> {
        let flags = self.byte()?;
        let has = |flag| flags & flag != 0;
        let main: i64 = self.small()?;
        let sub = if has(SUB) { self.small()? } else { 0 };
        let revision = Revision { main, sub };
        if has(TOMBSTONE) {
            return Ok(Version::tombstone(revision));
        }
        let (mut create, mut version) = (main, 1);
        if !has(FIRST) {
            create = main.checked_sub(self.small()?).unwrap_or(0);
            version = self.small()?;
        }
        if create <= 0 || version <= 0 {
            return Err(RestoreError::Malformed("a version was created before the first revision"));
        }
        if version > MAX_VERSION {
            return Err(RestoreError::Malformed("a version has a number that no key reaches"));
        }
        let lease = if has(LEASED) { self.signed()? } else { 0 };
        let len = self.small()?;
        let mut value = ValueRef::default();
        if len > 0 {
            let address = u64::from_le_bytes(self.array()?);
            if address == 0 {
                return Err(RestoreError::Malformed("a value has no address"));
            }
            value = ValueRef { address, len, checksum: u32::from_le_bytes(self.array()?) };
        }
        Ok(Version { revision, create, version, lease, value })
    }
}
