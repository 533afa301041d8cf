//! References to values, and the trait that resolves them.
//!
//! The store never holds the bytes of a value. It holds a [`ValueRef`] (16 bytes: log address, length, checksum), and a
//! caller that needs the bytes resolves it through [`Values`] after the index lock is released:
//!
//! ```text
//! put(k, "hello") in the entry whose payload begins at log address 0x7_0000_1000
//!
//!   payload   ... | k | h e l l o | ...          index   k -> ValueRef { address: 0x7_0000_1042,
//!                       ^ offset 0x42                                    len: 5, checksum: crc32c("hello") }
//! ```
//!
//! The index counts its references: it calls [`Values::retain`] for each version it takes up and [`Values::release`]
//! for each version it drops, so the log knows which files still hold live values. An empty value has no address: its
//! reference is [`ValueRef::default`], and `Values` is never called for it. The functions at the end of this file keep
//! that rule. When a snapshot replaces the whole index, the counts are replaced as a whole, too, by the caller of
//! [`Store::install`](crate::Store::install).

use std::sync::Arc;

use bytes::Bytes;

/// Names the bytes of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueRef {
    /// Log address: file and offset, opaque to the store.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// CRC-32C of the value's bytes, checked when it is read from a file.
    pub checksum: u32,
}

impl ValueRef {
    /// Whether the reference is one that the index may hold: that of an empty value is all zero.
    pub(crate) fn is_consistent(&self) -> bool {
        self.len > 0 || *self == ValueRef::default()
    }
}

/// A value could not be read intact: its bytes differ, or the disk failed. Unless the failure is transient, a peer's
/// copy must take its place before it can be served.
#[derive(Clone, Debug, thiserror::Error)]
#[error("value at address {address:#x} ({len} bytes) {}: {reason}",
        if *.is_transient { "cannot be read now" } else { "is damaged" })]
pub struct Damaged {
    /// The address in the reference.
    pub address: u64,
    /// The length in the reference.
    pub len: u32,
    /// A key whose version refers to the value, if the reader knew it: repair then needs no search.
    pub key: Option<Bytes>,
    /// Checksum mismatch, short read or read error.
    pub reason: Arc<str>,
    /// The process could not open another file. The bytes may be intact, and a later read may succeed.
    pub is_transient: bool,
}

impl Damaged {
    /// Names the key of the value, found among those that were read.
    pub(crate) fn among<'a>(mut self, mut read: impl Iterator<Item = (&'a [u8], ValueRef)>) -> Damaged {
        let is_it = |(_, value): &(&[u8], ValueRef)| value.address == self.address && value.len == self.len;
        self.key = read.find(is_it).map(|(key, _)| Bytes::copy_from_slice(key));
        self
    }
}

/// A read slot: a wanted value, and the bytes of a response that it fills exactly.
#[derive(Debug)]
pub struct ValueSlot<'a> {
    /// The value; its length is above 0.
    pub value: ValueRef,
    /// Exactly as long as the value.
    pub into: &'a mut [u8],
}

/// Why values are read; decides whether the value cache keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For an answer of bounded length, likely to be requested again.
    Query,
    /// For a part of a long range, which would evict itself from the cache.
    Scan,
}

/// Access to values. `member` implements it on the log, tests implement it on a map. Never called for an empty value.
pub trait Values: Send + Sync {
    /// Reads and checks one value.
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged>;

    /// The value, if reading it needs no disk. Must not block.
    fn read_in_memory(&self, _: &ValueRef) -> Option<Bytes> {
        None
    }

    /// Reads and checks several values, in the order asked; neighbours may be read together.
    fn read_many(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        values.iter().map(|value| self.read(value)).collect()
    }

    /// Reads and checks several values into their slots. May reorder `slots` to read neighbours together.
    fn read_into(&self, slots: &mut [ValueSlot<'_>], _: Access) -> Result<(), Damaged> {
        slots.iter_mut().try_for_each(|slot| {
            slot.into.copy_from_slice(&self.read(&slot.value)?);
            Ok(())
        })
    }

    /// The index took a reference to this value. Several versions may refer to one value (`ignore_value`).
    fn retain(&self, value: &ValueRef);

    /// A restored index took references to all these values.
    fn retain_all(&self, values: &mut dyn Iterator<Item = ValueRef>) {
        values.for_each(|value| self.retain(&value));
    }

    /// The index dropped a reference that it had retained before.
    fn release(&self, value: &ValueRef);
}

/// Retains a reference for the index, unless the value is empty.
pub(crate) fn retain(values: &dyn Values, value: &ValueRef) {
    assert!(value.is_consistent(), "an empty value has no address, any other value has one");
    if value.len > 0 {
        values.retain(value);
    }
}

/// Releases a reference that the index held, unless the value is empty.
pub(crate) fn release(values: &dyn Values, value: &ValueRef) {
    assert!(value.is_consistent(), "what is released was retained");
    if value.len > 0 {
        values.release(value);
    }
}

/// Reads a value; an empty one is at hand.
pub(crate) fn read(values: &dyn Values, value: &ValueRef) -> Result<Bytes, Damaged> {
    if value.len == 0 { Ok(Bytes::new()) } else { values.read(value) }
}
