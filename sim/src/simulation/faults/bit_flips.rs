//! Bits that flip in files of a victim.
//!
//! ```text
//! segment  | header | record | record (synced mark) | record | record | ...
//!          |<---- covered by a synced mark -------->|<-- durable ---->|<- not durable
//!            BitFlip: must be noticed                 TailFlip: looks
//!            as corruption                            like a torn write
//! ```

use std::path::{Path, PathBuf};

use log::Disk;
use store::ValueRef;

use crate::defects::records;
use crate::simulation::state::Simulation;
use crate::world::machine::TailFlip;

/// The directory of checkpoints, whose files hold no values.
const CHECKPOINTS: &str = "/data/member/checkpoint";

/// Percentage of bit flips that hit what the next start must replay.
const REPLAYED_PERCENT: u64 = 50;

/// Such a flip is among so many bytes before the last durable mark: a few entries.
const REPLAYED_BYTES: u64 = 1_000;

/// Percentage of tail flips after which the machine loses power at once.
const POWER_LOST_PERCENT: u64 = 80;

impl Simulation {
    /// Flips a bit in a file of a victim, where recovery can distinguish it from a torn tail: below a durable mark of
    /// the newest segment, or anywhere in a complete file.
    pub(super) fn flip_anywhere(&mut self, victim: usize) {
        if self.disk_rng.percent(REPLAYED_PERCENT) && self.flip_replayed(victim) {
            return;
        }
        let files = self.machines[victim].disk.files();
        let Some(path) = files.get(self.disk_rng.below(files.len() as u64) as usize) else { return };
        let bytes = self.distinct_bytes(victim, path);
        if bytes == 0 {
            return;
        }
        let offset = self.disk_rng.below(bytes);
        let bit = self.disk_rng.below(8) as u8;
        self.flip_bit(victim, path, offset, bit);
    }

    /// Flips a bit in what the victim wrote last and knows to be durable. Its machine loses power before a checkpoint
    /// makes that unnecessary: the next start must replay it. Returns whether there is anything.
    fn flip_replayed(&mut self, victim: usize) -> bool {
        let mut segments = self.machines[victim].disk.files();
        segments.retain(|path| path.extension().is_some_and(|suffix| suffix == "seg"));
        segments.sort_unstable();
        // Those that are ready for later have no mark.
        let mut newest = segments.into_iter().rev().map(|path| (self.distinct_bytes(victim, &path), path));
        let Some((bytes, path)) = newest.find(|(bytes, _)| *bytes > 0) else { return false };
        let offset = bytes - 1 - self.disk_rng.below(bytes.min(REPLAYED_BYTES));
        let bit = self.disk_rng.below(8) as u8;
        self.flip_bit(victim, &path, offset, bit);
        self.lose_power_within(victim, 0);
        true
    }

    /// Flips a bit of a value of a victim, where recovery can distinguish it from a torn tail.
    pub(in crate::simulation) fn flip_value(&mut self, victim: usize, value: &ValueRef) {
        let name = format!("{:08x}", log::file_of(value.address));
        let files = self.machines[victim].disk.files();
        let holds = |path: &&PathBuf| path.file_stem().is_some_and(|stem| *stem == *name);
        let Some(path) = files.iter().filter(|path| !path.starts_with(CHECKPOINTS)).find(holds) else {
            return;
        };
        let offset =
            u64::from(log::offset_of(value.address)) + self.workload.range_rng.below(u64::from(value.len));
        let bit = self.workload.range_rng.below(8) as u8;
        if value.len > 0 && offset < self.distinct_bytes(victim, path) {
            self.flip_bit(victim, path, offset, bit);
        }
    }

    /// Length of the beginning of a file in which damage cannot be a torn tail.
    fn distinct_bytes(&self, victim: usize, path: &Path) -> u64 {
        let machine = &self.machines[victim];
        // What a power loss would leave that loses everything that was not synced.
        let durable = machine.disk.inner.crash(&mut |n| u64::from(n == 3));
        match path.extension().is_some_and(|suffix| suffix == "seg") {
            true => records::covered_bytes(&durable, path, machine.salt()),
            false => durable.open(path).and_then(|file| file.length()).unwrap_or(0),
        }
    }

    fn flip_bit(&mut self, victim: usize, path: &Path, offset: u64, bit: u8) {
        let machine = &mut self.machines[victim];
        if machine.disk.inner.flip_bit(path, offset, bit).is_ok() {
            machine.damaged = true;
            self.trace
                .line(self.now_ns, format!("m{victim} bit {bit} at {offset} of {} flips", path.display()));
        }
    }

    /// Flips a bit in the newest segment of a victim's log, in bytes that are durable but not yet covered by a mark.
    ///
    /// Recovery cannot distinguish it from a torn tail and may cut the log there: promises behind it are lost then, and
    /// with them this copy; see `Simulation::has_lost_tail`.
    pub(super) fn flip_tail(&mut self, victim: usize) {
        let machine = &mut self.machines[victim];
        let salt = machine.salt();
        let durable = machine.disk.inner.crash(&mut |n| u64::from(n == 3));
        let Some(tail) = records::uncovered_tail(&durable, &machine.disk.files(), salt) else { return };
        let offset = tail.from + self.disk_rng.below(tail.to - tail.from);
        let bit = self.disk_rng.below(8) as u8;
        if machine.disk.inner.flip_bit(&tail.path, offset, bit).is_ok() {
            machine.damaged = true;
            let position = u64::from(tail.segment) << 32 | offset;
            machine.tail_flip = Some(TailFlip { last_whole: tail.last_index_before(offset), position });
            self.trace.line(
                self.now_ns,
                format!("m{victim} tail bit {bit} at {offset} of {} flips", tail.path.display()),
            );
            // The next write would cover it with a mark, which makes it plain corruption.
            if self.disk_rng.percent(POWER_LOST_PERCENT) {
                self.lose_power_within(victim, 0);
            }
        }
    }
}
