//! Space on disk: checkpoints, relocation and truncation, and what must be kept for followers meanwhile.

use super::Member;
use crate::io::{Now, Output};
use crate::relocation::Settling;

impl Member {
    /// Begins a checkpoint of the applied state. None may be running.
    pub(super) fn begin_checkpoint(&mut self, out: &mut Output) {
        let (id, conf) = (self.apply_queue.applied_id(), self.consensus.conf_state());
        out.background.push(self.checkpoints.begin(id, &conf, &mut self.log, &mut self.store));
    }

    /// One step of relocation.
    pub(super) fn relocation_step(&mut self, now: Now, out: &mut Output) {
        let is_idle = self.relocation.begin_step(now.monotonic_ns);
        if !is_idle {
            self.relocation.step(&mut self.log, &mut self.store, &self.reader, out);
        } else if !self.checkpoints.is_running() {
            self.look_for_space(now, out);
        }
    }

    /// What is next for space, when nothing is being relocated and no checkpoint is being written: settle what eager relocation needs, then a file to empty, then a checkpoint that lets
    /// empty files go.
    fn look_for_space(&mut self, now: Now, out: &mut Output) {
        if self.relocation.is_eager() {
            let leads = self.leadership.leads();
            match self.relocation.settle(now.monotonic_ns, &self.log, &self.reader, leads) {
                Settling::Waits => return,
                Settling::EndSegment => {
                    let last = self.end_segment(now, out);
                    return self.relocation.segment_ended(last);
                }
                Settling::Settled => self.truncate(),
            }
        }
        if self.relocation.begin_file(&self.log) {
            return;
        }
        let (applied, forgettable) = (self.apply_queue.applied(), self.forgettable());
        let frees = || self.log.reclaimable_bytes(applied, forgettable) > 0;
        if self.relocation.may_checkpoint(now.monotonic_ns) && frees() {
            self.relocation.checkpoint_began(now.monotonic_ns);
            self.begin_checkpoint(out);
        } else {
            self.relocation.rest(now.monotonic_ns);
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
        if self.sending.has_catching_up() {
            let peers = self.consensus.status().peers;
            self.sending.note_progress(self.apply_queue.applied(), &peers, self.config.catchup_entries);
        }
        let checkpoint = self.log.checkpoint_id().map_or(0, |id| id.index);
        let to = checkpoint.min(self.forgettable());
        if to >= self.log.first_index() {
            self.log.truncate_to(to);
            self.consensus.truncate(to);
        }
    }

    /// Entries up to this index need not be kept for any follower.
    fn forgettable(&self) -> u64 {
        let applied = self.apply_queue.applied();
        let needed = match self.relocation.is_eager() {
            false => applied.saturating_sub(self.config.catchup_entries),
            true => {
                let status = self.consensus.status();
                self.relocation.needed_by_followers(&status, self.config.member_id).min(applied)
            }
        };
        needed.min(self.sending.oldest_needed(applied))
    }

    /// No peer has an entry that is damaged here. If the checkpoint has its effect, the log before it is given up:
    /// followers that need it get a snapshot.
    pub(super) fn give_up_entry(&mut self, index: u64) {
        let is_in_checkpoint = self.log.checkpoint_id().is_some_and(|id| index <= id.index);
        if is_in_checkpoint && index <= self.sending.oldest_needed(self.apply_queue.applied()) {
            self.log.truncate_to(index);
            self.consensus.truncate(index);
        }
    }
}
