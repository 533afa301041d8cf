//! Space on disk: checkpoints, relocation and truncation, and what must be kept for followers meanwhile.

use log::Space;

use super::Member;
use crate::io::{Now, Output};
use crate::relocation::eager::Settling;
use crate::relocation::{RelocationContext, Relocator};

impl Member {
    /// Begins a checkpoint of the applied state. None may be running.
    pub(super) fn begin_checkpoint(&mut self, out: &mut Output) {
        let (id, conf) = (self.apply_queue.applied_id(), self.consensus.conf_state());
        out.background.push(self.checkpoints.begin(id, &conf, &mut self.log, &mut self.store));
    }

    /// What relocation works on.
    pub(super) fn relocate<R>(
        &mut self,
        out: &mut Output,
        step: impl FnOnce(&mut Relocator, &mut RelocationContext<'_>) -> R,
    ) -> R {
        let (log, store, reader) = (&mut self.log, &mut self.store, &self.reader);
        step(&mut self.relocation, &mut RelocationContext { log, store, reader, out })
    }

    /// What is next for space: settle what eager relocation needs, then files to empty, then a checkpoint that lets
    /// empty files go.
    pub(super) fn look_for_space(&mut self, now: Now, out: &mut Output) {
        let now_ns = now.monotonic_ns;
        self.relocation.looked(now_ns);
        if self.relocation.eager.is_on() && !self.settle(now, out) {
            return;
        }
        let freed = self.log.reclaimable_bytes(self.apply_queue.applied(), self.forgettable());
        let (live, is_low) = (self.log.reader().live_bytes(), self.is_space_low());
        let is_worth_it = self.relocation.is_worth_a_checkpoint(now_ns, freed, live, is_low);
        let was_running = self.checkpoints.is_running();
        if was_running && is_worth_it && is_low {
            self.checkpoints.make_way_for_space(&self.log);
        }
        // Both run in one lane, and nothing is purged from here to the end of the checkpoint: it neither waits for a
        // copy that is under way, which another look follows, nor for the next one.
        if !was_running && is_worth_it && (is_low || !self.relocation.is_copying()) {
            self.relocation.checkpoint_began(now_ns);
            self.begin_checkpoint(out);
        }
        let is_idle = self.activity.is_idle(now_ns, self.status.commands_applied());
        let has_begun = self.relocation.can_begin()
            && self.relocate(out, |relocation, context| relocation.begin_files(is_idle, context));
        if self.relocation.is_idle() && !has_begun && !was_running && !is_worth_it {
            self.relocation.nothing_to_gain();
        }
    }

    /// Settles what eager relocation needs. Returns whether files can be looked at.
    fn settle(&mut self, now: Now, out: &mut Output) -> bool {
        if self.checkpoints.is_running() {
            self.checkpoints.make_way_for_space(&self.log);
            return false;
        }
        let leads = self.leadership.leads();
        match self.relocation.eager.settle(now.monotonic_ns, &self.log, &self.reader, leads) {
            Settling::Waits => false,
            Settling::EndSegment => {
                let last = self.end_segment(now, out);
                self.relocation.eager.segment_ended(last);
                false
            }
            Settling::Settled => {
                self.truncate();
                true
            }
        }
    }

    /// Ends the active segment, if another can be spared, and wants a checkpoint behind it, so that the next start
    /// reads nothing of what the segment holds now. Returns the last entry.
    pub(super) fn end_segment(&mut self, now: Now, out: &mut Output) -> u64 {
        if let Some(rolled) = self.log.roll_over() {
            out.writes.push(rolled.job);
            self.sealing.wrote(now.monotonic_ns);
        }
        let last = self.log.last_index();
        self.checkpoints.want(last);
        last
    }

    /// Forgets entries that neither recovery nor a follower a little behind needs.
    pub(super) fn truncate(&mut self) {
        let checkpoint = self.log.checkpoint_id().map_or(0, |id| id.index);
        let to = checkpoint.min(self.forgettable());
        if to >= self.log.first_index() {
            self.truncate_to(to);
        }
    }

    fn truncate_to(&mut self, index: u64) {
        self.log.truncate_to(index);
        self.consensus.truncate(index);
        self.sending.forget(self.log.first_index() - 1);
    }

    /// The disk is nearly full: gives up the snapshots that are in the way.
    pub(super) fn make_space(&mut self) {
        self.sending.make_space(self.usually_forgettable(), self.reader.compacted());
    }

    /// Notes how far the followers are that got a snapshot; what is kept for them depends on it.
    pub(super) fn note_catching_up(&mut self, now: Now) {
        let (applied, peers) = (self.apply_queue.applied(), self.consensus.status().peers);
        self.sending.note_progress(now.monotonic_ns, applied, self.usually_forgettable(), &peers);
    }

    /// Entries up to this index are not kept for a follower just because it is a little behind.
    fn usually_forgettable(&self) -> u64 {
        let (applied, kept) = (self.apply_queue.applied(), self.config.catchup_entries);
        let forgettable = applied.saturating_sub(kept);
        forgettable.max(self.log.index_before_last(kept, self.config.catchup_bytes)).min(applied)
    }

    /// Entries up to this index need not be kept for any follower.
    fn forgettable(&self) -> u64 {
        let applied = self.apply_queue.applied();
        let is_alone = self.reader.members().len() <= 1;
        let needed = match self.relocation.eager.is_on() {
            _ if is_alone => applied,
            false if self.is_space_low() => self.needed_by_active_followers().max(self.usually_forgettable()),
            false => self.usually_forgettable(),
            true => {
                let status = self.consensus.status();
                self.relocation.eager.needed_by_followers(&status, self.config.member_id)
            }
        };
        needed.min(applied).min(self.needed_after_snapshots()).min(self.needed_by_backup())
    }

    /// The entries after this index are kept for a backup. On a nearly full disk, and while space is returned eagerly,
    /// none are: the backup goes on with a new base.
    fn needed_by_backup(&self) -> u64 {
        let keeps_none = self.is_space_low() || self.relocation.eager.is_on();
        if keeps_none {
            u64::MAX
        } else {
            self.backup_reads.forgettable(|count, bytes| self.log.index_before_last(count, bytes))
        }
    }

    /// The entries after this index are kept for snapshots that are being sent, and for followers that got one. On a
    /// nearly full disk none are.
    fn needed_after_snapshots(&self) -> u64 {
        if self.is_space_low() { u64::MAX } else { self.sending.oldest_needed(&self.log) }
    }

    /// While space is low, nothing is kept for followers but what those that this member leads and hears of still need.
    fn needed_by_active_followers(&self) -> u64 {
        let (status, leads) = (self.consensus.status(), self.leadership.leads());
        let others = status.peers.iter().filter(|peer| leads && peer.id != self.config.member_id);
        others.filter(|peer| peer.recent_active).map(|peer| peer.matched).min().unwrap_or(u64::MAX)
    }

    pub(super) fn is_space_low(&self) -> bool {
        self.log.space() == Space::Low
    }

    /// No peer has an entry that is damaged here. If the checkpoint has its effect, the log before it is given up:
    /// followers that need it get a snapshot.
    pub(super) fn give_up_entry(&mut self, index: u64) {
        let is_in_checkpoint = self.log.checkpoint_id().is_some_and(|id| index <= id.index);
        if is_in_checkpoint && index <= self.needed_after_snapshots() {
            self.truncate_to(index);
        }
    }
}
