//! What the services share: this process's view of its member, and the way to send it requests.
//!
//! A handler never touches the member. It reads the store through its reader, opens streams on the watch hub, and
//! submits everything else to the raft loop, waiting for the answer.

mod admission;
mod identify;
mod large_requests;
mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use api::etcdserverpb as pb;
use api::validate::{self, ProposedRequest, RaftField};
use bytes::Bytes;
use futures_util::FutureExt;
use member::batch::CommandKind;
use member::peer_message::LeaseAnswer;
use member::{Answer, Input, MemberStatus, MembershipRequest, Proposal};
use store::watch::Hub;
use store::{Caller, Damaged, HashKvReply, Outcome, Reader, Values};
use tokio::sync::oneshot::error::RecvError;

use crate::auth::{JwtTokens, Passwords, SimpleTokens};
use crate::call_times::CallTimes;
use crate::live_settings::{LiveSettings, ReloadRequests};
use crate::metrics::{Metrics, OutcomeTimes};
use crate::overload::ClientAccounts;
use crate::raft_loop::{Handoff, TimedAnswer};
use crate::spans::Tracer;

pub(crate) use admission::{Backups, LargeRanges, MIN_LARGE_RANGE_STEPS};
pub(crate) use large_requests::LargeRequests;

/// Pause after a read for which no file could be opened.
const DESCRIPTOR_DELAY: std::time::Duration = std::time::Duration::from_millis(100);

/// Limits that handlers enforce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceLimits {
    /// Leases shorter than this, in seconds, are granted this: a shorter one could run out during an election.
    pub(crate) min_lease_ttl: i64,
    /// `--watch-progress-notify-interval`.
    pub(crate) progress_interval: std::time::Duration,
    /// Whether the gate `PriorityRequest` is open.
    pub(crate) has_priorities: bool,
}

/// The size of the data in bytes, in etcd's two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DbSizes {
    /// Written in the files of the data directory, without preallocation: log, data segments and checkpoints.
    pub(crate) total: u64,
    /// What of that the retained versions need: their keys and values, and 64 bytes for each, which is about its share
    /// of a record and of a checkpoint. The quota is compared with this figure before it is cut.
    pub(crate) in_use: u64,
}

impl DbSizes {
    /// An estimate that exceeds what is written is cut: 64 bytes are more than a version takes until it is part of a
    /// checkpoint, and a value that several versions refer to is written once.
    fn of(file_bytes: u64, referenced_bytes: u64) -> DbSizes {
        DbSizes { total: file_bytes, in_use: referenced_bytes.min(file_bytes) }
    }
}

/// Times that handlers observe, resolved once.
pub(crate) struct RequestTimes {
    /// Of ranges, without the wait for a ReadIndex round.
    pub(crate) ranges: OutcomeTimes,
    /// Of transactions that only read.
    pub(crate) read_txns: OutcomeTimes,
    /// Of other transactions.
    pub(crate) txns: OutcomeTimes,
}

impl RequestTimes {
    /// Those of a process.
    pub(crate) fn new(metrics: &Metrics) -> RequestTimes {
        let events = &metrics.events;
        RequestTimes {
            ranges: events.range_durations(),
            read_txns: events.requests("ReadonlyTxn"),
            txns: events.requests("Txn"),
        }
    }
}

/// The member as the services see it.
pub(crate) struct Node {
    pub(crate) cluster_id: u64,
    pub(crate) member_id: u64,
    pub(crate) reader: Reader,
    pub(crate) values: Arc<dyn Values>,
    pub(crate) log: log::Reader,
    pub(crate) hub: Hub,
    pub(crate) status: Arc<MemberStatus>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) times: RequestTimes,
    pub(crate) limits: ServiceLimits,
    pub(crate) live: Arc<LiveSettings>,
    pub(crate) handoff: Handoff,
    pub(crate) lease_ids: LeaseIds,
    pub(crate) admission: LargeRequests,
    pub(crate) large_ranges: LargeRanges,
    pub(crate) clients: ClientAccounts,
    pub(crate) backups: Backups,
    pub(crate) passwords: Passwords,
    pub(crate) tokens: SimpleTokens,
    /// Signed tokens, if `--auth-token` asks for them.
    pub(crate) jwt: Option<Arc<JwtTokens>>,
    /// Peers say that this member was removed or lost its data, and too few are left to tell; see `crate::peers`.
    pub(crate) is_disputed: Arc<AtomicBool>,
    /// Makes spans of calls, if they are exported.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Has the configuration read again.
    pub(crate) reloads: ReloadRequests,
}

