//! HPACK (RFC 7541): headers as references to tables, and literals.
//!
//! Example: a client's first `Put` has the field `content-type: application/grpc` as a literal that is added to the
//! table, 0x5f and 17 bytes; in its second request it is one byte, 0xbe, index 62. So decoders see every block, in
//! order, and a block that cannot be decoded ends the connection.
//!
//! The decoder is complete. The encoder adds at most a few fields that every answer has, and nothing else.

mod decoder;
mod encoder;
mod huffman;
mod outline;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use decoder::{FieldSink, HpackDecoder, UndecodableBlock};
#[cfg(test)]
pub(crate) use encoder::integer;
pub use encoder::{Field, HpackEncoder};
pub(crate) use outline::{BlockOutline, LITERAL};
pub(crate) use table::FIELD_OVERHEAD_BYTES;
