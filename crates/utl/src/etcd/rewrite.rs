//! Writes a database again, front to back, without its free pages and perhaps with another storage version.
//!
//! The new file gets the name of the old one when it is whole and durable; until then the old one is untouched.

use std::fs::File;
use std::io::{BufWriter, Write};

use dbfile::{DbFile, FileLayout, FileWriter, ReadAt, ReadError, WriteError};
use indicatif::ProgressBar;

use crate::database::file::LockedFile;
use crate::line::{CommandEnd, CommandLine, Refusal};
use crate::part_file::PartFile;

/// The bucket and the record of the storage version.
const META: &str = "meta";
const STORAGE_VERSION: &[u8] = b"storageVersion";

/// What becomes of the storage version.
pub(super) enum StorageVersion<'a> {
    Kept,
    Set(&'a str),
    Cleared,
}

/// Why a copy was not made.
enum RewriteFailure {
    Read(ReadError),
    Write(WriteError),
    /// It is not etcd's.
    Foreign(String),
}

impl From<ReadError> for RewriteFailure {
    fn from(error: ReadError) -> RewriteFailure {
        RewriteFailure::Read(error)
    }
}

impl From<WriteError> for RewriteFailure {
    fn from(error: WriteError) -> RewriteFailure {
        RewriteFailure::Write(error)
    }
}

/// Takes a record.
type PutRecord<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), WriteError>;

/// Writes the database again in place of itself.
///
/// # Errors
/// It is damaged, or the new file cannot be written. Nothing has changed then.
pub(super) fn rewrite(line: &CommandLine, file: &LockedFile, version: &StorageVersion<'_>) -> CommandEnd {
    let database = file.database()?;
    let bar = line.bytes_bar("rewriting", database.bytes());
    let path = file.path();
    let (part, output) = PartFile::create(path)?;
    let written = write(&database, output, version, &bar);
    bar.finish_and_clear();
    written.map_err(|failure| match failure {
        RewriteFailure::Read(error) => file.refuse(&error),
        RewriteFailure::Write(error) => Refusal::error(format!("{}: {error}", path.display())),
        RewriteFailure::Foreign(why) => Refusal::error(format!("{}: {why}", path.display())),
    })?;
    part.commit()
}

fn write(
    database: &DbFile<&LockedFile>,
    output: File,
    version: &StorageVersion<'_>,
    bar: &ProgressBar,
) -> Result<(), RewriteFailure> {
    let names = database.bucket_names()?;
    let names = names.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|error| {
        RewriteFailure::Foreign(format!(
            "{:?} is no name of a bucket of etcd",
            error.into_bytes().escape_ascii().to_string()
        ))
    })?;
    let mut layout = FileLayout::default();
    for name in &names {
        layout.bucket(name)?;
        visit(database, name, version, &mut |key, value| layout.pair(key.len(), value.len()))?;
    }
    let plan = layout.finish()?;
    let output = BufWriter::with_capacity(1 << 20, output);
    let mut writer = FileWriter::new(output, plan)?;
    for name in &names {
        writer.bucket(name)?;
        visit(database, name, version, &mut |key, value| {
            bar.inc((key.len() + value.len()) as u64);
            writer.pair(key, value)
        })?;
    }
    let mut output = writer.finish()?;
    output.flush().and_then(|()| output.get_ref().sync_all()).map_err(WriteError::Output)?;
    Ok(())
}

/// Hands the records of a bucket to `put`, with the storage version as it shall be.
fn visit<R: ReadAt>(
    database: &DbFile<R>,
    bucket: &str,
    version: &StorageVersion<'_>,
    put: PutRecord<'_>,
) -> Result<(), RewriteFailure> {
    let mut missing = match version {
        StorageVersion::Set(version) if bucket == META => Some(version.as_bytes()),
        _ => None,
    };
    let Some(mut pairs) = database.bucket(bucket)? else { return Ok(()) };
    while let Some((key, value)) = pairs.next_pair()? {
        if let Some(version) = missing.take_if(|_| key >= STORAGE_VERSION) {
            put(STORAGE_VERSION, version)?;
        }
        let is_old = bucket == META && key == STORAGE_VERSION;
        if !is_old || matches!(version, StorageVersion::Kept) {
            put(key, value)?;
        }
    }
    if let Some(version) = missing {
        put(STORAGE_VERSION, version)?;
    }
    Ok(())
}
