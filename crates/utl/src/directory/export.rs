//! `export`: the state of a member that was stopped as a snapshot: etcd's database file with its SHA-256 behind it.
//!
//! `etcdutl snapshot restore` makes an etcd member of it, `stele utl snapshot restore` one of Stele. For etcd's data
//! directory, `--as-directory`, there is `crate::etcd::export`.

use super::database_file::{DatabaseExport, SumBehind};
use super::offline;
use crate::line::{CommandEnd, CommandLine, Refusal};
use crate::part_file::PartFile;

/// Flags for members, which a snapshot has not.
const MEMBER_FLAGS: [&str; 4] =
    ["name", "initial-cluster", "initial-cluster-token", "initial-advertise-peer-urls"];

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if line.args.len() != 1 {
        return Err(Refusal::bad_args("export requires exactly one argument, the file to write"));
    }
    if let Some(flag) = MEMBER_FLAGS.iter().find(|flag| line.values.on_line(flag)) {
        return Err(Refusal::bad_args(format!(
            "--{flag} is for --as-directory: a snapshot is no member's until it is restored"
        )));
    }
    let path = line.path(0);
    if path.exists() {
        return Err(Refusal::error(format!("{} exists: name a file that does not", path.display())));
    }
    let state = offline::open_whole(line)?;
    let export = DatabaseExport::of(&state)?;
    let (part, file) = PartFile::create(&path)?;
    let bytes = export.write(line, (&path, file), SumBehind::Yes)?;
    part.commit()?;
    let (keys, revision) = (state.reader.counts().keys, state.reader.current_revision());
    line.complain(&format!("exported {keys} keys at revision {revision}, {bytes} bytes"));
    Ok(())
}
