//! What a member shows after a step, held against the checks.

use api::etcdserverpb::WatchResponse;
use member::{Notice, SnapshotEvent};
use prost::Message;
use store::watch::NextResponse;

use crate::checks::limits;
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::disk::DISK_STOPPED;
use crate::world::machine::watch_everything;

/// Failed reads that are repeated in one step: a fault makes a read fail once, damage makes it fail always.
const MAX_READ_RETRIES: u32 = 50;

/// Responses that the observer may take in one step; far above what one step can apply.
const MAX_OBSERVED: usize = 100_000;

impl Simulation {
    /// Checks what the member shows to clients and peers. False when its disk has stopped.
    pub(super) fn observe(&mut self, member: usize) -> Result<bool, Violation> {
        let now_ns = self.now_ns;
        let run = self.machines[member].run;
        let damaged = self.machines[member].damaged;
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(true) };
        let mut events = Vec::new();
        let mut retries = MAX_READ_RETRIES;
        for _ in 0..MAX_OBSERVED {
            match process.observer.next(0) {
                Ok(NextResponse::Send(frame)) => {
                    if let Ok(response) = WatchResponse::decode(frame.to_bytes()) {
                        // Catching up, it may find its next revisions compacted and purged within one step.
                        if response.canceled {
                            process.observer = watch_everything(&process.opened, response.compact_revision);
                        }
                        events.extend(response.events);
                    }
                }
                Ok(NextResponse::Busy) => {}
                Ok(NextResponse::Idle) => break,
                // A read may fail once; a damaged value stays damaged.
                Err(damaged) => {
                    process.observer.retry_damaged(damaged.address);
                    if damaged.reason.contains(DISK_STOPPED) {
                        return Ok(false);
                    }
                    if retries == 0 {
                        break;
                    }
                    retries -= 1;
                }
            }
        }
        let reader = &process.opened.reader;
        let applied = reader.applied().index;
        // A member with this defect goes back to the state on its disk, and its process does not end.
        let shown_run = if self.defect == Some(Defect::StateFallsBack) { 0 } else { run };
        // Equal entries give equal states: the hash is compared only at a new index. At index 0 a member that joins
        // knows only what it was told.
        let state = (applied > 0 && process.observed_index != Some(applied)).then(|| reader.state_hash());
        process.observed_index = Some(applied);
        let shows_early = self.defect == Some(Defect::RevisionShownEarly) && reader.data_state().is_none();
        let revision = reader.current_revision() + i64::from(shows_early);
        let pending = process.opened.status.pending();
        let waiting = process.opened.status.memory().into_iter().find(|(part, _)| *part == "commands");
        let waiting_bytes = waiting.map_or(0, |(_, bytes)| bytes);
        let stats = process.opened.hub.stats();
        self.checks.applied(member, &events, now_ns)?;
        self.checks.monotonic.shows(member, shown_run, applied, revision)?;
        if let Some((position, hash)) = state {
            self.checks.states.shows(member, position, hash)?;
        }
        if self.plan.changes_permissions {
            self.auth_state(member)?;
        }
        limits::waiting(member, waiting_bytes, &self.checks.queue_limits)?;
        limits::member(member, pending, stats.streams, stats.pending_events)?;
        // The watch of a damaged member waits for repair: its answers are explained by what other members show.
        if revision > self.checks.history.revision() && !damaged {
            let text = format!("member {member} is at revision {revision}, but its watch is not");
            return Violation::err("watches are complete", text);
        }
        Ok(true)
    }

    pub(super) fn handle_notice(&mut self, member: usize, notice: &Notice) -> Result<(), Violation> {
        match notice {
            Notice::TickLate(_) => return Ok(()),
            Notice::Leadership { term, leading, .. } => {
                if *leading {
                    self.coverage.event("leaderships");
                    self.checks.leaders.leads(member, *term)?;
                    if self.defect == Some(Defect::LeaseClockReset) {
                        self.machines[member].clock_jump_at_ns = self.now_ns + 400_000_000;
                    }
                }
            }
            Notice::Checkpoint { index } => {
                self.coverage.event("checkpoints");
                self.machines[member].checkpoint_index = *index;
            }
            Notice::Diverged { peer, index } => {
                let text = format!("member {member} says that member {} differs at {index}", peer - 1);
                return Violation::err("equal index means equal state", text);
            }
            Notice::BadFrame { from, reason } => {
                let text = format!("member {member} refuses a frame of member {}: {reason}", from - 1);
                // All members are correct, so no frame may be refused.
                return Violation::err("frames are sound", text);
            }
            Notice::MembershipRequest { .. } => self.coverage.event("membership requests applied"),
            Notice::Damage { .. } => self.coverage.event("damage noticed"),
            Notice::Repaired { .. } => self.coverage.event("damage repaired"),
            Notice::Scrubbed(totals) => {
                self.coverage.event("scrub rounds");
                if totals.damaged > 0 {
                    self.coverage.event("scrub rounds that found damage");
                }
            }
            Notice::HashStored(_) => self.coverage.event("compactions hashed"),
            Notice::Relocated { .. } => self.coverage.event("files emptied"),
            Notice::Space { is_low: true } => self.coverage.event("disks nearly full"),
            Notice::Space { is_low: false } => self.coverage.event("disks with room again"),
            Notice::MemoryLimit { .. } => self.coverage.event("memory limits noticed"),
            Notice::Failure { .. } => self.coverage.event("failures noticed"),
            Notice::Snapshot { event, .. } => {
                if let SnapshotEvent::Installed { index } = event {
                    self.checks.tokens.starts(member, *index);
                    self.coverage.event("snapshots installed");
                }
            }
        }
        self.trace.line(self.now_ns, format!("m{member} {notice:?}"));
        Ok(())
    }
}
