//! Links between members: dialled, broken, delivering.

use bytes::Bytes;
use member::{Input, MessageClass};

use super::Cluster;
use crate::defects::{Defect, frames};
use crate::process::id_of;
use crate::report::Violation;

const MS: u64 = 1_000_000;

impl Cluster {
    /// Dials all links from and to a member that has just started.
    pub(super) fn dial_all(&mut self, member: usize) {
        for peer in (0..self.plan.members).filter(|peer| *peer != member) {
            self.network.dial_later(self.now_ns, member, peer, &mut self.queue);
        }
    }

    pub(super) fn dial(&mut self, from: usize, to: usize, epoch: u64) {
        if self.network.link(from, to).epoch != epoch || !self.machines[from].is_up() {
            return;
        }
        let cut = self.network.link(from, to).cuts + self.network.link(to, from).cuts > 0;
        let answers = self.machines[to].is_up() && self.accepts(to, from) && self.accepts(from, to);
        if cut || !answers {
            self.network.dial_later(self.now_ns, from, to, &mut self.queue);
            return;
        }
        self.network.connected(from, to);
        self.trace.mix(&[4, self.now_ns, from as u64, to as u64]);
        self.feed(from, Input::PeerUp(id_of(to)));
        self.resend(from, to);
    }

    /// Consensus takes what it has already seen; a forwarded command must never come twice.
    fn resend(&mut self, from: usize, to: usize) {
        let again: Vec<(MessageClass, Bytes)> = if self.network.rng.percent(20) {
            self.network.link(from, to).recent.iter().cloned().collect()
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

    /// Whether a member takes part with the directory that another one speaks from.
    fn accepts(&self, member: usize, peer: usize) -> bool {
        let Some(process) = &self.machines[member].process else { return false };
        let members = process.opened.reader.members();
        let bound = members.iter().find(|known| known.id == id_of(peer)).map_or(0, |known| known.incarnation);
        bound == 0
            || bound == self.machines[peer].incarnation
            || self.defect == Some(Defect::WipedMemberVotes)
    }

    /// The sender notices that a link is gone.
    pub(super) fn broken(&mut self, from: usize, to: usize, epoch: u64) {
        let link = self.network.link(from, to);
        if link.epoch != epoch || !link.up || (link.alive && link.cuts == 0) {
            return;
        }
        self.network.lose(from, to);
        if self.machines[from].is_up() {
            self.feed(from, Input::PeerDown(id_of(to)));
            if self.defect == Some(Defect::LinkNotRedialled) {
                return;
            }
            self.network.dial_later(self.now_ns, from, to, &mut self.queue);
        }
    }

    /// A connection breaks; the sender notices within `noticed_ns`.
    pub(crate) fn break_link(&mut self, from: usize, to: usize, noticed_ns: u64) {
        let noticed_ns = self.now_ns + self.network.rng.below(noticed_ns);
        self.network.sever(noticed_ns, from, to, &mut self.queue);
    }

    pub(super) fn disconnect(&mut self, member: usize, peer: usize) {
        self.break_link(member, peer, MS);
        self.break_link(peer, member, MS);
    }

    pub(super) fn deliver(
        &mut self,
        (from, to): (usize, usize),
        epoch: u64,
        class: MessageClass,
        bytes: Bytes,
    ) -> Result<(), Violation> {
        let link = self.network.link(from, to);
        if link.epoch != epoch || !self.machines[to].is_up() {
            return Ok(());
        }
        link.delivered(&bytes);
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
        self.feed(to, Input::Frame { from: id_of(from), bytes });
        Ok(())
    }
}
