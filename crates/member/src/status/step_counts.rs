//! What a step has done, as numbers for metrics. Nothing is decided by them.
//!
//! The owner of the member knows how long a step took, and the member what was done in it. So the step's numbers leave
//! with its [`Output`](crate::Output), and the owner adds the time.

use crate::own_syncs::OwnSync;
use crate::proposals::batch::CommandKind;

/// One more than there are kinds of commands, whose numbers begin at 1.
const KINDS: usize = CommandKind::ALL.len() + 1;

/// A batch that was proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposedBatch {
    /// Its commands.
    pub commands: usize,
    /// The bytes of its entry.
    pub bytes: usize,
    /// Nanoseconds since the first of them could have left.
    pub delay_ns: u64,
}

/// A caller that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedCaller {
    /// The token of its answer.
    pub token: u64,
    /// Since when it waited, on the member's clock.
    pub since_ns: u64,
    /// When this member's own log had its command on disk; of anything but a command that was applied, unknown.
    pub own_sync: OwnSync,
}

/// What a step has done.
#[derive(Debug, Default)]
pub struct StepCounts {
    /// Batches proposed.
    pub proposed: Vec<ProposedBatch>,
    /// TTLs of leases granted, in seconds.
    pub granted_ttls_s: Vec<i64>,
    /// Leases revoked or expired.
    pub leases_revoked: u64,
    /// Keys that applying has changed or read.
    pub keys_applied: usize,
    /// A batch has begun to be applied and goes on in a later step.
    pub apply_goes_on: bool,
    /// Nanoseconds that purging a compaction took from its first to its last step, if that was in this one.
    pub purged_ns: Option<u64>,
    /// The callers that were answered after they had waited. In the order of their answers, without those that were
    /// answered at once.
    pub waited: Vec<WaitedCaller>,
    /// By kind: commands that failed, and that succeeded.
    applied: [[u64; 2]; KINDS],
    total: u64,
}

impl StepCounts {
    /// A command was applied.
    pub(crate) fn command_applied(&mut self, kind: CommandKind, succeeded: bool) {
        self.applied[kind as usize][usize::from(succeeded)] += 1;
        self.total += 1;
    }

    /// Commands applied.
    pub fn commands(&self) -> u64 {
        self.total
    }

    /// Commands applied, by kind and by whether they succeeded; without zeros.
    pub fn applied(&self) -> impl Iterator<Item = (CommandKind, bool, u64)> {
        let counts = CommandKind::ALL.into_iter().flat_map(|kind| {
            let [failed, succeeded] = self.applied[kind as usize];
            [(kind, false, failed), (kind, true, succeeded)]
        });
        counts.filter(|(.., count)| *count > 0)
    }

    /// Begins the next step. Keeps the room of the lists.
    pub fn clear(&mut self) {
        let StepCounts { proposed, granted_ttls_s, waited, .. } = self;
        proposed.clear();
        granted_ttls_s.clear();
        waited.clear();
        let (proposed, granted_ttls_s) = (std::mem::take(proposed), std::mem::take(granted_ttls_s));
        let waited = std::mem::take(waited);
        *self = StepCounts { proposed, granted_ttls_s, waited, ..StepCounts::default() };
    }
}

#[cfg(test)]
mod tests {
    //! Sums, and what remains for the next step.
    use super::*;

    #[test]
    fn commands_are_counted_by_kind_and_outcome() {
        let mut counts = StepCounts::default();
        counts.command_applied(CommandKind::Put, true);
        counts.command_applied(CommandKind::Put, true);
        counts.command_applied(CommandKind::DowngradeInfo, false);
        let expected = [(CommandKind::Put, true, 2), (CommandKind::DowngradeInfo, false, 1)];
        assert_eq!((counts.applied().collect::<Vec<_>>(), counts.commands()), (expected.to_vec(), 3));
        counts.clear();
        assert_eq!((counts.applied().count(), counts.commands()), (0, 0));
    }
}
