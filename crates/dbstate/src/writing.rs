//! The two passes over the versions of a captured state.

use std::io::Write;

use bytes::Bytes;
use dbfile::records::{BUCKETS, KEY_BUCKET, SmallRecords};
use dbfile::{FileLayout, FilePlan, FileWriter, WriteError};
use store::{RetainedVersion, StateReplaced, VersionWalk};

use crate::records;

/// Versions that are looked up in one hold of the store's lock.
const MAX_STEP_VERSIONS: usize = 256;

/// Bytes of values that are read together, besides one value of any length.
const MAX_READ_BYTES: usize = 1 << 20;

/// Reads the values of versions.
type ReadValues<'a, E> = &'a mut dyn FnMut(&[RetainedVersion]) -> Result<Vec<Bytes>, E>;

/// The first pass: the length of the file. Asks before each step whether to `go_on`.
///
/// # Errors
/// Those of `go_on`; a state that was replaced; records that do not fit into a file.
pub fn lay_out<E: From<WriteError> + From<StateReplaced>>(
    small: &SmallRecords,
    versions: &mut VersionWalk,
    go_on: &mut dyn FnMut() -> Result<(), E>,
) -> Result<FilePlan, E> {
    let mut layout = FileLayout::default();
    for bucket in BUCKETS {
        layout.bucket(bucket)?;
        small.visit(bucket, &mut |key, value| layout.pair(key.len(), value.len()))?;
        if bucket != KEY_BUCKET {
            continue;
        }
        loop {
            let chunk = versions.next_chunk(MAX_STEP_VERSIONS)?;
            if chunk.is_empty() {
                break;
            }
            go_on()?;
            for version in &chunk {
                let record = records::version(version);
                layout.pair(record.revision.encoded_len(), record.encoded_len())?;
            }
        }
    }
    Ok(layout.finish()?)
}

/// The second pass: writes the file. `versions` is at its beginning, and `read` gives the values of some of them, in
/// their order, an empty one for a tombstone.
///
/// # Errors
/// Those of `read`; a state that was replaced; an output that failed.
pub fn write<W: Write, E: From<WriteError> + From<StateReplaced>>(
    small: &SmallRecords,
    versions: &mut VersionWalk,
    plan: FilePlan,
    output: W,
    read: ReadValues<'_, E>,
) -> Result<W, E> {
    let mut writer = FileWriter::new(output, plan)?;
    for bucket in BUCKETS {
        writer.bucket(bucket)?;
        small.visit(bucket, &mut |key, value| writer.pair(key, value))?;
        if bucket == KEY_BUCKET {
            write_versions(versions, &mut writer, read)?;
        }
    }
    Ok(writer.finish()?)
}

fn write_versions<W: Write, E: From<WriteError> + From<StateReplaced>>(
    versions: &mut VersionWalk,
    writer: &mut FileWriter<W>,
    read: ReadValues<'_, E>,
) -> Result<(), E> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    loop {
        let chunk = versions.next_chunk(MAX_STEP_VERSIONS)?;
        if chunk.is_empty() {
            return Ok(());
        }
        for some in together(&chunk) {
            for (version, bytes) in some.iter().zip(read(some)?) {
                key.clear();
                value.clear();
                let record = records::version(version);
                record.revision.encode(&mut key);
                record.encode(&bytes, &mut value);
                writer.pair(&key, &value)?;
            }
        }
    }
}

/// Divides versions, so that their values can be read together.
fn together(mut versions: &[RetainedVersion]) -> impl Iterator<Item = &[RetainedVersion]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = versions.iter().take_while(|version| {
            bytes += version.kv.value.len as usize;
            bytes <= MAX_READ_BYTES
        });
        let count = fitting.count().max(1).min(versions.len());
        let (some, rest) = versions.split_at(count);
        versions = rest;
        (!some.is_empty()).then_some(some)
    })
}

#[cfg(test)]
mod tests {
    use store::{KvRef, Revision, ValueRef};

    use super::*;

    fn version(len: u32) -> RetainedVersion {
        let value = if len > 0 { ValueRef { address: 5, len, checksum: 0 } } else { ValueRef::default() };
        let kv = KvRef {
            key: "k".into(),
            create_revision: 2,
            mod_revision: Revision { main: 2, sub: 0 },
            version: 1,
            lease: 0,
            value,
        };
        RetainedVersion { kv, tombstone: false }
    }

    #[test]
    fn values_are_read_together_up_to_a_size() {
        let half = MAX_READ_BYTES as u32 / 2;
        let lengths = [half, half, 1, 3 * half, 0, half];
        let versions = lengths.map(version);
        let counts: Vec<_> = together(&versions).map(<[RetainedVersion]>::len).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
    }
}
