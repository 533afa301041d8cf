//! An operator who changes the membership while everything else fails: adds voters and learners, promotes, moves and
//! removes members, replaces one whose directory is lost.
//!
//! The operator sees what the member shows that has applied most, and asks any member that runs. The outcome of a
//! request may stay unknown. A machine that was added starts as a member that joins.
//!
//! ```text
//! not added --Add is seen in a state--> joins --snapshot--> member --Remove--> refused by a peer --> gone for good
//! ```
//!
//! A member that moves listens at its old and its new URL first. Some time after the move was acknowledged it starts
//! again, at its new URL alone; who knows only the old one does not reach it.
//!
//! A directory is lost only where five voters or more are left to lose one, so that requests of unknown outcome which
//! take effect later leave a quorum; or one of three, while the outcome of each request is known. Then the lost member
//! is removed before anything else.

use std::collections::BTreeSet;

use api::Error;
use member::{Answer, InitialMember, Input, MembershipRequest};
use store::ClusterMember;

use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::{AskedChange, ChangeFate, Operator, Simulation};
use crate::world::machine::{IS_NOT_ADDED, id_of, member_url};
use crate::world::queue::SimEvent;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Longest time between two acts of the operator.
const MAX_PAUSE_NS: u64 = 3 * SECOND;

/// How long the operator waits for an answer.
const ANSWER_TIMEOUT_NS: u64 = 8 * SECOND;

/// Voters beyond which none are added.
const MAX_VOTERS: usize = 7;

/// Voters from which on a directory may be lost.
const MIN_VOTERS_TO_LOSE_ONE: usize = 5;

/// Voters of which one may be lost if nothing that was asked for can take effect later.
const VOTERS_TO_LOSE_ONE_CAREFULLY: usize = 3;

/// Longest time from the answer to a move until the old URL is given up.
const MAX_MOVE_NS: u64 = 5 * SECOND;

/// How long a member that moves does not run.
const MOVE_DOWN_NS: u64 = 500 * MS;

/// Percentage of refused handshakes from which a removed member learns that it was removed.
const TOLD_PERCENT: u64 = 30;

/// Why a machine takes no part that was a member.
const WAS_REMOVED: &str = "it was removed";

impl Simulation {
    /// The operator looks at the cluster, does what follows, and asks for another change.
    pub(super) fn operator_acts(&mut self) -> Result<(), Violation> {
        let pause_ns = self.operator_rng.between(200 * MS, MAX_PAUSE_NS);
        self.queue.schedule(self.now_ns + pause_ns, SimEvent::OperatorActs);
        let Some(members) = self.newest_members() else { return Ok(()) };
        self.start_added(&members);
        self.stop_removed();
        if self.ending.final_writes_sent {
            return Ok(());
        }
        if let Some((_, _, _, _, until_ns)) = self.operator.waits_for
            && self.now_ns < until_ns
        {
            return Ok(());
        }
        if let Some(request) = self.draw_change(&members)? {
            self.ask_for_change(request);
        }
        Ok(())
    }

    /// The members in the state of the process that has applied most.
    fn newest_members(&self) -> Option<Vec<ClusterMember>> {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let newest = processes.max_by_key(|process| process.opened.reader.applied().index)?;
        Some(newest.opened.reader.members())
    }

    /// Starts the machines that were added.
    fn start_added(&mut self, members: &[ClusterMember]) {
        let told: Vec<InitialMember> = members
            .iter()
            .map(|member| InitialMember {
                id: member.id,
                name: member.name.clone(),
                peer_urls: member.peer_urls.clone(),
            })
            .collect();
        for added in members {
            let member = (added.id - 1) as usize;
            let machine = &mut self.machines[member];
            if machine.excluded == Some(IS_NOT_ADDED) {
                machine.excluded = None;
                machine.told = Some(told.clone());
                self.coverage.event("members that join");
                self.queue.schedule(self.now_ns + 1, SimEvent::Start { member });
            }
        }
    }

    /// After the faults, removed members that still run are stopped.
    fn stop_removed(&mut self) {
        if self.ending.faults_stopped_ns.is_none() {
            return;
        }
        for member in 0..self.machines.len() {
            if self.machines[member].excluded.is_none() && self.is_removed(member) {
                self.member_is_gone(member);
            }
        }
    }

    /// Whether any process knows that a member was removed.
    fn is_removed(&self, member: usize) -> bool {
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        processes.into_iter().any(|process| process.opened.reader.was_removed(id_of(member)))
    }

    /// Whether a member has applied its own removal.
    pub(super) fn knows_its_removal(&self, member: usize) -> bool {
        let process = self.machines[member].process.as_ref();
        process.is_some_and(|process| process.opened.reader.was_removed(id_of(member)))
    }

    /// A member was removed and has heard of it: it does not run any more.
    pub(super) fn member_is_gone(&mut self, member: usize) {
        self.trace.line(self.now_ns, format!("m{member} stops: it was removed"));
        self.coverage.event("removed members stopped");
        self.end_process(member, 5 * MS);
        self.machines[member].excluded = Some(WAS_REMOVED);
    }

