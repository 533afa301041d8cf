//! The state of a member that was stopped, written as etcd's database file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use dbfile::WriteError;
use dbfile::records::SmallRecords;
use indicatif::ProgressBar;
use member::restore::OfflineState;
use sha2::{Digest, Sha256};
use store::{CapturedState, Damaged, RetainedVersion, StateReplaced, ValueRef, Values};

use crate::line::{CommandLine, Refusal, system_error};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Whether the SHA-256 of a database follows it, as in a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumBehind {
    Yes,
    No,
}

/// Why a file was not written.
enum ExportFailure {
    Write(WriteError),
    Damaged(Damaged),
}

impl From<WriteError> for ExportFailure {
    fn from(error: WriteError) -> ExportFailure {
        ExportFailure::Write(error)
    }
}

impl From<Damaged> for ExportFailure {
    fn from(error: Damaged) -> ExportFailure {
        ExportFailure::Damaged(error)
    }
}

impl From<StateReplaced> for ExportFailure {
    fn from(_: StateReplaced) -> ExportFailure {
        unreachable!("no member runs that could receive a snapshot")
    }
}

/// A state that is about to be written.
pub(crate) struct DatabaseExport<'a> {
    state: &'a OfflineState,
    captured: CapturedState,
    /// All records but versions; they may be changed before the file is written, if they are sorted again.
    pub(crate) small: SmallRecords,
}

impl DatabaseExport<'_> {
    /// Begins with a state.
    ///
    /// # Errors
    /// It ends within an entry.
    pub(crate) fn of(state: &OfflineState) -> Result<DatabaseExport<'_>, Refusal> {
        let captured = state.reader.capture();
        let captured = captured.ok_or_else(|| Refusal::error("the log ends within an entry"))?;
        Ok(DatabaseExport { small: dbstate::small(&captured), state, captured })
    }

    /// Writes the file, which is empty and has the name `path`, and returns the bytes of the database.
    ///
    /// # Errors
    /// A value is damaged, or the system refuses.
    pub(crate) fn write(
        mut self,
        line: &CommandLine,
        (path, file): (&Path, File),
        sum: SumBehind,
    ) -> Result<u64, Refusal> {
        let refused = |failure: ExportFailure| match failure {
            ExportFailure::Write(error) => Refusal::error(format!("{}: {error}", path.display())),
            ExportFailure::Damaged(damaged) => Refusal::error(format!(
                "{damaged}: export another member's directory, or restore a backup; `stele utl verify` lists all damage"
            )),
        };
        let versions = &mut self.captured.versions;
        let waiting = line.waiting_bar("laying out the file");
        let plan = dbstate::lay_out::<ExportFailure>(&self.small, versions, &mut || Ok(()));
        waiting.finish_and_clear();
        let plan = plan.map_err(refused)?;
        versions.rewind();
        let bar = line.bytes_bar("exporting", plan.bytes());
        let output = SummedFile { file, sum: Sha256::new(), buffer: Vec::new(), bar: &bar };
        let values = &*self.state.values;
        let mut read = |versions: &[RetainedVersion]| Ok(read_values(values, versions)?);
        let output = dbstate::write::<_, ExportFailure>(&self.small, versions, plan, output, &mut read);
        let finished = output.map_err(refused)?.finish(sum);
        bar.finish_and_clear();
        finished.map_err(|error| system_error("write", path, &error))?;
        Ok(plan.bytes())
    }
}

/// The values of versions in their order, an empty one for a tombstone.
fn read_values(values: &dyn Values, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, Damaged> {
    let wanted: Vec<ValueRef> =
        versions.iter().map(|version| version.kv.value).filter(|value| value.len > 0).collect();
    let mut read = values.read_many(&wanted)?.into_iter();
    let value = |version: &RetainedVersion| match version.kv.value.len {
        0 => Bytes::new(),
        _ => read.next().unwrap_or_default(),
    };
    Ok(versions.iter().map(value).collect())
}

/// A file that is summed while it is written.
struct SummedFile<'a> {
    file: File,
    sum: Sha256,
    buffer: Vec<u8>,
    bar: &'a ProgressBar,
}

impl SummedFile<'_> {
    fn finish(mut self, sum: SumBehind) -> io::Result<()> {
        self.flush()?;
        if sum == SumBehind::Yes {
            self.file.write_all(&self.sum.finalize())?;
        }
        self.file.sync_all()
    }
}

impl Write for SummedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sum.update(&self.buffer);
        self.file.write_all(&self.buffer)?;
        self.bar.inc(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }
}
