//! The start of a member without data: the members that it reaches are asked whether it has been started before, as
//! the server asks them (`member::FirstStart`).

use log::Log;
use member::{FirstStart, ListedMembers, MemberStanding};

use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::machine;
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;

/// How often a member that lost its directory reaches the others when it starts. If it does not, it begins, and they
/// refuse it when it dials.
const REACHED_PERCENT: u64 = 50;

/// Time until the process is started again.
const RESTART_NS: u64 = 500 * MS;

impl Simulation {
    /// Whether a member may start; one that may not is started again a little later.
    ///
    /// # Errors
    /// A member that has all its data is turned away.
    pub(super) fn may_begin(&mut self, member: usize) -> Result<bool, Violation> {
        if !self.begins_without_data(member) {
            return Ok(true);
        }
        let is_wiped = self.machines[member].wiped;
        let lags = is_wiped && self.lags_behind_publication(member);
        if is_wiped && !lags && !self.member_rng.percent(REACHED_PERCENT) {
            return Ok(true);
        }
        let (answers, are_current) = self.members_listed_to(member);
        let others = match self.defect {
            Some(Defect::OneAnswerSuffices) => 1,
            _ => self.machines.len() - 1,
        };
        let verdict = FirstStart::of(machine::id_of(member), others, &answers);
        self.trace.line(self.now_ns, format!("m{member} has no data: {} answer, {verdict:?}", answers.len()));
        match verdict {
            FirstStart::Begins if lags => self.lost_directory_begins(member, &answers, are_current)?,
            FirstStart::Begins => return Ok(true),
            FirstStart::WasRemoved => {
                self.member_is_gone(member);
                return Ok(false);
            }
            FirstStart::WasStarted if !is_wiped => {
                let text = format!("member {member} was never started, and learns that it was");
                return Violation::err("members start", text);
            }
            FirstStart::WasStarted => self.coverage.event("lost directories noticed at start"),
            FirstStart::Unknown { .. } if lags => {
                self.coverage.event("lost directories that wait for members that know of them");
            }
            FirstStart::Unknown { .. } => self.coverage.event("first starts that wait for more answers"),
        }
        self.queue.schedule(self.now_ns + RESTART_NS, SimEvent::Start { member });
        Ok(false)
    }

    /// Whether a member does not know yet to which directory the id of another one is bound, as far as can be seen: one
    /// that does not run may not.
    fn lags_behind_publication(&self, of: usize) -> bool {
        (0..self.plan.members).any(|peer| peer != of && !self.knows_directory_of(peer, of))
    }

    /// A member that lost its directory would begin beside one that lags. RFC 0038 says when that can be; here it then
    /// waits, because what follows is what the RFC leaves open.
    ///
    /// # Errors
    /// It must not be: so many answer, with all that they have accepted, that one of them knows of it.
    fn lost_directory_begins(
        &mut self,
        member: usize,
        answers: &[ListedMembers],
        are_current: bool,
    ) -> Result<(), Violation> {
        let has_begun = answers.iter().flat_map(ListedMembers::values).any(|known| known.is_published);
        if has_begun && are_current {
            let text = format!("member {member} begins by the word of {} that lag", answers.len());
            return Violation::err("lost directories are noticed", text);
        }
        self.coverage.event("lost directories that no member that answers knows of");
        Ok(())
    }

    /// Whether a member is to begin the cluster with the others, and its disk holds nothing.
    fn begins_without_data(&self, member: usize) -> bool {
        let machine = &self.machines[member];
        let options = machine::log_options(&self.plan);
        machine.told.is_none()
            && self.defect != Some(Defect::WipedMemberVotes)
            && !Log::has_checkpoint(&machine.disk, &options).unwrap_or(true)
    }

    /// What each member answers that runs and is reached, and whether all of them have applied what they have accepted.
    fn members_listed_to(&mut self, member: usize) -> (Vec<ListedMembers>, bool) {
        let (mut answers, mut are_current) = (Vec::new(), true);
        for peer in (0..self.machines.len()).filter(|peer| *peer != member) {
            let cuts = self.network.link(member, peer).cuts + self.network.link(peer, member).cuts;
            let Some(process) = self.machines[peer].process.as_ref().filter(|_| cuts == 0) else { continue };
            let members = process.opened.reader.members();
            are_current &= process.opened.status.applied_index() >= self.checks.promises.accepted(peer);
            let standing = |name: &str, is_learner: bool| MemberStanding {
                is_published: !name.is_empty(),
                is_voter: !is_learner,
            };
            let listed = members.into_iter().map(|known| (known.id, standing(&known.name, known.learner)));
            answers.push(listed.collect());
        }
        (answers, are_current)
    }
}
