//! `inspect`: which files a member that was stopped has, how much of each is live, and what its log and state hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cli::text::human;
use member::batch;
use member::restore::OfflineState;

use super::offline;
use crate::line::{CommandEnd, CommandLine, Refusal, system_error};

/// Versions that are looked up together.
const MAX_STEP_VERSIONS: usize = 256;

/// Entry kinds of the log, by number.
const KINDS: [&str; 3] = ["commands", "conf change", "empty"];

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if !line.args.is_empty() {
        return Err(Refusal::bad_args("inspect accepts no arguments: the directory is named by --data-dir"));
    }
    let state = offline::open_whole(line)?;
    let summary = summary(&state);
    line.print(&summary)?;
    let table = files(line, &state)?;
    line.print(&table)?;
    if line.values.switch("entries") { entries(line, &state) } else { Ok(()) }
}

fn summary(state: &OfflineState) -> String {
    let (identity, reader, loading) = (&state.identity, &state.reader, &state.loading);
    let (first, last) = state.entries;
    let counts = reader.counts();
    let lines = [
        ("cluster", format!("{:x}", identity.cluster_id)),
        ("member", format!("{:x}", identity.member_id)),
        ("revision", reader.current_revision().to_string()),
        ("compacted", reader.compacted().to_string()),
        ("keys", counts.keys.to_string()),
        ("members", reader.members().len().to_string()),
        ("checkpoint", format!("entry {}, {} bytes", loading.checkpoint_index, loading.checkpoint_bytes)),
        ("log", format!("entries {first} to {last}, committed {} at least", state.committed)),
        ("live", share(state.log.reader().live_bytes(), state.log.reader().file_bytes())),
    ];
    lines.iter().map(|(name, value)| format!("{name:10} {value}\n")).collect()
}

fn share(live: u64, all: u64) -> String {
    let percent = (live * 100).checked_div(all).unwrap_or(0);
    format!("{} of {} ({percent}%)", human::bytes(live), human::bytes(all))
}

/// A line for each file, with what of it versions refer to.
fn files(line: &CommandLine, state: &OfflineState) -> Result<String, Refusal> {
    let live = live_bytes(state)?;
    let options = offline::options(line);
    let member = options.data_dir.join("member");
    let wal = options.wal_dir.unwrap_or_else(|| member.join("wal"));
    let mut table = format!("\n{:24} {:>12} {:>12} {:>6}\n", "file", "bytes", "live", "share");
    for dir in [member.join("checkpoint"), wal, member.join("data")] {
        for path in sorted(&dir)? {
            let bytes = fs::metadata(&path).map_err(|error| system_error("stat", &path, &error))?.len();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let below = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let holds_values = name.ends_with(".seg") || name.ends_with(".dat");
            let number = name.split('.').next().and_then(|number| u32::from_str_radix(number, 16).ok());
            let found = number.filter(|_| holds_values).map(|number| live.get(&number).copied().unwrap_or(0));
            let (live, share) = match found {
                Some(live) => {
                    (live.to_string(), format!("{}%", (live * 100).checked_div(bytes).unwrap_or(0)))
                }
                None => ("-".to_owned(), "-".to_owned()),
            };
            table.push_str(&format!("{:24} {bytes:>12} {live:>12} {share:>6}\n", format!("{below}/{name}")));
        }
    }
    Ok(table)
}

/// The files of a directory, by name.
fn sorted(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let listed = fs::read_dir(dir).map_err(|error| system_error("open", dir, &error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|item| item.ok().map(|item| item.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Bytes of values that versions refer to, by file.
fn live_bytes(state: &OfflineState) -> Result<BTreeMap<u32, u64>, Refusal> {
    let mut live = BTreeMap::new();
    let mut versions = state.reader.versions();
    loop {
        let chunk = versions.next_chunk(MAX_STEP_VERSIONS);
        let chunk = chunk.map_err(|error| Refusal::error(error.to_string()))?;
        if chunk.is_empty() {
            return Ok(live);
        }
        for value in chunk.iter().map(|version| version.kv.value).filter(|value| value.len > 0) {
            *live.entry(log::file_of(value.address)).or_insert(0) += u64::from(value.len);
        }
    }
}

/// A line for each entry of the log.
fn entries(line: &mut CommandLine, state: &OfflineState) -> CommandEnd {
    line.print(&format!(
        "\n{:>10} {:>6} {:12} {:>10} {:>9}  at\n",
        "entry", "term", "kind", "bytes", "commands"
    ))?;
    for entry in state.log.entries_from(state.entries.0) {
        let (entry, address) = entry.map_err(|error| Refusal::error(error.to_string()))?;
        let kind = KINDS.get(usize::from(entry.kind)).copied().unwrap_or("unknown");
        let commands = match entry.kind {
            0 => batch::decode(&entry.payload).map(|batch| batch.commands.len().to_string()),
            _ => Ok("-".to_owned()),
        };
        let commands = commands.unwrap_or_else(|error| error.to_string());
        let (index, term, bytes) = (entry.index, entry.term, entry.payload.len());
        let at = format!("{:08x}+{}", log::file_of(address), log::offset_of(address));
        line.print(&format!("{index:>10} {term:>6} {kind:12} {bytes:>10} {commands:>9}  {at}\n"))?;
    }
    Ok(())
}
