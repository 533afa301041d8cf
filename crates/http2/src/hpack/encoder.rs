//! Encodes the headers of answers.
//!
//! A field that every answer has is added to the client's table once, and is one byte from then on. All others are
//! literals that leave the table alone.

use super::table::{FIELD_OVERHEAD_BYTES, STATIC};
use crate::limits::{MAX_DECODER_TABLE_BYTES, MAX_ENCODER_TABLE_BYTES};

/// A header of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// In lower case.
    pub name: &'a str,
    /// Without control characters.
    pub value: &'a [u8],
    /// It is likely to come again on this connection.
    pub is_usual: bool,
}

/// The state that the blocks of a connection share.
#[derive(Clone, Debug)]
pub struct HpackEncoder {
    /// What the client's table holds, the oldest first.
    added: Vec<(Box<str>, Box<[u8]>)>,
    bytes: usize,
    /// The largest table that may be filled.
    max_bytes: usize,
    /// The client has lowered the size of its table: the next block says which size is used from then on.
    announces_size: bool,
}

impl Default for HpackEncoder {
    fn default() -> HpackEncoder {
        HpackEncoder {
            added: Vec::new(),
            bytes: 0,
            max_bytes: MAX_ENCODER_TABLE_BYTES,
            announces_size: false,
        }
    }
}

impl HpackEncoder {
    /// One that may fill the peer's table up to HTTP/2's default: for requests, whose usual fields are larger than
    /// those of answers.
    #[must_use]
    pub fn for_requests() -> HpackEncoder {
        HpackEncoder { max_bytes: MAX_DECODER_TABLE_BYTES, ..HpackEncoder::default() }
    }

    /// How many fields the peer's table holds: while it stays the same, so does the block of the same fields.
    #[must_use]
    pub fn added_fields(&self) -> usize {
        self.added.len()
    }

    /// The client's table has another size. Below what we would fill, the table is given up for good.
    pub fn resize(&mut self, max_bytes: u32) {
        if (max_bytes as usize) < MAX_DECODER_TABLE_BYTES {
            self.announces_size = true;
        }
        if (max_bytes as usize) < self.max_bytes {
            self.max_bytes = 0;
            self.added.clear();
            self.bytes = 0;
        }
    }

    /// The block of these fields, if encoding it now changed nothing: then it stays the same until a field is added or
    /// the size of the table changes.
    #[must_use]
    pub fn settled_block(&self, fields: &[Field<'_>]) -> Option<Vec<u8>> {
        let (mut encoder, mut block) = (self.clone(), Vec::new());
        encoder.encode(fields, &mut block);
        (!self.announces_size && encoder.added.len() == self.added.len()).then_some(block)
    }

    /// Encodes a block and adds it to `into`.
    pub fn encode(&mut self, fields: &[Field<'_>], into: &mut Vec<u8>) {
        if std::mem::take(&mut self.announces_size) {
            integer(self.max_bytes, 5, 0x20, into);
        }
        fields.iter().for_each(|field| self.field(field, into));
    }

    fn field(&mut self, field: &Field<'_>, into: &mut Vec<u8>) {
        let of_field = |name: &str, value: &[u8]| name == field.name && value == field.value;
        if let Some(age) = self.added.iter().rev().position(|(name, value)| of_field(name, value)) {
            return integer(STATIC.len() + 1 + age, 7, 0x80, into);
        }
        if let Some(index) = STATIC.iter().position(|(name, value)| of_field(name, value.as_bytes())) {
            return integer(index + 1, 7, 0x80, into);
        }
        let name_index = STATIC.iter().position(|(name, _)| *name == field.name).map_or(0, |index| index + 1);
        let size = field.name.len() + field.value.len() + FIELD_OVERHEAD_BYTES;
        if field.is_usual && self.bytes + size <= self.max_bytes {
            self.bytes += size;
            self.added.push((field.name.into(), field.value.into()));
            integer(name_index, 6, 0x40, into);
        } else {
            integer(name_index, 4, 0, into);
        }
        if name_index == 0 {
            string(field.name.as_bytes(), into);
        }
        string(field.value, into);
    }
}

/// A number whose first bits go into a byte with `first` (section 5.1).
pub(crate) fn integer(mut number: usize, prefix_bits: u32, first: u8, into: &mut Vec<u8>) {
    let max_prefix = (1 << prefix_bits) - 1;
    if number < max_prefix {
        return into.push(first | number as u8);
    }
    into.push(first | max_prefix as u8);
    number -= max_prefix;
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn string(bytes: &[u8], into: &mut Vec<u8>) {
    integer(bytes.len(), 7, 0, into);
    into.extend_from_slice(bytes);
}
