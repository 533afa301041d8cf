//! The bytes of a key, in 16 bytes of its record: up to 14 bytes inline, longer keys on the heap.

use std::fmt;

use crate::memory::block_bytes;

/// The length of the longest key without an allocation.
const MAX_INLINE_BYTES: usize = 14;

/// An owned key.
#[derive(Clone)]
pub(crate) struct IndexKey(KeyRepr);

#[derive(Clone)]
enum KeyRepr {
    Inline {
        len: u8,
        bytes: [u8; MAX_INLINE_BYTES],
    },
    /// The outer box makes the pointer thin: a fat pointer would cost every record 8 bytes more.
    Heap(Box<Box<[u8]>>),
}

const _: () = assert!(size_of::<IndexKey>() == 16, "a record is one cache line only with 16-byte keys");

impl IndexKey {
    /// Copies `bytes`.
    pub(crate) fn new(bytes: &[u8]) -> IndexKey {
        if bytes.len() > MAX_INLINE_BYTES {
            return IndexKey(KeyRepr::Heap(Box::new(bytes.into())));
        }
        let mut inline = [0; MAX_INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        IndexKey(KeyRepr::Inline { len: bytes.len() as u8, bytes: inline })
    }

    /// Bytes of memory taken beside these 16.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            KeyRepr::Inline { .. } => 0,
            KeyRepr::Heap(bytes) => block_bytes(size_of::<Box<[u8]>>()) + block_bytes(bytes.len()),
        }
    }

    /// The key's bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            KeyRepr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            KeyRepr::Heap(bytes) => bytes,
        }
    }
}

impl Default for IndexKey {
    fn default() -> IndexKey {
        IndexKey(KeyRepr::Inline { len: 0, bytes: [0; MAX_INLINE_BYTES] })
    }
}

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexKey({:?})", self.as_slice().escape_ascii().to_string())
    }
}