impl Node {
    /// The header of a response at `revision`.
    pub(crate) fn header(&self, revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision,
            raft_term: self.status.term(),
        }
    }

    /// The header of a response about now.
    pub(crate) fn header_now(&self) -> pb::ResponseHeader {
        self.header(self.reader.current_revision())
    }

    /// Checks that this member may answer from its own state alone.
    ///
    /// # Errors
    /// Peers refuse it for good and too few accept it: it may have been removed long ago.
    pub(crate) fn check_serves(&self) -> Result<(), api::Error> {
        if self.is_disputed.load(Ordering::Relaxed) { Err(api::Error::Stopped) } else { Ok(()) }
    }

    /// Whether a leader is known.
    pub(crate) fn has_leader(&self) -> bool {
        self.status.leader() != 0
    }

    /// The size of the data, for Status and metrics.
    pub(crate) fn db_sizes(&self) -> DbSizes {
        DbSizes::of(self.status.file_bytes(), self.reader.referenced_bytes())
    }

    /// The storage version that clients and tools see: an older one while a downgrade is enabled.
    pub(crate) fn storage_version(&self) -> String {
        api::version::storage_version(self.reader.cluster_version().as_deref())
    }

    /// All members of the cluster.
    pub(crate) fn members(&self) -> Vec<pb::Member> {
        self.reader.members().into_iter().map(describe).collect()
    }

    /// Changes the members: returns all of them after the change.
    ///
    /// # Errors
    /// Why it has no effect, or why no agreement was reached.
    pub(crate) async fn change_members(
        &self,
        request: MembershipRequest,
    ) -> Result<Vec<pb::Member>, api::Error> {
        self.linearize().await?;
        match self.request(|token| Input::ChangeMembers { token, request }).await? {
            Answer::MembersChanged(members) => Ok(members.into_iter().map(describe).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// Promotes a learner.
    ///
    /// # Errors
    /// As [`Node::change_members`].
    pub(crate) async fn promote(&self, id: u64) -> Result<Vec<pb::Member>, api::Error> {
        let promoted = self.change_members(MembershipRequest::Promote { id }).await;
        if self.status.leader() == self.member_id {
            let events = &self.metrics.events;
            match &promoted {
                Ok(_) => events.learner_promotions.inc(),
                Err(error) => {
                    events.learner_promote_failures.with_label_values(&[error.to_string().as_str()]).inc();
                }
            }
        }
        promoted
    }

    /// Keeps every file that the index refers to from now on. Take it before looking at the index.
    pub(crate) fn pin(&self) -> log::Pin {
        self.log.pin()
    }

    /// Whether this member has no vote.
    pub(crate) fn is_learner(&self) -> bool {
        self.status.learner() == 1
    }

    /// Waits until a damaged value has been fetched from a peer.
    ///
    /// # Errors
    /// When no peer had it in time; [`api::Error::TooManyRequests`] when nothing is known to be damaged, but too many
    /// files are open to look.
    pub(crate) async fn repair(&self, damaged: &Damaged) -> Result<(), api::Error> {
        if damaged.is_transient {
            tracing::warn!(error = %damaged, "cannot read a value");
            // A caller that tries again at once, as a watch does, must not spin.
            tokio::time::sleep(DESCRIPTOR_DELAY).await;
            return Err(api::Error::TooManyRequests);
        }
        // The member reports it as damaged only if a version still refers to it there.
        tracing::debug!(error = %damaged, "cannot read a value at the address in its reference");
        let (address, key) = (damaged.address, damaged.key.clone());
        match self.request(|token| Input::Repair { token, address, key }).await? {
            Answer::Repaired => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Hashes all versions up to `revision`, yielding to other tasks between steps.
    ///
    /// # Errors
    /// Those of [`Reader::hash_kv`].
    pub(crate) async fn hash_kv(&self, revision: i64) -> Result<HashKvReply, api::Error> {
        let _timer = self.metrics.events.hash_rev.start_timer();
        let mut hashing = self.reader.hash_kv(revision)?;
        loop {
            match hashing.step()? {
                Some(reply) => return Ok(reply),
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Refuses a request that is too large by etcd's count; `bytes` are those of the request itself.
    ///
    /// # Errors
    /// [`api::Error::RequestTooLarge`]
    pub(crate) fn check_size(
        &self,
        field: RaftField,
        bytes: usize,
        caller: &Caller,
    ) -> Result<(), api::Error> {
        let user = match caller {
            Caller::User { name, revision } => Some((&**name, *revision)),
            Caller::Internal | Caller::Anonymous => None,
        };
        let request = ProposedRequest { field, bytes, member_id: self.member_id, user };
        validate::size(&request, self.live.max_request_bytes())
    }

    /// Replicates a command of a caller and waits until it is applied here.
    ///
    /// # Errors
    /// The error of the store, or why the command was not committed.
    pub(crate) async fn propose(&self, kind: CommandKind, caller: Caller, body: Bytes) -> Outcome {
        self.propose_for(&CallTimes::default(), kind, caller, body).await
    }

    /// The same for a call, which notes its phases.
    pub(crate) async fn propose_for(
        &self,
        times: &CallTimes,
        kind: CommandKind,
        caller: Caller,
        body: Bytes,
    ) -> Outcome {
        self.check_apply_lag(kind)?;
        let _admitted = self.admission.admit(body.len()).await;
        let input = |token| Input::Propose(Proposal { token, kind, caller, body });
        match self.request_for(times, true, input).await? {
            Answer::Applied(outcome) => outcome,
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until the local state has everything that was acknowledged anywhere before this call.
    pub(crate) async fn linearize(&self) -> Result<(), api::Error> {
        self.linearize_for(&CallTimes::default()).await
    }

    /// The same for a call, which notes its phases.
    pub(crate) async fn linearize_for(&self, times: &CallTimes) -> Result<(), api::Error> {
        match self.request_for(times, false, |token| Input::Read { token }).await? {
            Answer::ReadNow => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Renews a lease, or asks the leader for its remaining time. The request is submitted when this returns, so that
    /// requests made one after another reach the raft loop together.
    pub(crate) fn lease(
        &self,
        lease: i64,
        renew: bool,
    ) -> impl Future<Output = Result<LeaseAnswer, api::Error>> + Unpin + use<> {
        self.handoff.request(|token| Input::Lease { token, lease, renew }).map(|received| {
            match answer(received)? {
                Answer::Lease(answer) => Ok(answer),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// Hands leadership to a member.
    pub(crate) async fn move_leader(&self, to: u64) -> Result<(), api::Error> {
        match self.request(|token| Input::MoveLeader { token, to }).await? {
            Answer::LeaderMoved => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Hands leadership to the best voter that is connected, if this member leads and there is one.
    pub(crate) async fn give_up_leadership(&self) -> Result<(), api::Error> {
        match self.request(|token| Input::GiveUpLeadership { token }).await? {
            Answer::LeaderMoved => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// [`Node::request`] for threads that may block; failures are among the answers.
    pub(crate) fn request_blocking(&self, input: impl FnOnce(u64) -> Input) -> Result<Answer, api::Error> {
        self.handoff.request(input).blocking_recv().map(|timed| timed.answer).map_err(|_| api::Error::Stopped)
    }

    /// Submits a request and waits for its answer; a failure among the answers becomes the error.
    pub(crate) async fn request(&self, input: impl FnOnce(u64) -> Input) -> Result<Answer, api::Error> {
        answer(self.handoff.request(input).await)
    }

    /// The same for a call, which notes its phases.
    async fn request_for(
        &self,
        times: &CallTimes,
        is_write: bool,
        input: impl FnOnce(u64) -> Input,
    ) -> Result<Answer, api::Error> {
        let received = self.handoff.request(input).await;
        if let Ok(timed) = &received {
            times.answered(timed.times, is_write);
        }
        answer(received)
    }
}

fn describe(member: store::ClusterMember) -> pb::Member {
    pb::Member {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
        client_urls: member.client_urls,
        is_learner: member.learner,
    }
}

/// The answer that a channel gave; a failure among the answers becomes the error.
fn answer(received: Result<TimedAnswer, RecvError>) -> Result<Answer, api::Error> {
    match received.map(|timed| timed.answer) {
        Ok(Answer::Failed(error)) => Err(error),
        Ok(answer) => Ok(answer),
        // The raft loop has ended.
        Err(_) => Err(api::Error::Stopped),
    }
}

/// An answer of another kind than was asked for would be a mistake of ours; the client gets an error, not a panic.
fn unexpected(answer: &Answer) -> api::Error {
    tracing::error!(?answer, "unexpected answer type from the member (internal error)");
    api::Error::Unhealthy
}

/// Lease ids for clients that do not choose one: positive, and unlikely to collide with those of other members.
pub(crate) struct LeaseIds {
    member_id: u64,
    counter: AtomicU64,
}

impl LeaseIds {
    /// Ids that begin at a random number.
    pub(crate) fn starting_at(member_id: u64, random: u64) -> LeaseIds {
        LeaseIds { member_id, counter: AtomicU64::new(random) }
    }

    /// The next id: two bytes of the member's id, then a counter, as etcd builds its request ids.
    pub(crate) fn next(&self) -> i64 {
        let low = self.counter.fetch_add(1, Ordering::Relaxed) & 0x0000_ffff_ffff_ffff;
        let id = ((self.member_id << 48) | low) & (i64::MAX as u64);
        id as i64
    }
}

#[cfg(test)]
mod tests {
    //! The two sizes of the data.
    use super::*;

    #[test]
    fn no_more_is_in_use_than_is_written() {
        assert_eq!(DbSizes::of(1_000, 400), DbSizes { total: 1_000, in_use: 400 });
        assert_eq!(DbSizes::of(286, 328), DbSizes { total: 286, in_use: 286 });
    }
}
