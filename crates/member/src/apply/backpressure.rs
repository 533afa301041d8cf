//! Which entries a follower takes while too much waits to be applied.
//!
//! None, if the cluster commits without it: to the leader they are lost, so it sends them again. If the follower lags
//! so far that they have gone from the leader's log, it gets a snapshot. But a quorum may need this follower, because
//! another voter is down. Then nothing is committed behind the end of its log, however long it refuses; so it takes
//! entries again, and memory is bounded by the memory limit alone.
//!
//! ```text
//! its log ends at 90, too much waits:  append 91.. with commit 95 -> lost: 95 was committed without it
//!                                      append 91.. with commit 90 -> lost; is it needed?
//! two heartbeats later:                append 91.. with commit 90 -> it is: taken, and what comes in a second
//! ```

/// What a follower has refused.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    /// The end of the log at which entries were first refused that the leader had not committed, and when.
    refused: Option<(u64, u64)>,
    /// A quorum needs this follower, until then.
    needed_until_ns: u64,
}

impl Backpressure {
    /// Whether a follower whose log ends at `last` takes entries of a leader that has committed up to `commit`.
    /// `heartbeat_ns` is the time between two heartbeats, `election_ns` an election timeout.
    pub(crate) fn takes(
        &mut self,
        now_ns: u64,
        (last, commit): (u64, u64),
        (heartbeat_ns, election_ns): (u64, u64),
    ) -> bool {
        if commit > last {
            *self = Backpressure::default();
            return false;
        }
        if now_ns < self.needed_until_ns {
            return true;
        }
        let since_ns = self.refused.filter(|(at, _)| *at == last).map_or(now_ns, |(_, since_ns)| since_ns);
        self.refused = Some((last, since_ns));
        let is_needed = now_ns - since_ns >= 2 * heartbeat_ns;
        if is_needed {
            *self = Backpressure { refused: None, needed_until_ns: now_ns + election_ns };
        }
        is_needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (u64, u64) = (10, 100);

    #[test]
    fn what_is_committed_without_it_is_refused() {
        let mut follower = Backpressure::default();
        for now_ns in [0, 20, 40, 1_000] {
            assert!(!follower.takes(now_ns, (90, 91), TIMES));
        }
    }

    #[test]
    fn a_quorum_that_needs_it_gets_it_for_an_election_timeout() {
        let mut follower = Backpressure::default();
        let taken = [(0, 90), (19, 90), (20, 90), (21, 91), (119, 150), (120, 150), (139, 150), (140, 150)]
            .map(|(now_ns, last)| follower.takes(now_ns, (last, last), TIMES));
        assert_eq!(taken, [false, false, true, true, true, false, false, true]);
    }

    #[test]
    fn it_is_not_needed_any_more_once_others_commit() {
        let mut follower = Backpressure::default();
        assert!(!follower.takes(0, (90, 90), TIMES) && follower.takes(20, (90, 90), TIMES));
        assert!(!follower.takes(21, (91, 92), TIMES));
        assert!(!follower.takes(22, (91, 91), TIMES), "it is found out again");
    }
}
