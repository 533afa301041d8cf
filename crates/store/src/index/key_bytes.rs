//! The bytes of a key as the tree returns them.
//!
//! A leaf stores what its keys have in common once, so the bytes of one key do not lie together. They are put together
//! on the stack of the reader, because most keys are short.

use std::fmt;
use std::ops::Deref;

/// The length of the longest key that is stored in parts. A longer one has a block of its own.
pub(crate) const MAX_SHORT_BYTES: usize = 254;

/// Bytes of a key that its hint holds.
pub(crate) const HINT_BYTES: usize = 4;

/// A key of the tree; used like a slice.
pub(crate) struct KeyBytes<'a>(KeyRepr<'a>);

#[expect(clippy::large_enum_variant, reason = "it is on the stack of a reader, and nearly always joined")]
enum KeyRepr<'a> {
    Joined(JoinedKey),
    Whole(&'a [u8]),
}

/// A key that is put together. The same place may be used for many keys in a row that share a prefix.
pub(crate) struct JoinedKey {
    /// A hint is written whole, also if the key ends in it.
    bytes: [u8; MAX_SHORT_BYTES + HINT_BYTES],
    len: u8,
}

impl JoinedKey {
    /// A key that consists of `prefix`, of at most [`MAX_SHORT_BYTES`].
    #[inline]
    pub(super) fn of_prefix(prefix: &[u8]) -> JoinedKey {
        let mut bytes = [0; MAX_SHORT_BYTES + HINT_BYTES];
        bytes[..prefix.len()].copy_from_slice(prefix);
        JoinedKey { bytes, len: prefix.len() as u8 }
    }

    /// Lets a hint and a suffix follow the first `prefix` bytes, and cuts the key to `len` bytes.
    #[inline]
    pub(super) fn follow(&mut self, prefix: usize, hint: u32, suffix: &[u8], len: usize) {
        self.bytes[prefix..prefix + HINT_BYTES].copy_from_slice(&hint.to_be_bytes());
        if !suffix.is_empty() {
            self.bytes[prefix + HINT_BYTES..][..suffix.len()].copy_from_slice(suffix);
        }
        self.len = len as u8;
    }

    /// The bytes of the key.
    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl<'a> KeyBytes<'a> {
    /// A key that was put together.
    #[inline]
    pub(super) fn joined(key: JoinedKey) -> KeyBytes<'a> {
        KeyBytes(KeyRepr::Joined(key))
    }

    /// A key that lies in one block.
    pub(super) fn whole(key: &'a [u8]) -> KeyBytes<'a> {
        KeyBytes(KeyRepr::Whole(key))
    }
}

impl Deref for KeyBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            KeyRepr::Joined(key) => key.as_slice(),
            KeyRepr::Whole(key) => key,
        }
    }
}

impl fmt::Debug for KeyBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBytes({:?})", self.escape_ascii().to_string())
    }
}
