//! `verify`: reads everything that a member that was stopped would read, and checks all checksums. It changes nothing.
//!
//! ```text
//! checkpoint files      chunks and frames, and the hash of the state that they make; while it is opened
//! entries of the log    all that a follower could ask for
//! values                each that a version refers to, in whatever file it lies
//! ```
//!
//! What recovery finds while the directory is opened counts as well: damaged headers of files, and damaged entries that
//! the checkpoint has made superfluous.

use log::Warning;
use member::restore::OfflineState;
use store::{RetainedVersion, ValueRef};

use super::offline;
use crate::line::{CommandEnd, CommandLine, Refusal};

/// Versions whose values are read together, and the bytes of these values, unless a single one has more.
const MAX_STEP_VERSIONS: usize = 256;
const MAX_STEP_BYTES: u64 = 16 << 20;

/// Entries between two looks at the terminal.
const BAR_STEP_ENTRIES: u64 = 256;

/// Damaged places that are listed; more are counted.
const MAX_LISTED: usize = 100;

/// What was read, and what of it was damaged.
#[derive(Default)]
pub(super) struct DamageFound {
    count: u64,
    listed: Vec<String>,
    checkpoint_bytes: u64,
    entries: u64,
    values: u64,
    keys: u64,
}

impl DamageFound {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(what);
        }
    }

    /// Whether anything was.
    pub(super) fn is_damaged(&self) -> bool {
        self.count > 0
    }

    /// What was damaged, on one line.
    pub(super) fn list(&self) -> String {
        self.listed.join("; ")
    }

    /// What was read.
    pub(super) fn summary(&self) -> String {
        let Self { checkpoint_bytes, entries, values, keys, .. } = self;
        format!("{checkpoint_bytes} bytes of checkpoints, {entries} entries, {values} values of {keys} keys")
    }
}

/// Reads everything that a state was made from and refers to.
///
/// # Errors
/// The index cannot be walked.
pub(super) fn examine(line: &CommandLine, state: &OfflineState) -> Result<DamageFound, Refusal> {
    let mut damage = DamageFound::default();
    for warning in &state.warnings {
        match warning {
            Warning::Damaged { .. } => damage.add(warning.to_string()),
            // Found again with the entries; and no damage, as nothing proves that it was durable.
            Warning::DamagedEntry { .. } | Warning::TornTail { .. } => {}
        }
    }
    damage.entries = check_entries(line, state, &mut damage);
    damage.values = check_values(line, state, &mut damage)?;
    damage.keys = state.reader.counts().keys;
    damage.checkpoint_bytes = state.loading.checkpoint_bytes;
    Ok(damage)
}

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    if !line.args.is_empty() {
        return Err(Refusal::bad_args("verify accepts no arguments: the directory is named by --data-dir"));
    }
    let state = offline::open(line)?;
    for warning in state.warnings.iter().filter(|warning| matches!(warning, Warning::TornTail { .. })) {
        line.complain(&format!("Warning: {warning}"));
    }
    let damage = examine(line, &state)?;
    if !damage.is_damaged() {
        return line.print(&format!("no damage: {}\n", damage.summary()));
    }
    for what in &damage.listed {
        line.print(&format!("{what}\n"))?;
    }
    if let Some(first) = state.damaged.first() {
        line.print(&format!(
            "values of versions made by entry {} and later ones were not looked for\n",
            first.index
        ))?;
    }
    Err(Refusal::error(format!(
        "damaged headers, entries and values: {}; a running member with peers repairs them by itself, without peers \
         restore a backup",
        damage.count
    )))
}

/// Reads all entries of the log. Returns how many.
fn check_entries(line: &CommandLine, state: &OfflineState, damage: &mut DamageFound) -> u64 {
    let (first, last) = state.entries;
    let bar = line.count_bar("reading", "entries", (last + 1).saturating_sub(first));
    let mut count = 0;
    for entry in state.log.entries_from(state.entries.0) {
        count += 1;
        if count % BAR_STEP_ENTRIES == 0 {
            bar.set_position(count);
        }
        if let Err(error) = entry {
            damage.add(format!("entry {}: {error}", state.entries.0 + count - 1));
        }
    }
    bar.finish_and_clear();
    count
}

/// Reads the values of all versions. Returns how many.
fn check_values(line: &CommandLine, state: &OfflineState, damage: &mut DamageFound) -> Result<u64, Refusal> {
    let bar = line.bytes_bar("verifying", state.log.reader().live_bytes());
    let mut versions = state.reader.versions();
    let mut count = 0;
    loop {
        let chunk = versions.next_chunk(MAX_STEP_VERSIONS);
        let chunk = chunk.map_err(|error| Refusal::error(error.to_string()))?;
        if chunk.is_empty() {
            bar.finish_and_clear();
            return Ok(count);
        }
        let with_value: Vec<&RetainedVersion> =
            chunk.iter().filter(|version| version.kv.value.len > 0).collect();
        count += with_value.len() as u64;
        for step in steps(&with_value) {
            bar.inc(check_step(state, step, damage));
        }
    }
}

/// Divides versions so that the values of each part have at most [`MAX_STEP_BYTES`], or are one.
fn steps<'a, 'b>(mut rest: &'a [&'b RetainedVersion]) -> Vec<&'a [&'b RetainedVersion]> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|version| {
            bytes += u64::from(version.kv.value.len);
            bytes <= MAX_STEP_BYTES
        });
        let (step, behind) = rest.split_at(fits.count().max(1));
        steps.push(step);
        rest = behind;
    }
    steps
}

/// Reads the values of some versions. Returns their bytes.
fn check_step(state: &OfflineState, step: &[&RetainedVersion], damage: &mut DamageFound) -> u64 {
    let wanted: Vec<ValueRef> = step.iter().map(|version| version.kv.value).collect();
    if state.values.read_many(&wanted).is_err() {
        for version in step {
            if let Err(error) = state.values.read(&version.kv.value) {
                let key = String::from_utf8_lossy(&version.kv.key).into_owned();
                damage.add(format!("key {key:?} at revision {}: {error}", version.kv.mod_revision.main));
            }
        }
    }
    wanted.iter().map(|value| u64::from(value.len)).sum()
}

#[cfg(test)]
mod tests {
    use store::{KvRef, Revision};

    use super::*;

    #[test]
    fn values_are_read_together_by_their_bytes() {
        let version = |len| RetainedVersion {
            kv: KvRef {
                key: bytes::Bytes::from("k"),
                create_revision: 1,
                mod_revision: Revision::default(),
                version: 1,
                lease: 0,
                value: ValueRef { len, ..ValueRef::default() },
            },
            tombstone: false,
        };
        let versions = [1, 2, 17 << 20, 3, 16 << 20, 1].map(version);
        let all: Vec<&RetainedVersion> = versions.iter().collect();
        let lengths: Vec<usize> = steps(&all).iter().map(|step| step.len()).collect();
        assert_eq!(lengths, [2, 1, 1, 1, 1]);
    }

    #[test]
    fn a_bounded_number_of_damaged_places_is_listed() {
        let mut damage = DamageFound::default();
        (0..101).for_each(|number| damage.add(format!("place {number}")));
        assert_eq!((damage.listed.len(), damage.count), (100, 101));
        assert!(damage.list().ends_with("place 99"));
    }
}
