//! The formats on disk: file headers, records, and the names of files. Formats to the byte: `docs/internals/log.md`.
//!
//! ```text
//!   0000002b.seg
//!   +----------------+-----------------+-----------+---------+------+-- - -
//!   | header (64 B)  | opening record  | entry 7   | entry 8 | seal | preallocated
//!   +----------------+-----------------+-----------+---------+------+-- - -
//!                    ^ every record begins at a multiple of 8
//!
//!   a record:  head (28 B: checksum, segment, length, kind, synced, checksum of the body) | body | padding
//! ```
//!
//! This folder encodes and decodes. What the records of a segment mean together is decided in `recovery/`.

mod header;
mod layout;
mod record;

pub(crate) use header::{FileHeader, FileType, HEADER_BYTES};
pub(crate) use layout::{
    DATA_SUFFIX, Layout, SEGMENT_SUFFIX, UNFINISHED_SUFFIX, file_name, list, parse_name,
};
pub(crate) use record::{
    ALIGNMENT, END_BYTES, HARD_STATE_BYTES, HEAD_BYTES, NotRecord, PAYLOAD_OFFSET, RecordHead, RecordKind,
    SegmentOpening, decode_hard_state, encode_hard_state, entry_span, read_u32, read_u64, salt, span,
};
