//! What a member does before and after its own removal from the cluster, and what the others do for it.
//!
//! *Before.* A leader that is asked to remove itself transfers its leadership first. The request waits in the queue
//! meanwhile and is forwarded to the new leader, so the cluster is never without one.
//!
//! *Callers.* No caller of the removed member fails if it can be helped. Those for whom nothing was done are answered
//! [`api::Error::NotTaken`], upon which they ask another member. What the member forwarded is proposed before its
//! removal, or not at all, and it learns which:
//!
//! ```text
//! 3 forwards puts 1 and 2          leader 1: entry 39 has puts 1 and 2
//!                                  leader 1 proposes the removal of 3 as entry 40, and sets aside what 3 forwards
//! 3 forwards put 3                 leader 1: put 3 stands aside
//! 3 applies 39                     puts 1 and 2 are answered
//! 3 applies 40                     it is removed: new requests, and what waits in its queue, are not taken
//!                                  leader 1 applies 40, refuses put 3, and keeps the streams to 3 for a while
//! 3 receives the refusal           put 3 is not taken
//! ```
//!
//! The same holds for requests about members: those of a removed member that wait in the leader's queue are refused.
//!
//! A leader that is elected while the removal is not applied looks for it in its log and does the same, until it has
//! applied an entry of its own term. A leader treats its own callers like those of others when it removes itself.
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

use std::collections::BTreeSet;

use store::ClusterMember;

