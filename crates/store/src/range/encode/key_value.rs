//! One `KeyValue` field of a response, and the sequences of them that a response is encoded from.

use bytes::BufMut;

use super::fields::KVS;
use crate::index::Version;
use crate::values::ValueRef;
use crate::wire::{bytes_len, number_len, put_bytes, put_number, put_prefix, record_len};

/// Values from this size on become chunks of their own, without a copy.
pub(super) const LARGE_VALUE_BYTES: u32 = 16 << 10;

/// What is encoded of one `KeyValue`. An omitted value is an empty one.
#[derive(Clone, Copy)]
pub(crate) struct KeyValueFields<'a> {
    pub(super) key: &'a [u8],
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
    pub(super) value: ValueRef,
}

impl<'a> KeyValueFields<'a> {
    /// A version from the index; with `keys_only`, without value and lease.
    pub(super) fn of(key: &'a [u8], version: &Version, keys_only: bool) -> KeyValueFields<'a> {
        KeyValueFields {
            key,
            create_revision: version.create,
            mod_revision: version.revision.main,
            version: version.version,
            lease: if keys_only { 0 } else { version.lease },
            value: if keys_only { ValueRef::default() } else { version.value },
        }
    }

    fn numbers(&self) -> [(u32, u64); 3] {
        [(2, self.create_revision as u64), (3, self.mod_revision as u64), (4, self.version as u64)]
    }

    /// Length of the message.
    pub(super) fn len(&self) -> usize {
        let numbers_len: usize =
            self.numbers().iter().map(|(field, number)| number_len(*field, *number)).sum();
        bytes_len(1, self.key.len()) + numbers_len + bytes_len(5, self.value.len as usize) + self.back_len()
    }

    /// Length of the field in the response: tag, length and message.
    pub(super) fn field_len(&self) -> usize {
        record_len(KVS, self.len())
    }

    /// Length of what follows the value's bytes.
    pub(super) fn back_len(&self) -> usize {
        number_len(6, self.lease as u64)
    }

    /// Writes everything before the value's bytes. `len` is the length of the message.
    pub(super) fn put_front(&self, out: &mut impl BufMut, len: usize) {
        put_prefix(out, KVS, len);
        put_bytes(out, 1, self.key);
        self.numbers().iter().for_each(|(field, number)| put_number(out, *field, *number));
        if self.value.len > 0 {
            put_prefix(out, 5, self.value.len as usize);
        }
    }

    /// Writes what follows the value's bytes.
    pub(super) fn put_back(&self, out: &mut impl BufMut) {
        put_number(out, 6, self.lease as u64);
    }

    /// Whether the value becomes a chunk of its own.
    pub(super) fn is_large(&self) -> bool {
        self.value.len >= LARGE_VALUE_BYTES
    }
}

/// The key-values of a response, in its order.
pub(crate) trait KeyValueSource {
    /// How many there are.
    fn count(&self) -> usize;

    /// The one at position `at`.
    fn item(&self, at: usize) -> KeyValueFields<'_>;
}

/// Bytes that `items` take in a response.
pub(crate) fn items_len(items: &impl KeyValueSource) -> usize {
    (0..items.count()).map(|at| items.item(at).field_len()).sum()
}
