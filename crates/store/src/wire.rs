//! The parts of protobuf's encoding that responses written without a message type need. As in the generated types,
//! fields that are zero or empty are omitted.

use bytes::BufMut;

/// Wire types of protobuf: the low three bits of a field's key.
const VARINT: u32 = 0;
const DELIMITED: u32 = 2;

fn varint_len(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn put_varint(out: &mut impl BufMut, mut number: u64) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// Length of a number field, omitted if it is zero.
pub(crate) fn number_len(field: u32, number: u64) -> usize {
    if number == 0 { 0 } else { varint_len((field << 3).into()) + varint_len(number) }
}

/// Writes a number field, omitted if it is zero.
pub(crate) fn put_number(out: &mut impl BufMut, field: u32, number: u64) {
    if number != 0 {
        put_varint(out, (field << 3 | VARINT).into());
        put_varint(out, number);
    }
}

/// Length of a delimited field, present even if empty.
pub(crate) fn record_len(field: u32, len: usize) -> usize {
    varint_len((field << 3).into()) + varint_len(len as u64) + len
}

/// Writes tag and length of a delimited field.
pub(crate) fn put_prefix(out: &mut impl BufMut, field: u32, len: usize) {
    put_varint(out, (field << 3 | DELIMITED).into());
    put_varint(out, len as u64);
}

/// Length of a bytes field, omitted if it is empty.
pub(crate) fn bytes_len(field: u32, len: usize) -> usize {
    if len == 0 { 0 } else { record_len(field, len) }
}

/// Writes a bytes field, omitted if it is empty.
pub(crate) fn put_bytes(out: &mut impl BufMut, field: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_prefix(out, field, bytes.len());
        out.put_slice(bytes);
    }
}
