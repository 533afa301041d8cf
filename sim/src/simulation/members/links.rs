//! Links between members: frames sent and delivered; links dialled and lost.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consensus::MAX_INFLIGHT_MESSAGES;
use member::{Input, Membership, MessageClass};

use crate::checks::limits;
use crate::defects::{Defect, frames};
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine::id_of;

const MS: u64 = 1_000_000;

impl Simulation {
    /// Sends a frame, after it was checked, and as the defect of the run changes it.
    pub(super) fn send(
        &mut self,
        member: usize,
        to: u64,
        class: MessageClass,
        bytes: Bytes,
    ) -> Result<(), Violation> {
        let peer = (to - 1) as usize;
        if let Some(message) = frames::message(&bytes) {
            limits::append(member, &message, &self.checks.queue_limits)?;
            self.checks.log.sent(&message)?;
            if self.plan.changes_permissions {
                self.checks.auth.sent(&message);
            }
            self.checks.promises.sent(member, &message)?;
        }
        match self.defect {
            Some(Defect::ReadIndexWithoutQuorum) => {
                if let Some(answer) = frames::leadership_answer(&bytes) {
                    self.give(member, Input::Frame { from: to, bytes: answer });
                    return Ok(());
                }
            }
            Some(Defect::VotesNotAwaited) => {
                if let Some(grant) = frames::grant(&bytes) {
                    self.give(member, Input::Frame { from: to, bytes: grant });
                }
            }
            Some(Defect::AppendsRepeated) if frames::is_append(&bytes) && self.network.rng.below(20) == 0 => {
                for _ in 0..4 * MAX_INFLIGHT_MESSAGES {
                    self.network.send(self.now_ns, (member, peer), class, bytes.clone(), &mut self.queue);
                }
            }
            Some(Defect::RepairUnanswered) if frames::is_value_answer(&bytes) => return Ok(()),
            Some(Defect::FrameNotChecked) if self.network.rng.below(300) == 0 => {
                let bytes = frames::altered(&bytes).unwrap_or(bytes);
                self.network.send(self.now_ns, (member, peer), class, bytes, &mut self.queue);
                return Ok(());
            }
            _ => {}
        }
        self.network.send(self.now_ns, (member, peer), class, bytes, &mut self.queue);
        let link = self.network.link(member, peer);
        limits::link(member, peer, link.in_flight_bytes(), link.in_flight_appends())
    }

    /// Dials all links from a member that has just started.
    pub(super) fn dial_all(&mut self, member: usize) {
        for peer in (0..self.plan.machines()).filter(|peer| *peer != member) {
            if self.keeps_link(member, peer) {
                self.network.dial_later(self.now_ns, member, peer, &mut self.queue);
            }
        }
    }

    /// Whether a member keeps a connection to a peer: it runs, and knows the peer as a member.
    pub(super) fn keeps_link(&self, member: usize, peer: usize) -> bool {
        let process = self.machines[member].process.as_ref();
        process.is_some_and(|process| process.peers.contains_key(&id_of(peer)))
    }

    /// Whether a peer listens at a URL that a member knows of it.
    pub(super) fn knows_url(&self, member: usize, peer: usize) -> bool {
        if !self.plan.moves_for_good {
            return true;
        }
        let Some(process) = &self.machines[member].process else { return false };
        let known = process.peers.get(&id_of(peer));
        known.is_some_and(|urls| urls.iter().any(|url| self.machines[peer].urls.contains(url)))
    }

    /// The members have changed, as a member sees them: it disconnects those that were removed, and dials new ones.
    pub(super) fn follow_members(&mut self, member: usize, membership: &Membership) {
        let known = membership.members.iter().map(|known| (known.id, known.peer_urls.clone()));
        let mut peers: BTreeMap<u64, Vec<String>> = known.collect();
        for (id, urls) in membership.introduced.iter().chain(&membership.parting) {
            peers.entry(*id).or_default().extend(urls.iter().cloned());
        }
        let ids: BTreeSet<u64> = peers.keys().copied().collect();
        let Some(process) = self.machines[member].process.as_mut() else { return };
        let before: BTreeSet<u64> = std::mem::replace(&mut process.peers, peers).into_keys().collect();
        for peer in before.difference(&ids).filter(|id| **id != id_of(member)).map(|id| (*id - 1) as usize) {
            self.network.disconnect(member, peer);
            self.break_link(peer, member, MS);
            self.give(member, Input::PeerDown(id_of(peer)));
        }
        for peer in ids.difference(&before).filter(|id| **id != id_of(member)).map(|id| (*id - 1) as usize) {
            self.network.dial_later(self.now_ns, member, peer, &mut self.queue);
        }
    }

