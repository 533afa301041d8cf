//! Requests about members: from the caller or a peer to the leader's proposal, and what follows from an applied one.

use consensus::{ConfChange, Entry, ProposeError};

use super::Member;
use crate::callers::CallerKind;
use crate::io::{Answer, MemberFatal, Notice, Now, Output};
use crate::leadership::RoleState;
use crate::maintenance::log_room::Admission;
use crate::membership::applied::{self, Membership};
use crate::membership::command_sets::WITH_MEMBERSHIP;
use crate::membership::health::{self, ClusterHealth};
use crate::membership::queue::WaitingChange;
use crate::membership::request::{MembershipRequest, ProposedChange};
use crate::membership::rules::{self, MembersNow};
use crate::peer_message::PeerMessage;
use crate::proposals::batch::{CommandKind, Origin};
use crate::proposals::growth::RoomUse;

/// Peers that are dialled although the state does not name them, or where it does not: more than a cluster has members.
const MAX_INTRODUCED: usize = 64;

/// What becomes of the next request in the leader's queue.
enum Proposing {
    Proposed,
    Refused(api::Error),
    /// Another change is not applied yet, or there is no room now.
    Waits,
}

impl Member {
    pub(super) fn on_change_members(
        &mut self,
        now: Now,
        token: u64,
        request: MembershipRequest,
        out: &mut Output,
    ) {
        let refusal = if self.reader.command_set() < WITH_MEMBERSHIP {
            Some(api::Error::NotCapable)
        } else if !request.is_within_limits() {
            Some(api::Error::BadMemberUrls)
        } else {
            let origin = self.config.origin();
            let change = WaitingChange { origin, sequence: token, request };
            (!self.membership.queue.push(change)).then_some(api::Error::TooManyRequests)
        };
        match refusal {
            Some(error) => out.answers.push((token, Answer::Failed(error))),
            None => self.register(now, token, CallerKind::Other),
        }
    }

    /// A follower forwards a request of one of its callers.
    pub(super) fn on_membership_request(
        &mut self,
        origin: Origin,
        sequence: u64,
        request: MembershipRequest,
        out: &mut Output,
    ) {
        let change = WaitingChange { origin, sequence, request };
        if !self.leadership.leads() {
            self.refuse_change(&change, None, out);
        } else if !self.membership.queue.push(change.clone()) {
            self.refuse_change(&change, Some(api::Error::TooManyRequests), out);
        }
    }

    /// The peer to which a request was sent has not proposed it, and will not.
    pub(super) fn on_membership_refusal(
        &mut self,
        from: u64,
        sequence: u64,
        error: Option<api::Error>,
        out: &mut Output,
    ) {
        let Some(change) = self.membership.queue.take_refused(from, sequence) else { return };
        match error {
            Some(error) => self.callers.answer(sequence, Answer::Failed(error), out),
            None if self.membership.queue.give_back(from, change) => self.callers.mark_queued(sequence),
            None => self.callers.answer(sequence, Answer::Failed(api::Error::TooManyRequests), out),
        }
        self.refuse_returned(out);
    }

    /// Proposes the next requests (leader), or sends those that wait to the leader (follower).
    pub(super) fn start_membership_changes(&mut self, now: Now, out: &mut Output) {
        let leader = self.leadership.leader;
        match self.leadership.role {
            RoleState::Leader(_) => {
                while self.leadership.is_established()
                    && self.transfer.is_none()
                    && let Some(change) = self.membership.queue.first().cloned()
                {
                    if self.is_of_removed(&change) {
                        self.refuse_change(&change, None, out);
                        self.membership.queue.take_first();
                        continue;
                    }
                    if self.hands_over_first(now, &change.request) && self.hand_over(now) {
                        return;
                    }
                    match self.propose_change(now, &change) {
                        Proposing::Waits => return,
                        Proposing::Proposed => {
                            if change.origin == self.config.origin() {
                                self.callers.mark_sent(change.sequence);
                            }
                            self.hold_commands_of_removed(&change.request);
                        }
                        Proposing::Refused(error) => self.refuse_change(&change, Some(error), out),
                    }
                    self.membership.queue.take_first();
                }
            }
            RoleState::Follower(_) if leader != 0 && self.connected.contains(&leader) => {
                let run = self.config.process_run;
                for WaitingChange { sequence, request, .. } in self.membership.queue.forward_all(leader) {
                    self.callers.mark_sent(sequence);
                    out.send(leader, &PeerMessage::MembershipRequest { run, sequence, request });
                }
            }
            RoleState::Follower(_) => {}
        }
    }

