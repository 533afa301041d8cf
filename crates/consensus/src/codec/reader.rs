//! Reading little-endian fields from bytes that nobody vouches for.

use bytes::{Buf, Bytes};

use super::DecodeError;

/// A cursor whose every read may fail, and none may panic.
pub(crate) struct Reader {
    buf: Bytes,
}

impl Reader {
    pub(crate) fn new(buf: Bytes) -> Reader {
        Reader { buf }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.buf.len()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.need(1)?;
        Ok(self.buf.get_u8())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.need(2)?;
        Ok(self.buf.get_u16_le())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.need(4)?;
        Ok(self.buf.get_u32_le())
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.need(8)?;
        Ok(self.buf.get_u64_le())
    }

    /// The next `len` bytes, sharing the buffer.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        self.need(len)?;
        Ok(self.buf.split_to(len))
    }

    /// All that is left.
    pub(crate) fn rest(self) -> Bytes {
        self.buf
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        match self.buf.len() {
            0 => Ok(()),
            extra => Err(DecodeError::TooLong { extra }),
        }
    }

    fn need(&self, len: usize) -> Result<(), DecodeError> {
        if self.buf.len() < len {
            return Err(DecodeError::TooShort { missing: len - self.buf.len() });
        }
        Ok(())
    }
}