    /// A link is dialled.
    pub(in crate::simulation) fn dial(&mut self, from: usize, to: usize, epoch: u64) {
        if self.network.link(from, to).epoch != epoch || !self.keeps_link(from, to) {
            return;
        }
        let cut = self.network.link(from, to).cuts + self.network.link(to, from).cuts > 0;
        let is_reached = self.knows_url(from, to);
        if !cut
            && is_reached
            && self.machines[to]
                .process
                .as_ref()
                .is_some_and(|peer| peer.opened.reader.was_removed(id_of(from)))
        {
            self.is_told_of_removal(from);
        }
        if !cut && self.machines[to].has_power && !(self.machines[to].is_up() && is_reached) {
            self.coverage.event("dials that a machine refuses");
            self.give(from, Input::PeerNotListening(id_of(to)));
        }
        let answers =
            self.machines[to].is_up() && is_reached && self.accepts(to, from) && self.accepts(from, to);
        if cut || !answers {
            self.network.dial_later(self.now_ns, from, to, &mut self.queue);
            return;
        }
        self.network.connect(from, to);
        self.trace.mix(&[4, self.now_ns, from as u64, to as u64]);
        if !self.connects_apart(from, to) {
            self.give(from, Input::PeerUp(id_of(to)));
        }
        self.deliver_again((from, to), None);
    }

    /// After a reconnect, of one stream or of both, consensus messages may arrive a second time. Forwarded commands
    /// must not.
    pub(super) fn deliver_again(&mut self, (from, to): (usize, usize), only: Option<MessageClass>) {
        let is_meant = |class: MessageClass| only.is_none_or(|only| only as usize == class as usize);
        let again: Vec<(MessageClass, Bytes)> = if self.network.rng.percent(20) {
            let recent = self.network.link(from, to).recent.iter();
            recent.filter(|(class, _)| is_meant(*class)).cloned().collect()
        } else {
            Vec::new()
        };
        let forwards = self.defect == Some(Defect::ForwardedTwice);
        for (class, bytes) in again {
            self.coverage.event("frames seen twice");
            self.network.send(self.now_ns, (from, to), class, bytes, &mut self.queue);
        }
        if let Some(bytes) = self.network.link(from, to).forwarded.take().filter(|_| forwards) {
            self.network.send(self.now_ns, (from, to), MessageClass::Bulk, bytes, &mut self.queue);
        }
    }

    /// Whether a member accepts the directory of a peer.
    fn accepts(&self, member: usize, peer: usize) -> bool {
        let Some(process) = &self.machines[member].process else { return false };
        let members = process.opened.reader.members();
        // One that it does not know may have been added while it was away.
        let bound = members.iter().find(|known| known.id == id_of(peer)).map_or(0, |known| known.incarnation);
        if process.opened.reader.was_removed(id_of(peer)) {
            return false;
        }
        bound == 0
            || bound == self.machines[peer].incarnation
            || self.defect == Some(Defect::WipedMemberVotes)
    }

    /// The sender notices that a link is gone.
    pub(in crate::simulation) fn link_lost(&mut self, from: usize, to: usize, epoch: u64) {
        let link = self.network.link(from, to);
        if link.epoch != epoch || !link.up || (link.alive && link.cuts == 0) {
            return;
        }
        let was_whole = link.is_whole();
        self.network.disconnect(from, to);
        if self.machines[from].is_up() {
            if was_whole {
                self.give(from, Input::PeerDown(id_of(to)));
            }
            if self.defect == Some(Defect::LinkNotRedialled) || !self.keeps_link(from, to) {
                return;
            }
            self.network.dial_later(self.now_ns, from, to, &mut self.queue);
        }
    }

    /// Breaks a link; the sender notices within `noticed_ns`.
    pub(in crate::simulation) fn break_link(&mut self, from: usize, to: usize, noticed_ns: u64) {
        let noticed_ns = self.now_ns + self.network.rng.below(noticed_ns);
        self.network.sever(noticed_ns, from, to, &mut self.queue);
    }

    /// A member disconnects a peer: both links break.
    pub(super) fn disconnect(&mut self, member: usize, peer: usize) {
        self.break_link(member, peer, MS);
        self.break_link(peer, member, MS);
    }

    /// A frame arrives.
    pub(in crate::simulation) fn deliver(
        &mut self,
        (from, to): (usize, usize),
        epoch: u64,
        class: MessageClass,
        bytes: Bytes,
    ) -> Result<(), Violation> {
        let link = self.network.link(from, to);
        if link.epoch_of(class) != epoch || !self.machines[to].is_up() {
            return Ok(());
        }
        link.delivered(class, &bytes);
        if frames::is_forward(&bytes) {
            link.forwarded = Some(bytes.clone());
            self.coverage.event("forwards");
        }
        self.trace.mix(&[5, self.now_ns, from as u64, to as u64, bytes.len() as u64, class as u64]);
        if self.defect == Some(Defect::AcceptedOnArrival)
            && let Some(accepted) = frames::acceptance(&bytes)
        {
            self.checks.promises.sent(to, &accepted)?;
            let bytes = frames::frame_of(&accepted);
            self.network.send(self.now_ns, (to, from), MessageClass::Bulk, bytes, &mut self.queue);
        }
        self.give(to, Input::Frame { from: id_of(from), bytes });
        Ok(())
    }
}
