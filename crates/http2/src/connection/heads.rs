//! Decodes header blocks to heads of requests, and recognises blocks.
//!
//! A client repeats a few heads. They are remembered in two ways:
//!
//! - with their *block*, until the table of compression changes: a client's thousandth request has the block of its
//!   second, and shares its head;
//! - with the [outline](crate::hpack) of the block, which does not change with the table. A block is recognised if it
//!   has the same fields but for one value, as the `grpc-timeout` of clients with deadlines. Its head is a copy of the
//!   known one with that value.
//!
//! Either way the outcome, and the table, is what decoding would have made of it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::frame::ErrorCode;
use crate::head::{HeadBuilder, HeadOutcome, RequestHead, is_value};
use crate::hpack::{BlockOutline, HpackDecoder, LITERAL, UndecodableBlock};
use crate::limits::{MAX_REMEMBERED_BLOCK_BYTES, MAX_REMEMBERED_HEAD_BYTES, MAX_REMEMBERED_HEADS};

/// The heads of a connection's requests.
#[derive(Debug, Default)]
pub(super) struct HeadDecoder {
    pub(super) hpack: HpackDecoder,
    remembered: VecDeque<KnownHead>,
}

/// A head that may come again.
#[derive(Debug)]
struct KnownHead {
    /// While the table is what it was.
    block: Option<Box<[u8]>>,
    /// If the block has an outline: its fields.
    outline: Option<Box<[u64]>>,
    head: Arc<RequestHead>,
}

impl HeadDecoder {
    /// Decodes a block, or recognises it. The inner error is that of its stream.
    ///
    /// # Errors
    /// When the block cannot be decoded.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
    ) -> Result<Result<Arc<RequestHead>, ErrorCode>, UndecodableBlock> {
        if let Some(known) = self.remembered.iter().find(|known| known.block.as_deref() == Some(block)) {
            return Ok(Ok(known.head.clone()));
        }
        let is_short = block.len() <= MAX_REMEMBERED_BLOCK_BYTES;
        let outline = if is_short { self.hpack.outline(block) } else { None };
        if let Some(outline) = &outline
            && let Some(head) = self.known(outline)
        {
            if self.hpack.follow(outline)? {
                self.table_changed();
            }
            return Ok(Ok(head));
        }
        let mut builder = HeadBuilder::new(block.len());
        let is_changed = self.hpack.decode(block, &mut builder)?;
        if is_changed {
            self.table_changed();
        }
        Ok(match builder.finish() {
            HeadOutcome::Malformed => Err(ErrorCode::Protocol),
            HeadOutcome::TooLarge => Err(ErrorCode::FrameSize),
            HeadOutcome::Good(head) => {
                let head = Arc::new(head);
                let block = (is_short && !is_changed).then(|| block.into());
                let outline = outline.map(|outline| outline.fields().into());
                if (block.is_some() || outline.is_some()) && head.size() <= MAX_REMEMBERED_HEAD_BYTES {
                    self.remembered.truncate(MAX_REMEMBERED_HEADS - 1);
                    self.remembered.push_front(KnownHead { block, outline, head: head.clone() });
                }
                Ok(head)
            }
        })
    }

    /// The head of a block with this outline, if it is a known one but for one value.
    pub(super) fn known(&self, outline: &BlockOutline) -> Option<Arc<RequestHead>> {
        self.remembered.iter().find_map(|known| {
            let mut different = differences(known.outline.as_deref()?, outline.fields())?;
            let Some(position) = different.next() else { return Some(known.head.clone()) };
            if different.next().is_some() {
                return None;
            }
            let ((name, value), (known_name, before)) =
                (self.hpack.outlined(outline, position)?, known.head.at(position)?);
            // Heads with different paths are all remembered.
            if name != known_name || name.starts_with(b":") || !is_value(value) {
                return None;
            }
            Some(if value == before {
                known.head.clone()
            } else {
                known.head.with_value(position, value).into()
            })
        })
    }

    /// Blocks mean something else than before; outlines do not.
    fn table_changed(&mut self) {
        self.remembered.retain_mut(|known| {
            known.block = None;
            known.outline.is_some()
        });
    }
}

/// The positions at which two outlines of as many fields may have different values.
fn differences<'a>(one: &'a [u64], other: &'a [u64]) -> Option<impl Iterator<Item = usize> + 'a> {
    let may_differ = |at: &usize| one[*at] != other[*at] || one[*at] == LITERAL;
    (one.len() == other.len()).then(|| (0..one.len()).filter(may_differ))
}