    /// A peer refuses the handshake of a removed member, which may believe it.
    pub(super) fn is_told_of_removal(&mut self, member: usize) {
        if self.operator_rng.percent(TOLD_PERCENT) {
            self.member_is_gone(member);
        }
    }

    fn draw_change(&mut self, members: &[ClusterMember]) -> Result<Option<MembershipRequest>, Violation> {
        let lost = members.iter().find(|member| self.machines[(member.id - 1) as usize].wiped);
        if let Some(lost) = lost {
            return Ok(Some(MembershipRequest::Remove { id: lost.id }));
        }
        if self.ending.faults_stopped_ns.is_some() {
            return Ok(None);
        }
        let joiner = self.machines.iter().position(|machine| machine.excluded == Some(IS_NOT_ADDED));
        let voters = members.iter().filter(|member| !member.learner).count();
        let rng = &mut self.operator_rng;
        let any = members[rng.below(members.len() as u64) as usize].id;
        let learner = members.iter().find(|member| member.learner).map(|member| member.id);
        Ok(match rng.weighted(&[4, 4, 6, 4, 2, 2]) {
            number @ (0 | 1) if voters < MAX_VOTERS => joiner.map(|member| MembershipRequest::Add {
                id: id_of(member),
                peer_urls: vec![member_url(member)],
                learner: number == 1,
            }),
            2 => learner.map(|id| MembershipRequest::Promote { id }),
            3 => Some(MembershipRequest::Remove { id: any }),
            4 => {
                self.operator.moves += 1;
                let url = format!("http://moved{}:2380", self.operator.moves);
                Some(MembershipRequest::Update { id: any, peer_urls: vec![url] })
            }
            5 if voters >= MIN_VOTERS_TO_LOSE_ONE
                || (self.plan.moves_for_good
                    && voters == VOTERS_TO_LOSE_ONE_CAREFULLY
                    && !self.operator.has_unknown()) =>
            {
                self.lose_directory(members, any)?;
                None
            }
            _ => None,
        })
    }

    /// A member loses its directory for good, if all others run and know it.
    fn lose_directory(&mut self, members: &[ClusterMember], id: u64) -> Result<(), Violation> {
        let indexes: BTreeSet<usize> = members.iter().map(|member| (member.id - 1) as usize).collect();
        let (member, all_run) =
            ((id - 1) as usize, indexes.iter().all(|member| self.machines[*member].is_up()));
        if all_run && indexes.iter().all(|other| self.knows_directory_of(*other, member)) {
            self.coverage.event("directories lost and replaced");
            if members.iter().filter(|member| !member.learner).count() == VOTERS_TO_LOSE_ONE_CAREFULLY {
                self.coverage.event("directories of three voters lost for good");
            }
            self.wipe(member)?;
            self.machines[member].excluded = Some("it lost its directory");
        }
        Ok(())
    }

    fn ask_for_change(&mut self, request: MembershipRequest) {
        let up: Vec<usize> =
            (0..self.machines.len()).filter(|member| self.machines[*member].is_up()).collect();
        let Some(member) = up.get(self.operator_rng.below(up.len() as u64) as usize).copied() else { return };
        let run = self.machines[member].run;
        let Some(process) = self.machines[member].process.as_mut() else { return };
        let token = process.take_token();
        self.trace.line(self.now_ns, format!("m{member} is asked for {request:?}"));
        let until_ns = self.now_ns + ANSWER_TIMEOUT_NS;
        self.operator.waits_for = Some((member, run, token, request.clone(), until_ns));
        self.operator.asked.push(AskedChange { request: request.clone(), fate: ChangeFate::Unknown });
        if let MembershipRequest::Update { id, peer_urls } = &request {
            self.machines[(id - 1) as usize].urls.extend(peer_urls.iter().cloned());
        }
        let request = changed_by(self.defect, request);
        self.give(member, Input::ChangeMembers { token, request });
    }

    /// A member answers the operator.
    pub(super) fn operator_is_answered(&mut self, member: usize, token: u64, answer: &Answer) {
        let run = self.machines[member].run;
        let waits =
            |(asked, asked_run, asked_token, _, _): &mut (usize, u64, u64, MembershipRequest, u64)| {
                (*asked, *asked_run, *asked_token) == (member, run, token)
            };
        let Some((_, _, _, request, _)) = self.operator.waits_for.take_if(waits) else { return };
        let Some(asked) = self.operator.asked.last_mut() else { return };
        match answer {
            Answer::MembersChanged(_) => {
                asked.fate = ChangeFate::Acknowledged;
                if let (MembershipRequest::Update { id, .. }, true) = (&request, self.plan.moves_for_good) {
                    let at_ns = self.now_ns + self.operator_rng.below(MAX_MOVE_NS);
                    self.queue.schedule(at_ns, SimEvent::MoveEnds { member: (id - 1) as usize });
                }
                self.coverage.event(match request {
                    MembershipRequest::Add { learner: false, .. } => "voters added",
                    MembershipRequest::Add { .. } => "learners added",
                    MembershipRequest::Remove { .. } => "members removed",
                    MembershipRequest::Update { .. } => "members moved",
                    MembershipRequest::Promote { .. } => "learners promoted",
                });
            }
            _ => {
                if let Answer::Failed(error) = answer
                    && REFUSALS.contains(error)
                {
                    asked.fate = ChangeFate::Refused;
                }
                self.coverage.event("membership changes refused");
            }
        }
    }

