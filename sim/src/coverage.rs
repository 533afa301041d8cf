//! Which fault met which operation, how often. A pair that never happened has not been tested, so it is a
//! failure of
//! the simulation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A fault that struck so often should have met everything; one that is rare by nature (a directory is lost once a run)
/// is given the time of a longer campaign.
const STRUCK_OFTEN: u64 = 150;

/// Something that was under way on a member when a fault struck it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A command of a client.
    Write,
    /// A linearizable read.
    Read,
    /// A lease renewal.
    KeepAlive,
    /// An open watch.
    Watch,
    /// A write of the log that is not synced yet.
    LogWrite,
    /// Files of the log being prepared or removed.
    Upkeep,
    /// A checkpoint being written.
    Checkpoint,
    /// A snapshot on its way here or from here.
    Snapshot,
    /// No leader is known.
    Election,
}

impl Operation {
    /// All of them.
    pub(crate) const ALL: [Operation; 9] = [
        Operation::Write,
        Operation::Read,
        Operation::KeepAlive,
        Operation::Watch,
        Operation::LogWrite,
        Operation::Upkeep,
        Operation::Checkpoint,
        Operation::Snapshot,
        Operation::Election,
    ];
}

/// Counts of faults, of events, and of the pairs of faults and operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    faults: BTreeMap<&'static str, u64>,
    events: BTreeMap<&'static str, u64>,
    met: BTreeMap<(&'static str, Operation), u64>,
}

impl Coverage {
    /// A fault struck a member on which these operations were under way.
    pub(crate) fn fault(&mut self, fault: &'static str, under_way: &[Operation]) {
        *self.faults.entry(fault).or_default() += 1;
        for operation in under_way {
            *self.met.entry((fault, *operation)).or_default() += 1;
        }
    }

    /// Something happened that is worth counting.
    pub(crate) fn event(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// How often something happened.
    pub(crate) fn count(&self, event: &'static str) -> u64 {
        self.events.get(event).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Coverage) {
        other.faults.iter().for_each(|(fault, count)| *self.faults.entry(fault).or_default() += count);
        other.events.iter().for_each(|(event, count)| *self.events.entry(event).or_default() += count);
        other.met.iter().for_each(|(pair, count)| *self.met.entry(*pair).or_default() += count);
    }

    /// The pairs of `faults` and operations, but for the `impossible` ones, and the `events` that never
    /// happened.
    pub(crate) fn missing(
        &self,
        faults: &[&'static str],
        events: &[&'static str],
        impossible: &[(&str, Operation)],
    ) -> Vec<String> {
        let pairs = faults.iter().flat_map(|fault| Operation::ALL.map(|operation| (*fault, operation)));
        let often = |fault: &str| self.faults.get(fault).is_some_and(|struck| *struck >= STRUCK_OFTEN);
        let pairs = pairs.filter(|pair| often(pair.0) || !self.faults.contains_key(pair.0));
        let pairs = pairs.filter(|pair| !self.met.contains_key(pair) && !impossible.contains(pair));
        let events = events.iter().filter(|event| self.count(event) == 0);
        pairs
            .map(|(fault, operation)| format!("{fault} never met {operation:?}"))
            .chain(events.map(|event| format!("{event} never happened")))
            .collect()
    }

    /// Faults by kind on one line.
    pub(crate) fn faults_line(&self) -> String {
        let all = self.faults.iter().map(|(fault, count)| format!("{fault} {count}"));
        all.collect::<Vec<_>>().join(", ")
    }

    /// The whole table.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<18}{:>9}", "fault", "struck");
        Operation::ALL.iter().for_each(|operation| {
            let _ = write!(text, "{:>11}", format!("{operation:?}"));
        });
        for (fault, count) in &self.faults {
            let _ = write!(text, "\n{fault:<18}{count:>9}");
            for operation in Operation::ALL {
                let _ = write!(text, "{:>11}", self.met.get(&(*fault, operation)).copied().unwrap_or(0));
            }
        }
        text.push('\n');
        for (event, count) in &self.events {
            let _ = write!(text, "\n{event:<34}{count:>9}");
        }
        text
    }
}
