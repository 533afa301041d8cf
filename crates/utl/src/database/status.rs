//! `snapshot status`: a hash over all buckets, the newest revision, and how many keys there are.
//!
//! Memory: the live keys.

use std::collections::BTreeSet;

use api::mvccpb::KeyValue;
use dbfile::records::{KEY_BUCKET, RevisionKey};
use prost::Message;

use super::file::LockedFile;
use super::forms::{self, Field, FieldValue, Record};
use crate::line::{CommandEnd, CommandLine, Refusal};

/// What a database holds.
#[derive(Default)]
struct DatabaseStatus {
    hash: u32,
    revision: i64,
    keys: BTreeSet<Vec<u8>>,
    version: String,
}

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("snapshot status requires exactly one argument"));
    }
    let file = LockedFile::open(line, &line.path(0))?;
    forms::check(line)?;
    let database = file.database()?;
    let bar = line.bytes_bar("reading", database.bytes());
    let mut status = DatabaseStatus::default();
    for bucket in database.bucket_names().map_err(|error| file.refuse(&error))? {
        status.add(&[&bucket]);
        let name = String::from_utf8_lossy(&bucket);
        let Some(mut pairs) = database.bucket(&name).map_err(|error| file.refuse(&error))? else { continue };
        while let Some((key, value)) = pairs.next_pair().map_err(|error| file.refuse(&error))? {
            status.pair(&name, key, value).map_err(|why| {
                Refusal::error(format!(
                    "{}: the bucket {name} has a foreign record: {why}",
                    file.path().display()
                ))
            })?;
            bar.inc((key.len() + value.len()) as u64);
        }
    }
    bar.finish_and_clear();
    let field = |heading, label, json, value| Field { heading, label, json, value };
    let record = Record {
        fields: vec![
            field("hash", "Hash", "hash", FieldValue::Hash(status.hash)),
            field("revision", "Revision", "revision", FieldValue::Number(status.revision)),
            field("total keys", "Keys", "totalKey", FieldValue::Number(status.keys.len() as i64)),
            field("total size", "Size", "totalSize", FieldValue::Bytes(database.bytes())),
            field("version", "Version", "version", FieldValue::Text(status.version)),
        ],
    };
    forms::print(line, &record)
}

impl DatabaseStatus {
    fn add(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.hash = crc32c::crc32c_append(self.hash, part);
        }
    }

    /// Adds a record, of which only those of keys are looked into.
    fn pair(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.add(&[key, value]);
        if bucket == "meta" && key == b"storageVersion" {
            self.version = String::from_utf8_lossy(value).into_owned();
        }
        if bucket != KEY_BUCKET {
            return Ok(());
        }
        let revision = RevisionKey::decode(key).ok_or("its key is no revision")?;
        let version = KeyValue::decode(value).map_err(|error| error.to_string())?;
        self.revision = revision.main;
        match revision.is_tombstone {
            true => self.keys.remove(version.key.as_ref()),
            false => self.keys.insert(version.key.to_vec()),
        };
        Ok(())
    }
}
