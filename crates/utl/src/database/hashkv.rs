//! `hashkv`: the hash with which HashKV answers, of the keys in a file at a revision.
//!
//! The hash covers the records of all versions above the compact revision, and of those at or below it that a read at
//! the revision sees: so a compaction changes it in the same way whether it was carried out or not. Which these are is
//! known after one pass; a second one sums. Memory: all keys that ever were, with a revision each.

use std::collections::{BTreeMap, BTreeSet};

use api::mvccpb::KeyValue;
use dbfile::DbFile;
use dbfile::records::{KEY_BUCKET, RevisionKey, SmallRecords};
use prost::Message;

use super::file::LockedFile;
use super::forms::{self, Field, FieldValue, Record};
use crate::line::{CommandEnd, CommandLine, Refusal};

/// Takes the key and the value of a version's record.
type VisitVersion<'a> = &'a mut dyn FnMut(RevisionKey, &[u8], &[u8]) -> Result<(), String>;

/// The newest version of each key so far.
type NewestVersions = BTreeMap<Vec<u8>, RevisionKey>;

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    forms::check(line)?;
    let file = LockedFile::open(line, &line.path(0))?;
    let database = file.database()?;
    let small = SmallRecords::read(&database).map_err(|error| file.refuse(&error))?;
    let compacted = small.scheduled_compaction.max(small.finished_compaction).unwrap_or(-1);
    let wanted = line.values.int("rev");
    let until = if wanted > 0 { wanted } else { i64::MAX };
    let (newest, last) = newest_versions(line, &file, &database, until)?;
    let current = last.max(compacted).max(1);
    if wanted > 0 && wanted < compacted {
        return Err(Refusal::error("mvcc: required revision has been compacted"));
    }
    if wanted > current {
        return Err(Refusal::error("mvcc: required revision is a future revision"));
    }
    let revision = if wanted == 0 { current } else { wanted };
    let kept: BTreeSet<RevisionKey> =
        newest.into_values().filter(|revision| !revision.is_tombstone).collect();
    let mut hash = crc32c::crc32c(KEY_BUCKET.as_bytes());
    each_version(line, &file, &database, &mut |at, key, value| {
        let is_left_out = at.main > revision
            || (at.main <= compacted && !kept.is_empty() && !kept.contains(&at))
            || (at.main == compacted && at.is_tombstone);
        if !is_left_out {
            hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, key), value);
        }
        Ok(())
    })?;
    let field = |heading, label, json, value| Field { heading, label, json, value };
    let hash = FieldValue::Number(i64::from(hash));
    let record = Record {
        fields: vec![
            field("hash", "Hash", "hash", hash),
            field("hash revision", "Hash revision", "hashRevision", FieldValue::Number(revision)),
            field("compact revision", "Compact revision", "compactRevision", FieldValue::Number(compacted)),
        ],
    };
    forms::print(line, &record)
}

/// The newest version of each key up to a revision, and the newest revision of all.
fn newest_versions(
    line: &CommandLine,
    file: &LockedFile,
    database: &DbFile<&LockedFile>,
    until: i64,
) -> Result<(NewestVersions, i64), Refusal> {
    let (mut newest, mut last) = (NewestVersions::new(), 0);
    each_version(line, file, database, &mut |at, _, value| {
        last = at.main;
        if at.main <= until {
            let version = KeyValue::decode(value).map_err(|error| error.to_string())?;
            newest.insert(version.key.to_vec(), at);
        }
        Ok(())
    })?;
    Ok((newest, last))
}

/// Visits the records of all versions.
fn each_version(
    line: &CommandLine,
    file: &LockedFile,
    database: &DbFile<&LockedFile>,
    visit: VisitVersion<'_>,
) -> CommandEnd {
    let bar = line.bytes_bar("reading", database.bytes());
    let Some(mut pairs) = database.bucket(KEY_BUCKET).map_err(|error| file.refuse(&error))? else {
        return Ok(());
    };
    while let Some((key, value)) = pairs.next_pair().map_err(|error| file.refuse(&error))? {
        bar.inc((key.len() + value.len()) as u64);
        let at = RevisionKey::decode(key).ok_or_else(|| "its key is no revision".to_owned());
        at.and_then(|at| visit(at, key, value)).map_err(|why| {
            Refusal::error(format!("{}: the bucket key has a foreign record: {why}", file.path().display()))
        })?;
    }
    bar.finish_and_clear();
    Ok(())
}
