//! Bits that flip on a victim's disk.

use std::path::{Path, PathBuf};

use log::Disk;
use store::ValueRef;

use crate::cluster::{Cluster, salt};
use crate::defects::records;
use crate::process::TailFlip;

/// Where files with values are not.
const CHECKPOINTS: &str = "/data/member/checkpoint";

/// Of a hundred flips at the end of a log, so many come with the loss of power.
const POWER_LOST_PERCENT: u64 = 80;

impl Cluster {
    /// Flips a bit somewhere in what a victim has on its disk, where it can be told from a torn tail: below
    /// a durable
    /// mark of the active segment, or anywhere in what is complete.
    pub(super) fn flip(&mut self, victim: usize) {
        let files = self.machines[victim].disk.files();
        let Some(path) = files.get(self.disk_rng.below(files.len() as u64) as usize) else { return };
        let bytes = self.told_from_torn(victim, path);
        if bytes == 0 {
            return;
        }
        let offset = self.disk_rng.below(bytes);
        let bit = self.disk_rng.below(8) as u8;
        self.flip_bit(victim, path, offset, bit);
    }

    /// Flips a bit of a value on a victim's disk, where it can be told from a torn tail.
    pub(crate) fn flip_value(&mut self, victim: usize, value: &ValueRef) {
        let name = format!("{:08x}", log::file_of(value.address));
        let files = self.machines[victim].disk.files();
        let holds = |path: &&PathBuf| path.file_stem().is_some_and(|stem| *stem == *name);
        let Some(path) = files.iter().filter(|path| !path.starts_with(CHECKPOINTS)).find(holds) else {
            return;
        };
        let offset = u64::from(log::offset_of(value.address)) + self.list_rng.below(u64::from(value.len));
        let bit = self.list_rng.below(8) as u8;
        if value.len > 0 && offset < self.told_from_torn(victim, path) {
            self.flip_bit(victim, path, offset, bit);
        }
    }

    /// Bytes of a file, from its beginning, where damage cannot be a torn tail.
    fn told_from_torn(&self, victim: usize, path: &Path) -> u64 {
        let machine = &self.machines[victim];
        // As a power loss that loses everything would leave it.
        let durable = machine.disk.inner.crash(&mut |n| u64::from(n == 3));
        match path.extension().is_some_and(|suffix| suffix == "seg") {
            true => records::covered_bytes(&durable, path, salt(machine.incarnation)),
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

    /// Flips a bit in the newest segment of a victim's log, in what is durable but not yet covered by a mark: nobody
    /// can tell it from a torn tail, so a restart may cut it off there. What was promised behind it is lost then, and
    /// with it this member's copy; see `Cluster::tail_is_lost`.
    pub(super) fn flip_tail(&mut self, victim: usize) {
        let machine = &mut self.machines[victim];
        let salt = salt(machine.incarnation);
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
            // With the next write it would be covered, and be plain corruption: as a rule power is lost before.
            if self.disk_rng.percent(POWER_LOST_PERCENT) {
                self.lose_power_within(victim, 0);
            }
        }
    }
}
