//! The fields of a block by numbers that stay, while indexes of the table change with each field that is added.
//!
//! A client with a deadline sends another `grpc-timeout` with each request, and most clients add each of them to the
//! table. So the index of every other field is one larger in the next block:
//!
//! ```text
//!   83 86 c3 c2 c1 c0 bf | 7e 84 19 08 5d 8f     five fields of the table, and grpc-timeout: 99969u
//!   83 86 c4 c3 c2 c1 c0 | 7e 84 19 08 5e 8f     the same five, and another time
//! ```
//!
//! The numbers of the five are the same in both.

use super::decoder::{BlockReader, HpackDecoder, Representation, UndecodableBlock, representation};
use super::table::STATIC;
use crate::limits::MAX_OUTLINE_FIELDS;

/// The fields of a block, all of which are in the tables; the value of one may be its own.
#[derive(Debug, Default)]
pub(crate) struct BlockOutline {
    /// Their numbers, and [`LITERAL`].
    fields: [u64; MAX_OUTLINE_FIELDS],
    count: usize,
    literal: Option<LiteralField>,
}

/// Stands for a field with a value of its own; no field has this number.
pub(crate) const LITERAL: u64 = 0;

/// A field with a value that is not in the tables.
#[derive(Debug)]
struct LiteralField {
    /// The number of a field with its name.
    name: u64,
    value: Vec<u8>,
    is_added: bool,
    /// Its position among the fields of the block.
    position: usize,
}

impl BlockOutline {
    /// The numbers of the fields in the tables, and [`LITERAL`].
    pub(crate) fn fields(&self) -> &[u64] {
        &self.fields[..self.count]
    }

    fn push(&mut self, number: u64) -> Option<()> {
        *self.fields.get_mut(self.count)? = number;
        self.count += 1;
        Some(())
    }
}

impl HpackDecoder {
    /// The outline of a block, which is not decoded by this; `None` if it has none, or cannot be decoded.
    pub(crate) fn outline(&self, block: &[u8]) -> Option<BlockOutline> {
        let mut rest = BlockReader(block);
        let mut outline = BlockOutline::default();
        while let Some(first) = rest.0.first() {
            let (representation, prefix_bits) = representation(*first);
            let index = rest.integer(prefix_bits).ok()?;
            match representation {
                Representation::TableSize => return None,
                Representation::Indexed => {
                    let is_behind = outline.literal.as_ref().is_some_and(|literal| literal.is_added);
                    outline.push(self.number_behind(index, is_behind)?)?;
                }
                Representation::Literal { .. } if outline.literal.is_some() => return None,
                Representation::Literal { is_added } => {
                    let (name, mut value) = (self.table.number(index)?, Vec::new());
                    rest.string(&mut value).ok()?;
                    outline.literal = Some(LiteralField { name, value, is_added, position: outline.count });
                    outline.push(LITERAL)?;
                }
            }
        }
        Some(outline)
    }

    /// The number of the field that an index means, behind a field that will be added to the table or not.
    fn number_behind(&self, index: usize, is_added: bool) -> Option<u64> {
        match index.checked_sub(STATIC.len() + 1) {
            // The field that is added itself.
            Some(0) if is_added => None,
            Some(_) if is_added => self.table.number(index - 1),
            _ => self.table.number(index),
        }
    }

    /// The name and the value at a position of an outline that was made now.
    pub(crate) fn outlined<'a>(
        &'a self,
        outline: &'a BlockOutline,
        position: usize,
    ) -> Option<(&'a [u8], &'a [u8])> {
        match &outline.literal {
            Some(literal) if literal.position == position => {
                self.table.numbered(literal.name).map(|(name, _)| (name, &literal.value[..]))
            }
            _ => self.table.numbered(*outline.fields().get(position)?),
        }
    }

    /// Does to the table what the block of an outline says that was made now. Returns whether that changed it.
    ///
    /// # Errors
    /// When a field behind the literal has left the table because of it.
    pub(crate) fn follow(&mut self, outline: &BlockOutline) -> Result<bool, UndecodableBlock> {
        let Some(literal) = outline.literal.as_ref().filter(|literal| literal.is_added) else {
            return Ok(false);
        };
        let name = self.table.numbered(literal.name).ok_or(UndecodableBlock)?.0.to_vec();
        self.table.insert(&name, &literal.value);
        let mut behind = outline.fields()[literal.position + 1..].iter();
        if behind.all(|field| self.table.numbered(*field).is_some()) {
            Ok(true)
        } else {
            Err(UndecodableBlock)
        }
    }
}
