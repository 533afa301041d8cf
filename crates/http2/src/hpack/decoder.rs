//! Decodes header blocks.

use super::huffman;
use super::table::DynamicTable;
use crate::limits::MAX_DECODER_TABLE_BYTES;

/// Takes the fields of a block, in order.
pub trait FieldSink {
    /// The next field.
    fn field(&mut self, name: &[u8], value: &[u8]);
}

/// The block cannot be decoded, and no later block of the connection can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndecodableBlock;

/// The state that the blocks of a connection share.
#[derive(Debug)]
pub struct HpackDecoder {
    pub(super) table: DynamicTable,
}

/// What the first byte of a field says (section 6).
pub(super) enum Representation {
    Indexed,
    Literal { is_added: bool },
    TableSize,
}

impl Default for HpackDecoder {
    fn default() -> HpackDecoder {
        HpackDecoder { table: DynamicTable::new(MAX_DECODER_TABLE_BYTES) }
    }
}

impl HpackDecoder {
    /// Decodes a block. Returns whether it changed the table: one that did not means the same when it comes again.
    ///
    /// # Errors
    /// When an index, a length, a string or a table size is wrong, or the block ends inside a field.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FieldSink) -> Result<bool, UndecodableBlock> {
        let mut rest = BlockReader(block);
        let (mut name, mut value) = (Vec::new(), Vec::new());
        let (mut has_fields, mut is_changed) = (false, false);
        while let Some(first) = rest.0.first() {
            let (representation, prefix_bits) = representation(*first);
            let number = rest.integer(prefix_bits)?;
            match representation {
                Representation::Indexed => {
                    let (name, value) = self.table.get(number).ok_or(UndecodableBlock)?;
                    sink.field(name, value);
                }
                Representation::Literal { is_added } => {
                    name.clear();
                    value.clear();
                    match number {
                        0 => rest.string(&mut name)?,
                        index => name.extend_from_slice(self.table.get(index).ok_or(UndecodableBlock)?.0),
                    }
                    rest.string(&mut value)?;
                    sink.field(&name, &value);
                    if is_added {
                        self.table.insert(&name, &value);
                        is_changed = true;
                    }
                }
                // grpc-go takes it between fields too, as long as the table is empty.
                Representation::TableSize if has_fields && !self.table.is_empty() => {
                    return Err(UndecodableBlock);
                }
                Representation::TableSize if number > MAX_DECODER_TABLE_BYTES => {
                    return Err(UndecodableBlock);
                }
                Representation::TableSize => {
                    self.table.resize(number);
                    is_changed = true;
                    continue;
                }
            }
            has_fields = true;
        }
        Ok(is_changed)
    }
}

/// The kind of field that begins with a byte, and how many bits of the byte begin a number.
pub(super) fn representation(first: u8) -> (Representation, u32) {
    match first {
        0x80.. => (Representation::Indexed, 7),
        0x40.. => (Representation::Literal { is_added: true }, 6),
        0x20.. => (Representation::TableSize, 5),
        // Without indexing, or never indexed: the difference concerns proxies.
        _ => (Representation::Literal { is_added: false }, 4),
    }
}

/// The rest of a block.
pub(super) struct BlockReader<'a>(pub(super) &'a [u8]);

impl BlockReader<'_> {
    fn byte(&mut self) -> Result<u8, UndecodableBlock> {
        let (first, rest) = self.0.split_first().ok_or(UndecodableBlock)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number that begins in the last bits of the next byte (section 5.1).
    pub(super) fn integer(&mut self, prefix_bits: u32) -> Result<usize, UndecodableBlock> {
        let max_prefix = (1 << prefix_bits) - 1;
        let mut number = usize::from(self.byte()?) & max_prefix;
        if number < max_prefix {
            return Ok(number);
        }
        // More than 28 bits are larger than any block.
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(UndecodableBlock)
    }

    /// A string (section 5.2), added to `into`.
    pub(super) fn string(&mut self, into: &mut Vec<u8>) -> Result<(), UndecodableBlock> {
        let is_huffman = self.0.first().is_some_and(|first| *first >= 0x80);
        let length = self.integer(7)?;
        let (string, rest) = self.0.split_at_checked(length).ok_or(UndecodableBlock)?;
        self.0 = rest;
        if is_huffman {
            return huffman::decode(string, into).map_err(|()| UndecodableBlock);
        }
        into.extend_from_slice(string);
        Ok(())
    }
}
