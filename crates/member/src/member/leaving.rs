//! What a member does before and after its own removal from the cluster.
//!
//! *Before.* A leader that is asked to remove itself transfers its leadership first. The request waits in the queue
//! meanwhile and is forwarded to the new leader, so the cluster is never without one.
//!
//! *After.* A member that has applied its own removal does not stop at once. The others may not know yet that the
//! removal is committed, and then they need the votes of a quorum of the members before it:
//!
//! ```text
//! members 1 and 2, leader 1; 2 is removed     entry 40, which both have
//! 1 commits and applies 40, and tells 2       2 has applied its removal
//! 1 is killed and starts again                its last commit index was not on the disk yet: it is one of two voters
//! 1 asks for votes                            2 must still be there: it grants its vote and acknowledges entry 41
//! 1 commits 40 and 41                         now 1 is alone, and refuses 2
//! ```
//!
//! So it goes on to answer for [`LEAVING_TIMEOUTS`] election timeouts, or until the others refuse it.

use super::Member;
use crate::io::{Now, Output};
use crate::membership::request::MembershipRequest;

/// Election timeouts for which a removed member stays. The others notice after up to two that nothing leads, and have
/// the third to elect a leader and to commit.
const LEAVING_TIMEOUTS: u32 = 3;

impl Member {
    /// Whether this leader transfers its leadership before it proposes a request: its own removal. Once in a term.
    pub(super) fn hands_over_first(&self, now: Now, request: &MembershipRequest) -> bool {
        let is_own = *request == MembershipRequest::Remove { id: self.config.member_id };
        is_own
            && self.membership.handed_over_in != self.leadership.term
            && !self.consensus.has_pending_conf_change()
            && self.check_change(now, request, &self.consensus.conf_state()).is_ok()
    }

    /// Transfers leadership to the connected voter with the longest log. Returns whether there is one.
    pub(super) fn hand_over(&mut self, now: Now) -> bool {
        self.membership.handed_over_in = self.leadership.term;
        let connected = &self.connected;
        let target = self.consensus.transfer_target(|peer| connected.contains(&peer));
        let begins = target.is_some_and(|target| self.consensus.transfer_leader(target).is_ok());
        if begins {
            self.note_transfer(now, None);
        }
        begins
    }

    /// The removal of this member is applied.
    pub(super) fn begin_leaving(&mut self) {
        self.membership.leaving_ticks.get_or_insert(LEAVING_TIMEOUTS * self.config.election_ticks);
    }

    /// A tick passed: a removed member stops when it has stayed long enough. The last checkpoint says that it was
    /// removed, also at the next start.
    pub(super) fn tick_leaving(&mut self, out: &mut Output) {
        let Some(ticks) = &mut self.membership.leaving_ticks else { return };
        *ticks = ticks.saturating_sub(1);
        if *ticks == 0 && !self.is_stopping {
            self.on_stop(out);
        }
    }
}
