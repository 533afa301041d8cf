//! The byte format of messages; docs/internals/peer-messages.md gives every byte.
//!
//! A message is encoded as a list of chunks: one header, then the payloads of its entries in their own buffers, so that
//! no payload is copied on its way to the socket.
//!
//! ```text
//! Append { previous_index: 7, entries: [8: "ab", 9: empty, 10: "c"] }
//!
//! chunk 0   header 28 | previous index, previous term, commit 24 | count 4 | 3 rows of 17
//! chunk 1   "ab"                                              the buffer of entry 8
//! chunk 2   "c"                                               the buffer of entry 10; entry 9 has no payload
//! ```
//!
//! Decoding is total: any bytes give a message or a [`crate::WireError`]. It checks everything that does not need the
//! log: version, kinds, lengths, the checksum of each entry, that no bytes are left over. `node::guard` checks what
//! depends on the state of the node.

mod decode;
mod encode;
mod layout;
#[cfg(test)]
mod tests;

pub use layout::MESSAGE_VERSION;