use super::Member;
use super::frames::return_commands;
use crate::io::{Answer, Input, Now, Output};
use crate::membership::applied;
use crate::membership::queue::WaitingChange;
use crate::membership::request::MembershipRequest;
use crate::proposals::batch::LogCommand;

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

    /// A leader that stays behind answers no client, and stops proposing once too much waits to be applied. Another
    /// member may have the value, or not compare it any more. Which ones cannot be seen, so each is tried; and if all
    /// lack the value, leadership must not go round faster than once in an election timeout.
    pub(super) fn hand_over_if_behind(&mut self, now: Now) {
        let (now_ns, election_ns) = (now.monotonic_ns, self.config.election_ns());
        let (term, since_ns) = (self.leadership.term, self.leadership.since_ns);
        let is_waiting = self.transfer.is_some() || !self.value_repairs.leaves_apply_behind();
        let Some(leader) = self.leadership.as_leader_mut() else { return };
        if is_waiting || now_ns < leader.next_hand_over_ns.max(since_ns + election_ns) {
            return;
        }
        leader.next_hand_over_ns = now_ns + election_ns;
        leader.hand_overs += 1;
        let number = term + leader.hand_overs;
        let voters = self.consensus.conf_state().voters;
        let others: Vec<u64> = voters.into_iter().filter(|voter| self.connected.contains(voter)).collect();
        if !others.is_empty() {
            let chosen = others[(number % others.len() as u64) as usize];
            let target = self.consensus.transfer_target(|peer| peer == chosen);
            self.transfer_to(now, target);
        }
    }

    /// Transfers leadership to the connected voter with the longest log. Returns whether there is one.
    pub(super) fn hand_over(&mut self, now: Now) -> bool {
        self.membership.handed_over_in = self.leadership.term;
        let connected = &self.connected;
        let target = self.consensus.transfer_target(|peer| connected.contains(&peer));
        self.transfer_to(now, target)
    }

    /// Transfers leadership to the target, if there is one. Returns whether that has begun.
    fn transfer_to(&mut self, now: Now, target: Option<u64>) -> bool {
        let begins = target.is_some_and(|target| self.consensus.transfer_leader(target).is_ok());
        if begins {
            self.note_transfer(now, None);
        }
        begins
    }

    /// The leader has proposed a change. If it removes a member, what the callers of that one ask for is not proposed
    /// behind it.
    pub(super) fn hold_commands_of_removed(&mut self, request: &MembershipRequest) {
        if let MembershipRequest::Remove { id } = *request {
            self.proposals.set_aside(BTreeSet::from([id]));
        }
    }

    /// Whether a request comes from another member that was removed meanwhile. That one would not learn of an entry
    /// behind its removal: its caller would wait for the time-out.
    pub(super) fn is_of_removed(&self, change: &WaitingChange) -> bool {
        let member = change.origin.member;
        member != self.config.member_id && self.reader.was_removed(member)
    }

    /// This member begins to lead: the same for the removals that are in its log and not applied yet.
    pub(super) fn hold_commands_by_log(&mut self) {
        let removed = |entry: &consensus::Entry| match applied::decode(entry).ok()?.proposed?.request {
            MembershipRequest::Remove { id } => Some(id),
            _ => None,
        };
        let removed: BTreeSet<u64> =
            self.consensus.unapplied_conf_changes().iter().filter_map(removed).collect();
        // What stood aside in an earlier term of this leader waits like any other command.
        let aside = self.proposals.take_aside();
        self.proposals.give_back(aside);
        if !removed.is_empty() {
            self.proposals.set_aside(removed);
        }
    }

    /// A change was applied, or the first entry of this leader's term: what stood aside is refused if its member was
    /// removed, or goes on. Before that entry there may be other removals that are not applied.
    pub(super) fn settle_held_commands(&mut self, out: &mut Output) {
        if self.leadership.leads() && !self.leadership.is_established() {
            return;
        }
        let own_id = self.config.member_id;
        let is_refused = |command: &LogCommand| {
            let member = command.origin.member;
            member != own_id && self.reader.was_removed(member)
        };
        let (refused, others) = self.proposals.take_aside().into_iter().partition(is_refused);
        return_commands(refused, out);
        // Callers of this member, if it was removed itself, are answered when it begins to leave.
        self.proposals.give_back(others);
    }

    /// The streams to a peer that was removed, which was among the members `before`, stay for an election timeout: it
    /// hears what was committed, and what becomes of its commands. It has no vote any more.
    pub(super) fn part_from_removed(&mut self, before: Vec<ClusterMember>) {
        let own_id = self.config.member_id;
        for gone in before {
            if gone.id != own_id && self.reader.was_removed(gone.id) {
                self.membership.parting.insert(gone.id, (gone.peer_urls, self.config.election_ticks));
            }
        }
    }

    /// The removal of this member is applied.
    pub(super) fn begin_leaving(&mut self, out: &mut Output) {
        if self.membership.leaving_ticks.is_none() {
            self.membership.leaving_ticks = Some(LEAVING_TIMEOUTS * self.config.election_ticks);
            self.refuse_untaken(out);
        }
    }

    /// Whether requests are left to other members: this one was removed, or stops.
    fn is_leaving(&self) -> bool {
        self.membership.leaving_ticks.is_some() || self.is_stopping
    }

    /// Returns the input, unless it is a request that is not taken any more.
    pub(super) fn take_unless_leaving(&self, input: Input, out: &mut Output) -> Option<Input> {
        match input.request_token().filter(|_| self.is_leaving()) {
            None => Some(input),
            Some(token) => {
                out.answers.push((token, Answer::Failed(api::Error::NotTaken)));
                None
            }
        }
    }

    /// A peer has given requests back: they wait for another leader, unless this member leaves.
    pub(super) fn refuse_returned(&mut self, out: &mut Output) {
        if self.is_leaving() {
            self.refuse_untaken(out);
        }
    }

    /// Answers the callers for whom nothing was done yet. Their requests are forgotten.
    pub(super) fn refuse_untaken(&mut self, out: &mut Output) {
        let tokens = self.callers.take_untaken();
        for token in &tokens {
            self.expire_change(*token);
            if let Some(follower) = self.leadership.as_follower_mut() {
                follower.lease_questions.take(*token);
            }
            out.answers.push((*token, Answer::Failed(api::Error::NotTaken)));
        }
        self.proposals.expire_queued(&tokens);
        self.forget_expired_waiters();
    }

    /// A tick passed: a removed member stops when it has stayed long enough. The last checkpoint says that it was
    /// removed, also at the next start. The streams to removed peers end.
    pub(super) fn tick_leaving(&mut self, out: &mut Output) {
        let parting = &mut self.membership.parting;
        let count = parting.len();
        parting.retain(|_, (_, ticks)| {
            *ticks = ticks.saturating_sub(1);
            *ticks > 0
        });
        self.membership.is_changed |= parting.len() < count;
        let Some(ticks) = &mut self.membership.leaving_ticks else { return };
        *ticks = ticks.saturating_sub(1);
        if *ticks == 0 && !self.is_stopping {
            self.on_stop(out);
        }
    }
}
