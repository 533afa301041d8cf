//! Reads little-endian fields from untrusted bytes.
//!
//! Every read either returns a field or a [`WireError`]; none panics, and none allocates more than the bytes that are
//! there. Messages ([`crate::message`]) and conf changes ([`crate::membership`]) are decoded with it.

use bytes::{Buf, Bytes};

/// Why bytes do not decode. The sender is defective or speaks another version: drop the frame, count it, and close
/// the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// More bytes are needed than there are.
    #[error("truncated: {missing} more bytes expected")]
    TooShort {
        /// How many more.
        missing: usize,
    },
    /// Bytes are left over.
    #[error("{extra} bytes too many")]
    TooLong {
        /// How many.
        extra: usize,
    },
    /// An unknown format version.
    #[error("format version {got}, this release reads {known}")]
    Version {
        /// The version found.
        got: u8,
        /// The version known.
        known: u8,
    },
    /// A field has a value outside its range.
    #[error("{field} cannot be {got}")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        got: u64,
    },
    /// An entry does not match its checksum.
    #[error("entry {index} fails its checksum")]
    Checksum {
        /// The entry's index.
        index: u64,
    },
}

/// A cursor over untrusted bytes.
pub(crate) struct FieldReader {
    buf: Bytes,
}

impl FieldReader {
    pub(crate) fn new(buf: Bytes) -> FieldReader {
        FieldReader { buf }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.buf.len()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.need(1)?;
        Ok(self.buf.get_u8())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.need(2)?;
        Ok(self.buf.get_u16_le())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.need(4)?;
        Ok(self.buf.get_u32_le())
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.need(8)?;
        Ok(self.buf.get_u64_le())
    }

    /// The next `len` bytes, sharing the buffer.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, WireError> {
        self.need(len)?;
        Ok(self.buf.split_to(len))
    }

    /// The bytes not read yet.
    pub(crate) fn rest(self) -> Bytes {
        self.buf
    }

    /// Ends reading: an error if bytes are left over.
    pub(crate) fn end(self) -> Result<(), WireError> {
        match self.buf.len() {
            0 => Ok(()),
            extra => Err(WireError::TooLong { extra }),
        }
    }

    fn need(&self, len: usize) -> Result<(), WireError> {
        if self.buf.len() < len {
            return Err(WireError::TooShort { missing: len - self.buf.len() });
        }
        Ok(())
    }
}
