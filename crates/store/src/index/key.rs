//! A key's bytes in 16 bytes of record: short keys lie inline, longer ones on the heap.

use std::fmt;

/// The longest key that needs no allocation.
const MAX_INLINE_BYTES: usize = 14;

/// An owned key.
#[derive(Clone)]
pub(crate) struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline {
        len: u8,
        bytes: [u8; MAX_INLINE_BYTES],
    },
    /// The outer box makes the pointer thin: a fat one would cost every record 8 bytes more.
    Heap(Box<Box<[u8]>>),
}

const _: () = assert!(size_of::<Key>() == 16, "a record is one cache line only with 16-byte keys");

impl Key {
    /// Copies `bytes`.
    pub(crate) fn new(bytes: &[u8]) -> Key {
        if bytes.len() > MAX_INLINE_BYTES {
            return Key(Repr::Heap(Box::new(bytes.into())));
        }
        let mut inline = [0; MAX_INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Key(Repr::Inline { len: bytes.len() as u8, bytes: inline })
    }

    /// The key's bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }
}

impl Default for Key {
    fn default() -> Key {
        Key(Repr::Inline { len: 0, bytes: [0; MAX_INLINE_BYTES] })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.as_slice().escape_ascii().to_string())
    }
}
