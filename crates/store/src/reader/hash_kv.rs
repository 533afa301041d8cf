//! HashKV: etcd's own checksum over all versions, so that members, real etcd and exported files can be
//! compared.
//!
//! CRC-32C over the bucket's name "key", then over each version's 17-byte revision (`main`, `_`, `sub`; with
//! a `t` behind it for a tombstone) and its encoded `KeyValue`, in the order of revisions. Of what lies at or
//! below the compact revision, only versions that are still the newest at the asked revision count, unless no
//! key lives then; tombstones of the compact revision never count.

use api::Error;
use api::mvccpb::KeyValue;

use super::Reader;
use super::versions::{Old, Retained, VersionWalk};
use crate::index::tree::Bounds;
use crate::range::check_revision;
use crate::range::count::Count;
use crate::state::read;
use crate::types::Damaged;

/// Versions hashed in one step, about.
const STEP_VERSIONS: usize = 256;

/// A HashKV being computed.
pub struct HashKv {
    reader: Reader,
    walk: VersionWalk,
    /// Read from the index, to be hashed. Kept when a value is damaged, so that the step can be repeated.
    pending: std::collections::VecDeque<Retained>,
    hash: u32,
    header_revision: i64,
    revision: i64,
    compacted: i64,
}

/// Where a HashKV stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKvStep {
    /// There is more to hash.
    More,
    /// Done.
    Done {
        /// The hash.
        hash: u32,
        /// The revision it covers.
        hash_revision: i64,
        /// The compact revision, -1 if there is none.
        compact_revision: i64,
        /// The newest revision when it began, for the header.
        revision: i64,
    },
}

impl Reader {
    /// Starts to hash all versions up to `revision`; 0 is the newest.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Compacted`]
    pub fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        let state = self.shared.state.read();
        let header_revision = state.revision;
        let compacted = state.compacted;
        let revision = check_revision(revision, header_revision, compacted)?;
        let pin = self.shared.pin(compacted);
        let mut count = Count::new(&state.index, &Bounds::ALL, revision, header_revision);
        drop(state);
        let steps = self.shared.limits.count_steps;
        let live = loop {
            if let Some(live) = count.advance(&self.shared.state.read().index, steps) {
                break live;
            }
        };
        let old = if live == 0 { Old::Live } else { Old::LiveAt(revision) };
        let walk = VersionWalk::new(self, compacted, revision, old, pin);
        let hash = crc32c::crc32c(b"key");
        let pending = Default::default();
        Ok(HashKv { reader: self.clone(), walk, pending, hash, header_revision, revision, compacted })
    }
}

impl HashKv {
    /// Hashes some more versions.
    ///
    /// # Errors
    /// [`Damaged`] when a value cannot be read; heal it and call again.
    pub fn step(&mut self) -> Result<HashKvStep, Damaged> {
        if self.pending.is_empty() {
            self.pending = self.walk.next_chunk(STEP_VERSIONS).into();
        }
        if self.pending.is_empty() {
            return Ok(HashKvStep::Done {
                hash: self.hash,
                hash_revision: self.revision,
                compact_revision: self.compacted,
                revision: self.header_revision,
            });
        }
        while let Some(version) = self.pending.front() {
            let mut kv = encodable(version);
            kv.value = read(&*self.reader.shared.values, &version.kv.value)?;
            self.hash = crc32c::crc32c_append(self.hash, &revision_key(version));
            self.hash = crc32c::crc32c_append(self.hash, &encode(&kv));
            self.pending.pop_front();
        }
        Ok(HashKvStep::More)
    }
}

/// The version without its value. A tombstone is encoded with its key alone.
fn encodable(version: &Retained) -> KeyValue {
    let kv = &version.kv;
    let mod_revision = if version.tombstone { 0 } else { kv.mod_revision.main };
    KeyValue {
        key: kv.key.clone(),
        create_revision: kv.create_revision,
        mod_revision,
        version: kv.version,
        lease: kv.lease,
        ..KeyValue::default()
    }
}

/// The version's key in etcd's database.
fn revision_key(version: &Retained) -> Vec<u8> {
    let revision = version.kv.mod_revision;
    let mut key = Vec::with_capacity(18);
    key.extend(revision.main.to_be_bytes());
    key.push(b'_');
    key.extend(u64::from(revision.sub).to_be_bytes());
    if version.tombstone {
        key.push(b't');
    }
    key
}

/// The protobuf encoding of a `KeyValue`, fields in the order of their numbers, defaults left out.
fn encode(kv: &KeyValue) -> Vec<u8> {
    let mut out = Vec::with_capacity(kv.key.len() + kv.value.len() + 32);
    put_bytes(&mut out, 1, &kv.key);
    put_number(&mut out, 2, kv.create_revision);
    put_number(&mut out, 3, kv.mod_revision);
    put_number(&mut out, 4, kv.version);
    put_bytes(&mut out, 5, &kv.value);
    put_number(&mut out, 6, kv.lease);
    out
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(field << 3 | 2);
        put_varint(out, bytes.len() as u64);
        out.extend(bytes);
    }
}

fn put_number(out: &mut Vec<u8>, field: u8, number: i64) {
    if number != 0 {
        out.push(field << 3);
        put_varint(out, number as u64);
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
