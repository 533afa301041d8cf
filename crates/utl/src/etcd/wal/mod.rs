//! etcd's write-ahead log, as far as an import must know it: whose it is, which entries follow what the database has,
//! and up to which one they are known to be committed. `writer` writes the log with which an exported directory begins.
//!
//! ```text
//! entry 4 (term 2)   entry 5 (2)   hard state (term 2, commit 4)   entry 5 (3)   entry 6 (3)
//! database: 4   ->   behind it 5 (term 3) and 6; committed are those up to 4
//! ```
//!
//! The format is that of etcd's package `server/storage/wal`, equal in 3.4 to 3.7: `file` has its records, and
//! `messages` what they hold. A later entry of an index replaces an earlier one, and all after it. A hard state comes
//! after the entries that it commits.
//!
//! All of a log is read to check it; then the entries behind the database, one file in memory at a time.

mod file;
pub(super) mod messages;
pub(super) mod writer;

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

use crate::line::{Refusal, system_error};
use file::{CHECKSUM, ENTRY, HARD_STATE, METADATA, RecordFault, SNAPSHOT, WalFile, WalRecord};
use messages::{WalEntry, WalHardState, WalMetadata, WalSnapshot};

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
struct EntryAt {
    index: u64,
    file: usize,
    offset: usize,
    /// The sum over all data before it.
    sum: u32,
}

/// What the log has behind an index.
#[derive(Debug, Default)]
pub(super) struct WalTail {
    paths: Vec<PathBuf>,
    /// Whose log it is.
    metadata: WalMetadata,
    /// Entries behind the index, in order.
    entries: Vec<EntryAt>,
    /// The last entry; 0 without one.
    last_entry: u64,
    /// Snapshots that it mentions, in order.
    snapshots: Vec<u64>,
    /// The commit index of the last hard state.
    committed: u64,
    /// The file that was read last.
    loaded: Option<(usize, WalFile)>,
}

impl WalTail {
    /// Reads all files of a log. Entries up to the index `after` are skipped.
    ///
    /// # Errors
    /// There is no file; one cannot be read, or is damaged; entries are missing; none says whose log it is.
    pub(super) fn read(dir: &Path, after: u64) -> Result<WalTail, Refusal> {
        let mut tail = WalTail { paths: files(dir)?, ..WalTail::default() };
        let (paths, mut sum) = (tail.paths.clone(), 0);
        for (at, path) in paths.iter().enumerate() {
            let mut file = WalFile::new(read_file(path)?);
            if let Err(fault) = tail.take_file(&mut file, at, after, &mut sum)
                && (!fault.is_torn || at + 1 < paths.len())
            {
                return Err(Refusal::error(format!(
                    "{} is damaged at offset {}: {}; import another member's directory",
                    path.display(),
                    file.offset(),
                    fault.why
                )));
            }
        }
        // Every file begins with it, and no member has the id 0.
        if tail.metadata.member_id == 0 {
            return Err(Refusal::error(format!(
                "{} has no record that says whose log it is, with which each file of etcd's begins; import another \
                 member's directory",
                dir.display()
            )));
        }
        Ok(tail)
    }

    /// Whose log it is.
    pub(super) fn metadata(&self) -> WalMetadata {
        self.metadata
    }

    /// The newest snapshot that counts; 0 without one. As in etcd, one that is not known to be committed does not.
    pub(super) fn snapshot(&self) -> u64 {
        self.snapshots.iter().copied().filter(|index| *index <= self.committed).max().unwrap_or(0)
    }

    /// The last entry or snapshot; 0 without one.
    pub(super) fn last(&self) -> u64 {
        self.last_entry.max(self.snapshot())
    }

    /// The last entry that is known to be committed.
    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    /// The indexes of the entries behind `applied`, in order.
    pub(super) fn behind(&self, applied: u64) -> Vec<u64> {
        self.entries.iter().map(|entry| entry.index).filter(|index| *index > applied).collect()
    }

    /// The indexes of the entries behind `from`, up to `to`.
    ///
    /// # Errors
    /// Some are missing.
    pub(super) fn between(&self, from: u64, to: u64) -> Result<Vec<u64>, String> {
        let mut found = self.behind(from);
        found.retain(|index| *index <= to);
        if found.len() as u64 != to.saturating_sub(from) {
            return Err(format!("its log lacks entries between {from} and {to}, so who votes is not known"));
        }
        Ok(found)
    }

