//! A batch that is decoded and being applied.

use store::Outcome;

use crate::proposals::batch::LogCommand;

/// One logged command and the number of store commands it decodes to: one, or several for an expiry of many leases.
#[derive(Debug)]
pub(crate) struct DecodedCommand {
    pub(super) command: LogCommand,
    pub(super) store_commands: usize,
}

/// The batch that the store is applying.
#[derive(Debug)]
pub(crate) struct BatchBeingApplied {
    pub(super) decoded: Vec<DecodedCommand>,
    /// Whether its events are made.
    pub(crate) is_watched: bool,
}

impl BatchBeingApplied {
    /// Number of commands.
    pub(crate) fn len(&self) -> u64 {
        self.decoded.len() as u64
    }

    /// Each command with its outcome, given those of the store.
    pub(crate) fn outcomes(self, all: Vec<Outcome>) -> impl Iterator<Item = (LogCommand, Outcome)> {
        let mut outcomes = all.into_iter();
        self.decoded.into_iter().filter_map(move |DecodedCommand { command, store_commands }| {
            outcomes.by_ref().take(store_commands).last().map(|outcome| (command, outcome))
        })
    }
}
