//! Whether a member is idle: no command was applied for a while. Work that would compete with requests waits for it,
//! and memory that only a load needs is freed.

/// A member is idle when nothing was applied for so long, in nanoseconds.
const IDLE_NS: u64 = 2_000_000_000;

/// Distinguishes an idle member from one that writes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    applied: u64,
    since_ns: u64,
    /// Whether [`becomes_idle`](Activity::becomes_idle) has reported it.
    is_reported: bool,
}

impl Activity {
    /// Whether no command has been applied for a while. `applied` is the number of those applied so far.
    pub(crate) fn is_idle(&mut self, now_ns: u64, applied: u64) -> bool {
        if applied != self.applied {
            *self = Activity { applied, since_ns: now_ns, is_reported: false };
        }
        now_ns.saturating_sub(self.since_ns) >= IDLE_NS
    }

    /// The same, but once each time that the member becomes idle.
    pub(crate) fn becomes_idle(&mut self, now_ns: u64, applied: u64) -> bool {
        let becomes_idle = self.is_idle(now_ns, applied) && !self.is_reported;
        self.is_reported |= becomes_idle;
        becomes_idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_idle_when_nothing_was_applied_for_a_while() {
        let mut activity = Activity::default();
        assert!(!activity.is_idle(0, 5));
        assert!(!activity.is_idle(IDLE_NS - 1, 5));
        assert!(activity.is_idle(IDLE_NS, 5));
        assert!(!activity.is_idle(IDLE_NS, 6));
    }

    #[test]
    fn a_member_becomes_idle_once() {
        let mut activity = Activity::default();
        let reported = [(0, 5), (IDLE_NS, 5), (2 * IDLE_NS, 5), (2 * IDLE_NS, 6), (3 * IDLE_NS, 6)]
            .map(|(now_ns, applied)| activity.becomes_idle(now_ns, applied));
        assert_eq!(reported, [false, true, false, false, true]);
    }
}
