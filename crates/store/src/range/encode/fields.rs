//! The fields of a `RangeResponse` before and after its keys.

use api::etcdserverpb as pb;
use bytes::BufMut;

use crate::wire::{number_len, put_number, put_prefix};

/// Field numbers of `RangeResponse`.
const HEADER: u32 = 1;
pub(super) const KVS: u32 = 2;
const MORE: u32 = 3;
const COUNT: u32 = 4;

/// A few encoded fields, on the stack.
#[derive(Clone, Copy)]
pub(crate) struct EncodedFields {
    bytes: [u8; EncodedFields::MAX_BYTES],
    len: usize,
}

impl EncodedFields {
    /// Enough for the prefix of an enclosing message, and a header with the longest numbers.
    const MAX_BYTES: usize = 64;

    /// No fields.
    pub(crate) const NONE: EncodedFields = EncodedFields { bytes: [0; EncodedFields::MAX_BYTES], len: 0 };

    pub(super) fn of(write: impl FnOnce(&mut &mut [u8])) -> EncodedFields {
        let mut fields = EncodedFields::NONE;
        let mut rest = &mut fields.bytes[..];
        write(&mut rest);
        fields.len = EncodedFields::MAX_BYTES - rest.len();
        fields
    }

    /// The field before the keys.
    pub(crate) fn header(header: &pb::ResponseHeader) -> EncodedFields {
        let numbers = [
            (1, header.cluster_id),
            (2, header.member_id),
            (3, header.revision as u64),
            (4, header.raft_term),
        ];
        let len = numbers.iter().map(|(field, number)| number_len(*field, *number)).sum();
        EncodedFields::of(|out| {
            put_prefix(out, HEADER, len);
            numbers.iter().for_each(|(field, number)| put_number(out, *field, *number));
        })
    }

    /// The fields after the keys.
    pub(crate) fn end(more: bool, count: i64) -> EncodedFields {
        EncodedFields::of(|out| {
            put_number(out, MORE, more.into());
            put_number(out, COUNT, count as u64);
        })
    }

    /// These fields after the prefix of a message whose only field, number 1, is the whole response of `len` bytes.
    pub(crate) fn enclosed(&self, len: usize) -> EncodedFields {
        EncodedFields::of(|out| {
            put_prefix(out, 1, len);
            out.put_slice(self.as_slice());
        })
    }

    /// The encoded bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
