//! Whether a member is at rest: no command was applied for a while. Work that would compete with requests waits for it,
//! and memory that only a load needs is freed.

/// A member is at rest when nothing was applied for so long, in nanoseconds.
const REST_NS: u64 = 2_000_000_000;

/// Distinguishes a member at rest from one that writes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    applied: u64,
    since_ns: u64,
    /// Whether the rest that lasts has been reported by [`begins_rest`](Activity::begins_rest).
    is_resting: bool,
}

impl Activity {
    /// Whether no command has been applied for a while. `applied` is the number of those applied so far.
    pub(crate) fn is_at_rest(&mut self, now_ns: u64, applied: u64) -> bool {
        if applied != self.applied {
            *self = Activity { applied, since_ns: now_ns, is_resting: false };
        }
        now_ns.saturating_sub(self.since_ns) >= REST_NS
    }

    /// The same, but once for each rest.
    pub(crate) fn begins_rest(&mut self, now_ns: u64, applied: u64) -> bool {
        let begins = self.is_at_rest(now_ns, applied) && !self.is_resting;
        self.is_resting |= begins;
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_at_rest_when_nothing_was_applied_for_a_while() {
        let mut activity = Activity::default();
        assert!(!activity.is_at_rest(0, 5));
        assert!(!activity.is_at_rest(REST_NS - 1, 5));
        assert!(activity.is_at_rest(REST_NS, 5));
        assert!(!activity.is_at_rest(REST_NS, 6));
    }

    #[test]
    fn each_rest_begins_once() {
        let mut activity = Activity::default();
        let begun = [(0, 5), (REST_NS, 5), (2 * REST_NS, 5), (2 * REST_NS, 6), (3 * REST_NS, 6)]
            .map(|(now_ns, applied)| activity.begins_rest(now_ns, applied));
        assert_eq!(begun, [false, true, false, false, true]);
    }
}