    /// Checks that the log goes on where the database ends, at the entry `applied`.
    ///
    /// # Errors
    /// How they do not fit.
    pub(super) fn check_follows(&self, applied: u64) -> Result<(), String> {
        let (snapshot, last) = (self.snapshot(), self.last());
        if snapshot > applied {
            return Err(format!("its log has a snapshot at entry {snapshot}, which is later"));
        }
        if last < applied {
            return Err(format!("its log ends before, at entry {last}"));
        }
        if last < self.committed {
            return Err(format!("its log ends at entry {last}, but {} were committed", self.committed));
        }
        match self.behind(applied).first() {
            Some(first) if *first > applied + 1 => {
                Err(format!("its log goes on with entry {first}: those between are missing"))
            }
            _ => Ok(()),
        }
    }

    /// Reads an entry that is [behind](Self::behind) the database.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it was.
    pub(super) fn entry(&mut self, index: u64) -> Result<WalEntry, Refusal> {
        let position = self.entries.binary_search_by_key(&index, |entry| entry.index);
        let Some(at) = position.ok().map(|position| self.entries[position]) else {
            return Err(Refusal::error(format!("the log has no entry {index}")));
        };
        let path = &self.paths[at.file];
        let changed = || Refusal::error(format!("{} changed while it was read", path.display()));
        let mut file = match self.loaded.take() {
            Some((number, file)) if number == at.file => file,
            _ => WalFile::new(read_file(path)?),
        };
        file.seek(at.offset);
        let record = file.next_record(&mut { at.sum }).map_err(|_| changed())?.ok_or_else(changed)?;
        let entry = WalEntry::decode(record.data).map_err(|_| changed())?;
        self.loaded = Some((at.file, file));
        Ok(entry)
    }

    fn take_file(
        &mut self,
        file: &mut WalFile,
        number: usize,
        after: u64,
        sum: &mut u32,
    ) -> Result<(), RecordFault> {
        loop {
            let at = EntryAt { index: 0, file: number, offset: file.offset(), sum: *sum };
            let Some(record) = file.next_record(sum)? else { return Ok(()) };
            if let Err(why) = self.take(record, at, after) {
                file.seek(at.offset);
                return Err(RecordFault::damage(why));
            }
        }
    }

    fn take(&mut self, record: WalRecord, at: EntryAt, after: u64) -> Result<(), String> {
        let decoded = |error: prost::DecodeError| error.to_string();
        match record.kind {
            ENTRY => {
                let index = WalEntry::decode(record.data).map_err(decoded)?.index;
                let last = self.last_entry.max(self.snapshots.last().copied().unwrap_or(0));
                if last > 0 && index > last + 1 {
                    return Err(format!("entry {index} follows entry {last}"));
                }
                while self.entries.last().is_some_and(|earlier| earlier.index >= index) {
                    self.entries.pop();
                }
                self.last_entry = index;
                if index > after {
                    self.entries.push(EntryAt { index, ..at });
                }
            }
            SNAPSHOT => self.snapshots.push(WalSnapshot::decode(record.data).map_err(decoded)?.index),
            HARD_STATE => self.committed = WalHardState::decode(record.data).map_err(decoded)?.commit,
            METADATA => self.metadata = WalMetadata::decode(record.data).map_err(decoded)?,
            CHECKSUM => {}
            other => return Err(format!("a record has the type {other}, which is not known")),
        }
        Ok(())
    }
}

/// The files of a log, in order.
///
/// # Errors
/// There is none.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let listed = fs::read_dir(dir).map_err(|error| system_error("open", dir, &error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|item| item.ok().map(|item| item.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|suffix| suffix == "wal"));
    paths.sort();
    if paths.is_empty() {
        return Err(Refusal::error(format!(
            "{} has no file of a log, so it cannot be seen whether the database has all entries: if etcd had \
             --wal-dir, link that directory there",
            dir.display()
        )));
    }
    Ok(paths)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Refusal> {
    fs::read(path).map_err(|error| system_error("read", path, &error))
}

#[cfg(test)]
mod tests;
