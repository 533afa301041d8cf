//! `RangeResponse` in its encoding, written straight from the index and the values.
//!
//! Every length is known before any value is read. So a chunk of the response is laid out first, with a
//! [`ValueSlot`](crate::ValueSlot) for each value, and then the slots are filled: a value is copied once, from the log
//! to where it is sent from. The response goes to a [`ChunkSink`] in chunks of bounded size, which can be sent, and
//! freed, while the next is encoded. A large value is not copied at all: it is a chunk of its own.
//!
//! ```text
//! | header | kv | kv | ... |   | kv | ... | kv up to its value |   | the value |   | rest of the kv | more | count |
//!   chunk                        chunk                               chunk           chunk
//! ```
//!
//! The tests compare the concatenated chunks with the encoding of the generated types, byte for byte.

mod encoder;
mod fields;
mod found;
mod key_value;

#[cfg(test)]
mod tests;

pub(crate) use encoder::RangeEncoder;
pub use encoder::{ChunkSink, NextChunk};
pub(crate) use fields::EncodedFields;
pub(crate) use found::{FoundLengths, FoundVersions, ReplyKeyValues};
pub(crate) use key_value::items_len;
