//! Versions of keys: the records of the bucket `key`.

use api::mvccpb::KeyValue;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::KEY_BUCKET;
use crate::error::ReadError;
use crate::read::{BucketWalk, DbFile, ReadAt};

/// Bytes of an encoded revision, without the mark of a tombstone.
const REVISION_BYTES: usize = 17;

/// The mark of a tombstone.
const TOMBSTONE: u8 = b't';

/// The key of a version's record: `main` and `sub` of its revision with an underscore between, and a `t` behind that
/// of a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevisionKey {
    /// The transaction's revision, not negative.
    pub main: i64,
    /// The change's number within it, not negative.
    pub sub: i64,
    /// Whether the change deleted the key.
    pub is_tombstone: bool,
}

impl RevisionKey {
    /// The length of the record's key.
    pub fn encoded_len(&self) -> usize {
        REVISION_BYTES + usize::from(self.is_tombstone)
    }

    /// Appends the record's key.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.main.to_be_bytes());
        out.push(b'_');
        out.extend(self.sub.to_be_bytes());
        if self.is_tombstone {
            out.push(TOMBSTONE);
        }
    }

    /// Reads a record's key; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<RevisionKey> {
        let (revision, mark) = bytes.split_at_checked(REVISION_BYTES)?;
        let number = |at: usize| i64::from_be_bytes(std::array::from_fn(|byte| revision[at + byte]));
        let (main, sub) = (number(0), number(9));
        let is_tombstone = match mark {
            [] => false,
            [TOMBSTONE] => true,
            _ => return None,
        };
        (revision[8] == b'_' && main >= 0 && sub >= 0).then_some(RevisionKey { main, sub, is_tombstone })
    }
}

/// A version of a key, without the bytes of its value: all that is needed to know how long its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRecord<'a> {
    /// The version's revision.
    pub revision: RevisionKey,
    /// The key.
    pub key: &'a [u8],
    /// The revision that created this generation of the key; 0 for a tombstone, as all below.
    pub create_revision: i64,
    /// The version within the generation.
    pub version: i64,
    /// The lease, 0 for none.
    pub lease: i64,
    /// Bytes of the value.
    pub value_bytes: usize,
}

impl VersionRecord<'_> {
    /// The fields before the value that have a number: tag and number.
    fn numbers(&self) -> [(u32, i64); 3] {
        let modified = if self.revision.is_tombstone { 0 } else { self.revision.main };
        [(2, self.create_revision), (3, modified), (4, self.version)]
    }

    /// The length of the record's value.
    pub fn encoded_len(&self) -> usize {
        let bytes = |tag, length: usize| match length {
            0 => 0,
            length => key_len(tag) + encoded_len_varint(length as u64) + length,
        };
        let number = |(tag, number)| match number {
            0 => 0,
            number => key_len(tag) + encoded_len_varint(number as u64),
        };
        let numbers: usize = self.numbers().into_iter().map(number).sum();
        bytes(1, self.key.len()) + numbers + bytes(5, self.value_bytes) + number((6, self.lease))
    }

    /// Appends the record's value, an `mvccpb.KeyValue`. `value` has [`value_bytes`](Self::value_bytes).
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        put_bytes(out, 1, self.key);
        self.numbers().into_iter().for_each(|(tag, number)| put_number(out, tag, number));
        put_bytes(out, 5, value);
        put_number(out, 6, self.lease);
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        encode_key(tag, WireType::LengthDelimited, out);
        encode_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

fn put_number(out: &mut Vec<u8>, tag: u32, number: i64) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number as u64, out);
    }
}

/// The versions in a file, in the order of their revisions.
pub struct Versions<'a, R> {
    walk: Option<BucketWalk<'a, R>>,
}

impl<'a, R: ReadAt> Versions<'a, R> {
    /// Those of a file.
    ///
    /// # Errors
    /// [`ReadError::Page`], [`ReadError::Source`]
    pub fn of(file: &'a DbFile<R>) -> Result<Versions<'a, R>, ReadError> {
        Ok(Versions { walk: file.bucket(KEY_BUCKET)? })
    }

    /// The next version; `None` after the last.
    ///
    /// # Errors
    /// All but [`ReadError::NoMeta`] and [`ReadError::Short`]. The walk must not go on.
    pub fn next_version(&mut self) -> Result<Option<(RevisionKey, KeyValue)>, ReadError> {
        let Some(walk) = &mut self.walk else { return Ok(None) };
        let Some((key, value)) = walk.next_pair()? else { return Ok(None) };
        let not_etcds = |problem| ReadError::Record { bucket: KEY_BUCKET.to_owned(), problem };
        let revision =
            RevisionKey::decode(key).ok_or_else(|| not_etcds("its key is no revision".to_owned()))?;
        let version = KeyValue::decode(value)
            .map_err(|error| not_etcds(format!("revision {}.{}: {error}", revision.main, revision.sub)))?;
        Ok(Some((revision, version)))
    }
}

#[cfg(test)]
mod tests {
    //! A record is what the library that made the message types makes of it.
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_record_is_an_encoded_message(key in prop::collection::vec(any::<u8>(), 1..200),
                                          value in prop::collection::vec(any::<u8>(), 0..300),
                                          numbers in any::<[u32; 4]>(), lease in any::<i64>()) {
            let [main, sub, create, version] = numbers.map(i64::from);
            let revision = RevisionKey { main, sub, is_tombstone: false };
            let record = VersionRecord {
                revision, key: &key, create_revision: create, version, lease, value_bytes: value.len(),
            };
            let mut out = Vec::new();
            record.encode(&value, &mut out);
            let message = KeyValue {
                key: Bytes::from(key.clone()), create_revision: create, mod_revision: main, version,
                value: value.into(), lease,
            };
            prop_assert_eq!(&out, &message.encode_to_vec());
            prop_assert_eq!(record.encoded_len(), out.len());
        }

        #[test]
        fn revisions_sort_as_their_bytes(mut keys in prop::collection::vec((0..i64::MAX, 0..300i64), 1..20)) {
            keys.sort_unstable();
            let encoded = keys.iter().map(|(main, sub)| {
                let mut out = Vec::new();
                let key = RevisionKey { main: *main, sub: *sub, is_tombstone: sub % 2 == 1 };
                key.encode(&mut out);
                assert_eq!((RevisionKey::decode(&out), out.len()), (Some(key), key.encoded_len()));
                out
            });
            prop_assert!(encoded.collect::<Vec<_>>().is_sorted());
        }
    }

    #[test]
    fn other_keys_are_no_revisions() {
        let mut key = Vec::new();
        RevisionKey { main: 5, sub: 0, is_tombstone: true }.encode(&mut key);
        for changed in [&key[..16], &[&key[..], b"t"].concat(), &[&key[..17], b"x"].concat(), b""] {
            assert_eq!(RevisionKey::decode(changed), None, "{changed:?}");
        }
        key[8] = b'-';
        assert_eq!(RevisionKey::decode(&key), None);
        (key[8], key[0]) = (b'_', 0x80);
        assert_eq!(RevisionKey::decode(&key), None, "a negative revision");
    }
}