    /// Checks a request and proposes it, if no other change is under way.
    fn propose_change(&mut self, now: Now, change: &WaitingChange) -> Proposing {
        if self.consensus.has_pending_conf_change() {
            return Proposing::Waits;
        }
        let conf = self.consensus.conf_state();
        if let Err(error) = self.check_change(now, &change.request, &conf) {
            return Proposing::Refused(error);
        }
        let WaitingChange { origin, sequence, request } = change.clone();
        let conf_change = rules::conf_change_of(&request, &conf);
        let max_learners = self.config.membership.max_learners;
        let context = ProposedChange { origin, sequence, max_learners, request }.encode();
        let conf_change = ConfChange::single(conf_change, context);
        let lens = std::iter::once(conf_change.encode().len());
        match self.room.admit(lens, RoomUse::Maintains, &mut self.log) {
            Admission::Admitted => {}
            Admission::Waits => return Proposing::Waits,
            Admission::Refused => return Proposing::Refused(api::Error::NoSpace),
        }
        match self.consensus.propose_conf_change(&conf_change) {
            Ok(_) => Proposing::Proposed,
            Err(ProposeError::ConfChange(_)) => Proposing::Refused(api::Error::NotEnoughStartedMembers),
            Err(_) => Proposing::Waits,
        }
    }

    /// Whether the leader proposes a request now.
    pub(super) fn check_change(
        &self,
        now: Now,
        request: &MembershipRequest,
        conf: &consensus::ConfState,
    ) -> Result<(), api::Error> {
        let members = self.reader.members();
        let max_learners = self.config.membership.max_learners;
        let state = MembersNow { members: &members, conf, max_learners };
        rules::check(request, &state, self.reader.was_removed(request.id()))?;
        let own_id = self.config.member_id;
        if let MembershipRequest::Promote { id } = *request {
            health::check_caught_up(id, own_id, &self.consensus.status().peers)?;
        }
        if !self.config.membership.strict {
            return Ok(());
        }
        let election_ns = self.config.election_ns();
        let healthy_since_ns = now.monotonic_ns.saturating_sub(election_ns);
        let up_since_ns = &self.membership.up_since_ns;
        ClusterHealth { own_id, members: &members, up_since_ns, healthy_since_ns }.check(request)
    }

    /// Answers a request that is not proposed: `None` because this member does not lead, or because the one that sent
    /// it was removed and refers its callers to another.
    fn refuse_change(&mut self, change: &WaitingChange, error: Option<api::Error>, out: &mut Output) {
        let WaitingChange { origin: Origin { member, run }, sequence, .. } = *change;
        if member != self.config.member_id {
            return out.send(member, &PeerMessage::MembershipRefusal { run, sequence, error });
        }
        // A request of this process that may still be proposed stays in the queue.
        let error = error.expect("a member does not refuse its own callers for not leading");
        self.callers.answer(sequence, Answer::Failed(error), out);
    }

    /// Requests of peers that wait here when leadership is lost go back to them.
    pub(super) fn return_foreign_changes(&mut self, out: &mut Output) {
        for change in self.membership.queue.take_foreign(self.config.origin()) {
            self.refuse_change(&change, None, out);
        }
    }

    /// The caller of a request got a time-out: it must not be proposed later.
    pub(super) fn expire_change(&mut self, token: u64) {
        self.membership.queue.forget(self.config.origin(), token);
    }

    pub(super) fn apply_conf_change(&mut self, entry: &Entry, out: &mut Output) -> Result<(), MemberFatal> {
        let fatal = |reason: String| MemberFatal::Entry { index: entry.index, reason };
        let decoded = applied::decode(entry).map_err(fatal)?;
        let before = self.reader.members();
        let outcome = applied::apply(&mut self.store, entry, &self.consensus.conf_state(), &decoded);
        if outcome.is_ok() {
            self.consensus.apply_conf_change(&decoded.change).map_err(fatal)?;
            self.checkpoints.applied(1);
            // A commit index is written with the next entry, which may be long in coming. Until it is on the disk, a
            // restart would need the votes of members that this change removed, and that do not start again.
            self.checkpoints.want_now();
            self.part_from_removed(before);
            self.follow_members();
        }
        self.settle_held_commands(out);
        let Some(ProposedChange { origin, sequence, request, .. }) = decoded.proposed else { return Ok(()) };
        out.notices.push(Notice::MembershipRequest { request, outcome });
        if origin == self.config.origin() {
            self.membership.queue.forget(origin, sequence);
            let answer = match outcome {
                Ok(()) => Answer::MembersChanged(self.reader.members()),
                Err(error) => Answer::Failed(error),
            };
            self.callers.answer(sequence, answer, out);
        }
        Ok(())
    }

