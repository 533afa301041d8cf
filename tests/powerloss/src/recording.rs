//! A recorded run, and how often everything happened in it that it must cover.

use std::fmt;
use std::path::Path;

use crate::ledger::Ledger;
use crate::recorder::DiskOperation;
use crate::setup::SEGMENT_BYTES;

/// A recorded run.
pub struct Recording {
    /// The operations on the disk.
    pub operations: Vec<DiskOperation>,
    /// What the member showed and acknowledged.
    pub ledger: Ledger,
    /// How often the process was killed.
    pub kills: u64,
    /// How often it was stopped gracefully.
    pub stops: u64,
}

impl Recording {
    /// How often everything happened that a recording must cover.
    fn met(&self) -> [(&'static str, usize); 10] {
        let named = |path: &Path, suffix: &str| path.extension().is_some_and(|found| found == suffix);
        let count =
            |is: &dyn Fn(&DiskOperation) -> bool| self.operations.iter().filter(|one| is(one)).count();
        let renamed_to =
            |suffix| count(&|one| matches!(one, DiskOperation::Rename(_, to) if named(to, suffix)));
        let created =
            |suffix| count(&|one| matches!(one, DiskOperation::Create(_, path) if named(path, suffix)));
        let recycled = |one: &DiskOperation| match one {
            DiskOperation::Rename(from, to) => named(from, "seg") && named(to, "new"),
            _ => false,
        };
        let long = |one: &DiskOperation| match one {
            DiskOperation::Allocate(_, length) => *length > SEGMENT_BYTES,
            _ => false,
        };
        let manifest = |one: &DiskOperation| match one {
            DiskOperation::Rename(_, to) => to.ends_with("MANIFEST"),
            _ => false,
        };
        [
            ("segments made", renamed_to("seg")),
            ("segments recycled", count(&recycled)),
            ("segments lengthened for one record", count(&long)),
            ("base checkpoints", created("base")),
            ("delta checkpoints", created("delta")),
            ("manifests", count(&manifest)),
            ("files of relocated values", renamed_to("dat")),
            ("files removed", count(&|one| matches!(one, DiskOperation::Remove(_)))),
            ("kills", self.kills as usize),
            ("stops", self.stops as usize),
        ]
    }

    /// What the recording must cover and does not.
    pub fn unmet(&self) -> Vec<&'static str> {
        self.met().into_iter().filter(|(_, count)| *count == 0).map(|(what, _)| what).collect()
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recording { operations, ledger, .. } = self;
        let (answers, revisions) = (ledger.acknowledgements(), ledger.revisions());
        write!(f, "{} operations, {answers} acknowledgements, {revisions} revisions", operations.len())?;
        self.met().into_iter().try_for_each(|(what, count)| write!(f, ", {what} {count}"))
    }
}
