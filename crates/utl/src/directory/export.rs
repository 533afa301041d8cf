//! `export`: the state of a member that was stopped as a snapshot: etcd's database file with its SHA-256 behind it.
//!
//! `etcdutl snapshot restore` makes an etcd member of it, `stele utl snapshot restore` one of Stele.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use dbfile::WriteError;
use indicatif::ProgressBar;
use member::restore::OfflineState;
use sha2::{Digest, Sha256};
use store::{Damaged, RetainedVersion, StateReplaced, ValueRef, Values};

use super::offline;
use crate::line::{CommandEnd, CommandLine, Refusal, system_error};
use crate::part_file::PartFile;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

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

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("export requires exactly one argument, the file to write"));
    }
    let path = line.path(0);
    if path.exists() {
        return Err(Refusal::error(format!("{} exists: name a file that does not", path.display())));
    }
    let state = offline::open_whole(line)?;
    let (part, file) = PartFile::create(&path)?;
    let bytes = write(line, &state, &path, file)?;
    part.commit()?;
    let (keys, revision) = (state.reader.counts().keys, state.reader.current_revision());
    line.complain(&format!("exported {keys} keys at revision {revision}, {bytes} bytes"));
    Ok(())
}

fn write(line: &CommandLine, state: &OfflineState, path: &Path, file: File) -> Result<u64, Refusal> {
    let refused = |failure: ExportFailure| match failure {
        ExportFailure::Write(error) => Refusal::error(format!("{}: {error}", path.display())),
        ExportFailure::Damaged(damaged) => Refusal::error(format!(
            "{damaged}: export another member's directory, or restore a backup; `stele utl verify` lists all damage"
        )),
    };
    let captured = state.reader.capture();
    let mut captured = captured.ok_or_else(|| Refusal::error("the log ends within an entry"))?;
    let small = dbstate::small(&captured);
    let waiting = line.waiting_bar("laying out the file");
    let plan = dbstate::lay_out::<ExportFailure>(&small, &mut captured.versions, &mut || Ok(()));
    waiting.finish_and_clear();
    let plan = plan.map_err(refused)?;
    captured.versions.rewind();
    let bar = line.bytes_bar("exporting", plan.bytes());
    let output = SummedFile { file, sum: Sha256::new(), buffer: Vec::new(), bar: &bar };
    let mut read = |versions: &[RetainedVersion]| Ok(read_values(&*state.values, versions)?);
    let output = dbstate::write::<_, ExportFailure>(&small, &mut captured.versions, plan, output, &mut read);
    let finished = output.map_err(refused)?.finish();
    bar.finish_and_clear();
    finished.map_err(|error| system_error("write", path, &error))?;
    Ok(plan.bytes())
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

/// A file that is summed while it is written; the sum follows its end.
struct SummedFile<'a> {
    file: File,
    sum: Sha256,
    buffer: Vec<u8>,
    bar: &'a ProgressBar,
}

impl SummedFile<'_> {
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.file.write_all(&self.sum.finalize())?;
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