    /// The members in the store have changed, by an entry or a snapshot: forgets the peers that are none any more. The
    /// end of the step tells the owner.
    pub(super) fn follow_members(&mut self) {
        let members = self.reader.members();
        let listed = |id: u64| members.iter().find(|member| member.id == id);
        let is_listed = |id: u64| listed(id).is_some();
        let is_news =
            |id: u64, urls: &[String]| listed(id).is_none_or(|member| !has_urls(&member.peer_urls, urls));
        self.membership.introduced.retain(|id, urls| is_news(*id, urls) && !self.reader.was_removed(*id));
        let introduced = self.membership.introduced.clone();
        let is_member = |id: u64| is_listed(id) || introduced.contains_key(&id);
        self.connected.retain(|peer| is_member(*peer));
        self.membership.up_since_ns.retain(|peer, _| is_member(*peer));
        self.membership.command_sets.retain(is_member);
        self.state_hashes.retain(is_listed);
        self.membership.is_changed = true;
    }

    /// Tells the owner who belongs to the cluster, if that has changed. Not while a snapshot is installed: consensus
    /// has its configuration before the store has its members.
    pub(super) fn show_membership(&mut self, out: &mut Output) {
        if !self.installing.is_running() && std::mem::take(&mut self.membership.is_changed) {
            let conf_state = self.consensus.conf_state();
            let introduced = self.membership.introduced.clone().into_iter().collect();
            let parting = self.membership.parting_peers();
            let own_id = self.config.member_id;
            let membership = Membership::of(own_id, &self.reader, conf_state, introduced, parting);
            let is_learner = membership.conf_state.learners.contains(&self.config.member_id);
            self.status.set_learner(u64::from(is_learner));
            if membership.is_removed {
                self.begin_leaving(out);
            }
            out.membership = Some(membership);
            // A joiner that has just received the state was connected before it could say who it is.
            self.connected.iter().for_each(|peer| self.introduce(*peer, out));
        }
    }

    pub(super) fn on_peer_announced(&mut self, peer: u64, command_set: u8) {
        self.membership.command_sets.announced(peer, command_set);
    }

    /// Tells a peer where this member listens. The peer may lag so far behind that its state does not name this member,
    /// which may lead now: it could neither be refused nor answer. A cluster whose members never changed needs none.
    pub(super) fn introduce(&self, peer: u64, out: &mut Output) {
        let id = self.config.member_id;
        if !self.reader.members_have_changed() {
            return;
        }
        if let Some(own) = self.reader.members().into_iter().find(|member| member.id == id) {
            out.send(peer, &PeerMessage::Introduction { id, peer_urls: own.peer_urls });
        }
    }

    /// A peer says where it listens. If this member's state does not name it yet, or names other URLs because the peer
    /// was moved while this member was away, it is dialled there all the same.
    pub(super) fn on_introduction(&mut self, from: u64, peer_urls: Vec<String>) {
        let members = self.reader.members();
        let listed = members.iter().find(|member| member.id == from);
        let introduced = &mut self.membership.introduced;
        if listed.is_some_and(|member| has_urls(&member.peer_urls, &peer_urls)) {
            self.membership.is_changed |= introduced.remove(&from).is_some();
            return;
        }
        let has_room = introduced.contains_key(&from) || introduced.len() < MAX_INTRODUCED;
        if !self.reader.was_removed(from) && has_room && introduced.get(&from) != Some(&peer_urls) {
            introduced.insert(from, peer_urls);
            self.membership.is_changed = true;
        }
    }

    pub(super) fn note_peer_up(&mut self, now: Now, peer: u64) {
        self.membership.up_since_ns.insert(peer, now.monotonic_ns);
    }

    pub(super) fn note_peer_down(&mut self, peer: u64) {
        self.membership.up_since_ns.remove(&peer);
    }

    pub(super) fn on_peer_down(&mut self, peer: u64) {
        self.connected.remove(&peer);
        self.state_hashes.forget(peer);
        self.note_peer_down(peer);
        self.take_back_lease_questions();
        self.consensus.report_unreachable(peer);
    }

    /// An established leader records a newer command set, once all members can apply it.
    pub(super) fn tick_command_set(&mut self, now: Now) {
        let recorded = self.reader.command_set();
        let own = (self.config.member_id, self.config.membership.command_set);
        if recorded >= own.1 || !self.leadership.is_established() {
            return;
        }
        let members = self.reader.members();
        let (ids, connected) = (members.iter().map(|member| member.id), &self.connected);
        let time = (now.monotonic_ns, self.config.request_timeout_ns());
        let sets = &mut self.membership.command_sets;
        if let Some(set) = sets.take_newer(time, recorded, own, ids, |peer| connected.contains(&peer)) {
            self.proposals.push_own(CommandKind::CommandSet, vec![set].into());
        }
    }
}

/// Whether the URLs of a peer are these, in any order.
fn has_urls(known: &[String], said: &[String]) -> bool {
    let sorted = |urls: &[String]| {
        let mut urls = urls.to_vec();
        urls.sort_unstable();
        urls
    };
    sorted(known) == sorted(said)
}
