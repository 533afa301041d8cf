//! An owned key in 16 bytes: up to 14 bytes inline, longer keys on the heap. For separators, and for keys that outlive
//! the lock; the keys of the index themselves are in the leaves of its tree.

use std::fmt;

use crate::memory::block_bytes;

/// The length of the longest key without an allocation.
const MAX_INLINE_BYTES: usize = 14;

/// An owned key.
#[derive(Clone)]
pub(crate) struct IndexKey(OwnedRepr);

#[derive(Clone)]
enum OwnedRepr {
    Inline {
        len: u8,
        bytes: [u8; MAX_INLINE_BYTES],
    },
    /// The outer box makes the pointer thin: a fat pointer would cost every key 8 bytes more.
    Heap(Box<Box<[u8]>>),
}

const _: () = assert!(size_of::<IndexKey>() == 16, "lists of separators and of keys are long");

impl IndexKey {
    /// Copies `bytes`.
    pub(crate) fn new(bytes: &[u8]) -> IndexKey {
        if bytes.len() > MAX_INLINE_BYTES {
            return IndexKey(OwnedRepr::Heap(Box::new(bytes.into())));
        }
        let mut inline = [0; MAX_INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        IndexKey(OwnedRepr::Inline { len: bytes.len() as u8, bytes: inline })
    }

    /// Bytes of memory taken beside these 16.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            OwnedRepr::Inline { .. } => 0,
            OwnedRepr::Heap(bytes) => block_bytes(size_of::<Box<[u8]>>()) + block_bytes(bytes.len()),
        }
    }

    /// The key's bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            OwnedRepr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            OwnedRepr::Heap(bytes) => bytes,
        }
    }
}

impl Default for IndexKey {
    fn default() -> IndexKey {
        IndexKey(OwnedRepr::Inline { len: 0, bytes: [0; MAX_INLINE_BYTES] })
    }
}

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexKey({:?})", self.as_slice().escape_ascii().to_string())
    }
}
