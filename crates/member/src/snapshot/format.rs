//! The bytes of a snapshot stream: a header when it is opened, then items; `docs/internals/snapshot-stream.md` has the
//! tables.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const MAGIC: [u8; 4] = *b"STLS";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 24;
const ITEM_HEAD_BYTES: usize = 9;

/// No item is longer: the largest value with its head, or the history of one key.
const MAX_ITEM_BYTES: usize = (1 << 30) + (1 << 20);

/// Names one stream of one sender. Equal names mean equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotStreamId {
    /// The run of the sender's process.
    pub(super) run: u64,
    /// Counted by it.
    pub(super) sequence: u64,
}

/// What a stream is opened with.
pub(super) fn encode_header(id: SnapshotStreamId, message: &[Bytes]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER_BYTES + message.iter().map(Bytes::len).sum::<usize>());
    out.put_slice(&MAGIC);
    out.put_u16_le(VERSION);
    out.put_u16_le(0);
    out.put_u64_le(id.run);
    out.put_u64_le(id.sequence);
    message.iter().for_each(|buffer| out.put_slice(buffer));
    out.freeze()
}

/// The stream's name and the encoded consensus message.
pub(super) fn decode_header(mut header: Bytes) -> Result<(SnapshotStreamId, Bytes), String> {
    if header.len() < HEADER_BYTES || header[..4] != MAGIC {
        return Err("this is no header of a snapshot stream".to_owned());
    }
    header.advance(4);
    let version = header.get_u16_le();
    if version != VERSION {
        return Err(format!("the stream has version {version}, this member reads version {VERSION}"));
    }
    header.advance(2);
    Ok((SnapshotStreamId { run: header.get_u64_le(), sequence: header.get_u64_le() }, header))
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ItemKind {
    /// The member's own part of a checkpoint, first.
    Head = 1,
    /// Values of the next chunk, in the order of its references.
    Values = 2,
    /// A chunk of the store.
    Chunk = 3,
    /// The last item: how many came before it.
    End = 4,
}

impl ItemKind {
    fn of(number: u8) -> Option<ItemKind> {
        [ItemKind::Head, ItemKind::Values, ItemKind::Chunk, ItemKind::End]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// Puts items into their frames.
#[derive(Default)]
pub(super) struct ItemWriter {
    ordinal: u64,
}

impl ItemWriter {
    pub(super) fn frame(&mut self, kind: ItemKind, body: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(ITEM_HEAD_BYTES + body.len());
        out.put_u32_le(u32::try_from(body.len()).expect("items are limited"));
        out.put_u8(kind as u8);
        out.put_u32_le(checksum(self.ordinal, kind as u8, body));
        out.put_slice(body);
        self.ordinal += 1;
        out.freeze()
    }

    pub(super) fn end(&mut self) -> Bytes {
        let count = self.ordinal.to_le_bytes();
        self.frame(ItemKind::End, &count)
    }
}

/// With the ordinal in it no item can be lost, doubled or swapped unseen.
fn checksum(ordinal: u64, kind: u8, body: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(crc32c::crc32c(&ordinal.to_le_bytes()), &[kind]);
    crc32c::crc32c_append(head, body)
}

/// Takes items out of bytes, however they are cut.
#[derive(Default)]
pub(super) struct ItemReader {
    rest: BytesMut,
    ordinal: u64,
}

impl ItemReader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next whole item; none until more bytes are there.
    pub(super) fn take(&mut self) -> Result<Option<(ItemKind, Bytes)>, String> {
        let Some(mut head) = self.rest.get(..ITEM_HEAD_BYTES) else { return Ok(None) };
        let (len, kind, expected) = (head.get_u32_le() as usize, head.get_u8(), head.get_u32_le());
        if len > MAX_ITEM_BYTES {
            return Err(format!("item {} says it has {len} bytes", self.ordinal));
        }
        if self.rest.len() < ITEM_HEAD_BYTES + len {
            return Ok(None);
        }
        self.rest.advance(ITEM_HEAD_BYTES);
        let body = self.rest.split_to(len).freeze();
        if checksum(self.ordinal, kind, &body) != expected {
            return Err(format!("the checksum of item {} does not match", self.ordinal));
        }
        let kind =
            ItemKind::of(kind).ok_or_else(|| format!("item {} has unknown kind {kind}", self.ordinal))?;
        if kind == ItemKind::End && body[..] != self.ordinal.to_le_bytes() {
            return Err("the stream ends after another number of items than it says".to_owned());
        }
        self.ordinal += 1;
        Ok(Some((kind, body)))
    }

    /// Whether nothing is left over.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Bytes before each value of an item.
pub(super) const VALUE_HEAD_BYTES: usize = 8;

/// Appends a value to the body of an item.
pub(super) fn put_value(body: &mut Vec<u8>, value: &[u8], checksum: u32) {
    body.put_u32_le(value.len() as u32);
    body.put_u32_le(checksum);
    body.extend_from_slice(value);
}

/// Takes a value off the front of the body of an item.
pub(super) fn take_value(body: &mut Bytes) -> Result<(Bytes, u32), String> {
    let cut = || "a value is cut off".to_owned();
    let len = body.try_get_u32_le().map_err(|_| cut())? as usize;
    let checksum = body.try_get_u32_le().map_err(|_| cut())?;
    if body.len() < len {
        return Err(cut());
    }
    Ok((body.split_to(len), checksum))
}

#[cfg(test)]
mod tests {
    //! The bytes are those of the document; items arrive however they are cut, and a changed stream is refused.
    use super::*;

    const ID: SnapshotStreamId = SnapshotStreamId { run: 7, sequence: 2 };

    /// The items of a stream, each in its frame.
    fn frames() -> Vec<Bytes> {
        let mut writer = ItemWriter::default();
        let kinds = [(ItemKind::Head, "head"), (ItemKind::Values, ""), (ItemKind::Chunk, "chunk")];
        let mut frames = kinds.map(|(kind, body)| writer.frame(kind, body.as_bytes())).to_vec();
        frames.push(writer.end());
        frames
    }

    /// What a reader takes out of these bytes.
    fn read(bytes: &[u8], cut: usize) -> Result<Vec<(ItemKind, Bytes)>, String> {
        let mut reader = ItemReader::default();
        let mut items = Vec::new();
        for part in bytes.chunks(cut) {
            reader.push(part);
            while let Some(item) = reader.take()? {
                items.push(item);
            }
        }
        assert!(reader.is_empty());
        Ok(items)
    }

    #[test]
    fn a_header_round_trips_and_another_is_refused() {
        let header = encode_header(ID, &["mess".into(), "age".into()]);
        let golden = b"STLS\x01\0\0\0\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0message";
        assert_eq!(header[..], golden[..]);
        assert_eq!(decode_header(header.clone()), Ok((ID, "message".into())));
        assert!(decode_header(header.slice(..HEADER_BYTES - 1)).is_err());
        for at in [0, 4] {
            let mut other = header.to_vec();
            other[at] += 1;
            assert!(decode_header(other.into()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_item_is_length_kind_checksum_and_body() {
        let frame = &frames()[0];
        let sum = crc32c::crc32c(b"\0\0\0\0\0\0\0\0\x01head").to_le_bytes();
        assert_eq!(frame[..], [&b"\x04\0\0\0\x01"[..], &sum, b"head"].concat());
    }

    #[test]
    fn items_arrive_however_they_are_cut() {
        let bytes = frames().concat();
        let end = Bytes::copy_from_slice(&3_u64.to_le_bytes());
        let items = [(ItemKind::Head, "head".into()), (ItemKind::Values, Bytes::new())];
        let items = [&items[..], &[(ItemKind::Chunk, "chunk".into()), (ItemKind::End, end)]].concat();
        for cut in [1, 2, 10, bytes.len()] {
            assert_eq!(read(&bytes, cut), Ok(items.clone()), "in parts of {cut}");
        }
    }

    #[test]
    fn a_stream_with_an_item_lost_doubled_swapped_or_changed_is_refused() {
        let frames = frames();
        let lost = [&frames[..1], &frames[2..]].concat();
        let doubled = [&frames[..2], &frames[1..]].concat();
        let mut swapped = frames.clone();
        swapped.swap(0, 1);
        for wrong in [lost, doubled, swapped] {
            assert!(read(&wrong.concat(), 64).is_err());
        }
        for at in ITEM_HEAD_BYTES - 5..frames[0].len() {
            let mut changed = frames.concat();
            changed[at] ^= 1;
            assert!(read(&changed, 64).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_item_of_impossible_length_is_refused_before_it_arrives() {
        let mut reader = ItemReader::default();
        reader.push(&[&(MAX_ITEM_BYTES as u32 + 1).to_le_bytes()[..], &[0; ITEM_HEAD_BYTES - 4]].concat());
        assert!(reader.take().is_err());
    }

    #[test]
    fn values_round_trip_and_a_value_that_is_cut_off_is_refused() {
        let mut body = Vec::new();
        put_value(&mut body, b"one", 11);
        put_value(&mut body, b"", 12);
        let mut rest = Bytes::from(body);
        let first = rest.slice(..VALUE_HEAD_BYTES + 3);
        assert_eq!(take_value(&mut rest), Ok(("one".into(), 11)));
        assert_eq!(take_value(&mut rest), Ok((Bytes::new(), 12)));
        for cut in 0..first.len() {
            assert!(take_value(&mut first.slice(..cut)).is_err(), "cut at {cut}");
        }
    }
}
