//! A member that starts with a damaged log: it repairs it with its peers, and takes part in nothing else.
//!
//! Until its log is whole, [`Member::handle`] and [`Member::drive`] come here alone. The consensus node that it has
//! meanwhile knows the log up to the first damaged entry, and is never asked: no message reaches it, no tick, and it
//! has nothing to send. So for the others this member is down, which is always safe. At the end the rest of the log is
//! replayed, and a node that knows all of it takes that one's place.

use super::Member;
use crate::apply::ApplyQueue;
use crate::io::{Answer, Input, MemberFatal, Notice, Now, Output};
use crate::jobs::Done;
use crate::leadership::TermState;
use crate::peer_message::PeerMessage;
use crate::repair::recovery::FinishedStart;

/// The answer to a sender of snapshots.
const REFUSAL: &str = "this member repairs its log first";

impl Member {
    /// Whether it repairs its log, and takes part in nothing until that is done.
    pub fn is_recovering(&self) -> bool {
        self.unfinished_start.is_some()
    }

    /// As [`Member::handle`], for a member whose log is not whole.
    pub(super) fn handle_recovering(
        &mut self,
        now: Now,
        input: Input,
        out: &mut Output,
    ) -> Result<(), MemberFatal> {
        let Some(start) = &mut self.unfinished_start else { return Ok(()) };
        match input {
            Input::Frame { from, bytes } => {
                let answer = match PeerMessage::decode(bytes.clone()) {
                    Some(PeerMessage::EntryAnswer { index, term, entry }) => (index, term, entry),
                    Some(PeerMessage::EntryQuestion { .. } | PeerMessage::ValueQuestion(_)) => {
                        self.on_frame(now, from, bytes, out);
                        return Ok(());
                    }
                    Some(PeerMessage::Introduction { id, peer_urls }) if id == from => {
                        self.on_introduction(from, peer_urls);
                        return Ok(());
                    }
                    _ => return Ok(()),
                };
                let (index, term, entry) = answer;
                start.recovery.answered(from, (index, term), entry, &self.log, out);
            }
            Input::Background(done) => match *done {
                Done::EntryRepaired { index, result } => start.recovery.written(index, result, out)?,
                done => self.on_job_done(now, done, out)?,
            },
            Input::PeerUp(peer) => {
                self.note_peer_up(now, peer);
                self.connected.insert(peer);
            }
            Input::PeerDown(peer) => {
                self.note_peer_down(peer);
                self.connected.remove(&peer);
            }
            Input::PeerAnnounced { peer, command_set } => self.on_peer_announced(peer, command_set),
            Input::Propose(proposal) => refuse(proposal.token, out),
            Input::ReadEntries(wanted) => refuse(wanted.token, out),
            Input::Read { token }
            | Input::Lease { token, .. }
            | Input::MoveLeader { token, .. }
            | Input::ChangeMembers { token, .. }
            | Input::GiveUpLeadership { token }
            | Input::Repair { token, .. } => refuse(token, out),
            Input::SnapshotOffered { token, .. } | Input::SnapshotWhole { token, .. } => {
                out.answers.push((token, Answer::SnapshotRefused(REFUSAL.to_owned())));
            }
            // It takes part in no election.
            Input::PeerNotListening(_) => {}
            // None was received or sent, and nothing written.
            Input::SnapshotBroken(_) | Input::SnapshotSent { .. } | Input::WritesSynced(_) => {}
            Input::Defragment => {}
            Input::SetQuota { bytes } => self.config.quota_bytes = bytes,
            Input::SetMemoryLimit { bytes } => self.set_memory_limit(bytes),
            Input::Stop => out.stopped = true,
        }
        Ok(())
    }

    /// As [`Member::drive`], for a member whose log is not whole.
    pub(super) fn drive_recovering(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        let Some(start) = &mut self.unfinished_start else { return Ok(()) };
        start.recovery.ask(now.monotonic_ns, &self.connected, out)?;
        if start.recovery.is_complete() {
            self.finish_start(now, out)?;
        }
        self.show_membership(out);
        self.show_status();
        Ok(())
    }

    /// The log is whole: goes on as after any other start.
    fn finish_start(&mut self, now: Now, out: &mut Output) -> Result<(), MemberFatal> {
        let Some(start) = self.unfinished_start.take() else { return Ok(()) };
        let from = (self.apply_queue.applied_id(), start.conf_state);
        let finished = (start.finish)(&mut self.log, &mut self.store, from, &self.config);
        let FinishedStart { consensus, applied, begun, warning } =
            finished.map_err(|reason| MemberFatal::Start { reason })?;
        self.applying = self.applying.take().or(begun);
        out.notices.extend(warning.map(|text| Notice::Failure { text }));
        self.leadership = TermState::at_start(consensus.status().term);
        self.status.set_term(self.leadership.term);
        self.consensus = consensus;
        self.apply_queue = ApplyQueue::at(applied);
        self.hub.publish_unwatched(self.reader.current_revision());
        self.next_tick_ns = now.monotonic_ns;
        self.follow_members();
        let text = format!("the log, which is replayed up to entry {}", applied.index);
        out.notices.push(Notice::Repaired { text });
        Ok(())
    }
}

/// Answers a request that needs a leader.
fn refuse(token: u64, out: &mut Output) {
    out.answers.push((token, Answer::Failed(api::Error::NoLeader)));
}