    /// A member that has moved gives up the URLs that it had before: it starts again, and listens where the newest
    /// move says, and where one of unknown outcome may say.
    pub(super) fn move_ends(&mut self, member: usize) -> Result<(), Violation> {
        let moves = self.operator.moves_of(id_of(member));
        if moves.is_empty() || self.machines[member].urls == moves {
            return Ok(());
        }
        self.trace.line(self.now_ns, format!("m{member} listens at {moves:?} alone"));
        self.coverage.event("old URLs given up");
        self.machines[member].urls = moves;
        self.kill(member, MOVE_DOWN_NS)
    }

    /// What was acknowledged to the operator is in the state of a member at the end: who is a member, in which role, at
    /// which URLs.
    pub(super) fn check_acknowledged_changes(&self, member: usize) -> Result<(), Violation> {
        let Some(process) = &self.machines[member].process else { return Ok(()) };
        let (reader, members) = (&process.opened.reader, process.opened.reader.members());
        for asked in self.operator.asked.iter().filter(|asked| asked.fate == ChangeFate::Acknowledged) {
            let request = &asked.request;
            let (id, is_removed) = (request.id(), reader.was_removed(request.id()));
            let found = members.iter().find(|known| known.id == id);
            let holds = match request {
                MembershipRequest::Remove { .. } => is_removed && found.is_none(),
                _ if is_removed => true,
                MembershipRequest::Promote { .. } => found.is_some_and(|known| !known.learner),
                MembershipRequest::Add { learner, .. } => {
                    let may_be_promoted = self.operator.may_be_promoted(id);
                    found.is_some_and(|known| known.learner == *learner || (*learner && may_be_promoted))
                }
                MembershipRequest::Update { .. } => {
                    let moves = self.operator.moves_of(id);
                    found.is_some_and(|known| known.peer_urls.iter().all(|url| moves.contains(url)))
                }
            };
            if !holds {
                let text = format!("{request:?} was acknowledged, and member {member} has {members:?}");
                return Violation::err("acknowledged changes of membership last", text);
            }
        }
        Ok(())
    }
}

/// What refuses a change for certain; after any other error it may take effect.
const REFUSALS: [Error; 9] = [
    Error::BadMemberUrls,
    Error::LearnerNotReady,
    Error::MemberExists,
    Error::MemberNotFound,
    Error::MemberNotLearner,
    Error::NotEnoughStartedMembers,
    Error::PeerUrlExists,
    Error::TooManyLearners,
    Error::Unhealthy,
];

impl Operator {
    /// Whether the outcome of a request is not known: it may take effect later.
    fn has_unknown(&self) -> bool {
        self.asked.iter().any(|asked| asked.fate == ChangeFate::Unknown)
    }

    /// Whether a member was to be promoted, and may have been.
    fn may_be_promoted(&self, id: u64) -> bool {
        let mut asked = self.asked.iter().filter(|asked| asked.fate != ChangeFate::Refused);
        asked.any(
            |asked| matches!(asked.request, MembershipRequest::Promote { id: promoted } if promoted == id),
        )
    }

    /// The URLs of a member's newest acknowledged move, and of all that may have taken effect after it. None if no move
    /// was acknowledged.
    fn moves_of(&self, id: u64) -> Vec<String> {
        let (mut urls, mut is_moved) = (Vec::new(), false);
        for asked in self.asked.iter().rev() {
            let is_unknown = asked.fate == ChangeFate::Unknown;
            let is_newest = asked.fate == ChangeFate::Acknowledged && !is_moved;
            if let MembershipRequest::Update { id: moved, peer_urls } = &asked.request
                && *moved == id
                && (is_unknown || is_newest)
            {
                urls.extend(peer_urls.iter().cloned());
                is_moved |= is_newest;
            }
        }
        if is_moved { urls } else { Vec::new() }
    }
}

/// What a member is asked for, if that is not what its operator wants.
fn changed_by(defect: Option<Defect>, request: MembershipRequest) -> MembershipRequest {
    match (defect, request) {
        (Some(Defect::MovedElsewhere), MembershipRequest::Update { id, peer_urls }) => {
            let peer_urls = peer_urls.iter().map(|url| url.replace("moved", "elsewhere")).collect();
            MembershipRequest::Update { id, peer_urls }
        }
        (Some(Defect::LearnerAddedAsVoter), MembershipRequest::Add { id, peer_urls, .. }) => {
            MembershipRequest::Add { id, peer_urls, learner: false }
        }
        (_, request) => request,
    }
}
