//! What the services share: this process's view of its member, and the way to ask it for something.
//!
//! A handler never touches the member. It reads the store through its reader, opens streams on the watch hub, and
//! sends everything else to the deciding thread, waiting for the answer on a channel of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::etcdserverpb::ResponseHeader;
use bytes::Bytes;
use member::batch::Kind;
use member::peer_message::LeaseAnswer;
use member::{Answer, Input, Proposal, Status};
use store::watch::Hub;
use store::{Damaged, HashKvReply, Outcome, Reader, Values};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use crate::driver::{Desks, Mailbox};
use crate::metrics::Metrics;

#[cfg(test)]
mod tests;

/// Limits that handlers enforce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `--max-request-bytes`.
    pub(crate) max_request_bytes: usize,
    /// `--max-txn-ops`.
    pub(crate) max_txn_ops: usize,
    /// Leases shorter than this, in seconds, are granted this: a shorter one could run out during an election.
    pub(crate) min_lease_ttl: i64,
    /// `--quota-backend-bytes`, as Status reports it.
    pub(crate) quota_bytes: u64,
    /// `--watch-progress-notify-interval`.
    pub(crate) progress_interval: std::time::Duration,
    /// `--warning-unary-request-duration`.
    pub(crate) slow_request: std::time::Duration,
}

/// The member as the services see it.
pub(crate) struct Node {
    pub(crate) cluster_id: u64,
    pub(crate) member_id: u64,
    pub(crate) reader: Reader,
    pub(crate) values: Arc<dyn Values>,
    pub(crate) log: log::Reader,
    pub(crate) hub: Hub,
    pub(crate) status: Arc<Status>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) desks: Arc<Desks>,
    pub(crate) lease_ids: LeaseIds,
    pub(crate) admission: Admission,
    pub(crate) large_ranges: LargeRanges,
}

/// Bytes of large commands that may be on their way at once. Clients that send more wait their turn here, instead of
/// having everybody's time run out at the disk.
const MAX_LARGE_BYTES: usize = 64 << 20;

/// Commands from this size on count as large; smaller ones are limited by their number alone.
const LARGE_BYTES: usize = 64 << 10;

/// Lets large commands in, a bounded number of bytes at a time, first come first served.
pub(crate) struct Admission {
    kilobytes: Semaphore,
}

impl Default for Admission {
    fn default() -> Admission {
        Admission { kilobytes: Semaphore::new(MAX_LARGE_BYTES >> 10) }
    }
}

impl Admission {
    /// Waits until a command of this size may go; it counts until the permit is dropped.
    async fn admit(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        if bytes < LARGE_BYTES {
            return None;
        }
        let kilobytes = (bytes >> 10).min(MAX_LARGE_BYTES >> 10) as u32;
        // The semaphore is never closed.
        self.kilobytes.acquire_many(kilobytes).await.ok()
    }
}

/// Long lists that are made at once, for each core: while one waits for the disk, another has work. The others wait
/// their turn, so that what is being made takes neither all memory nor hundreds of threads.
const LONG_LISTS_PER_CORE: usize = 2;

/// Lets long lists in, first come first served.
pub(crate) struct LargeRanges {
    turns: Arc<Semaphore>,
}

impl Default for LargeRanges {
    fn default() -> LargeRanges {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        LargeRanges::at_once(LONG_LISTS_PER_CORE * cores)
    }
}

impl LargeRanges {
    fn at_once(turns: usize) -> LargeRanges {
        LargeRanges { turns: Arc::new(Semaphore::new(turns)) }
    }

    /// Begins to make a list when its turn has come, on a thread of its own. What has begun is made to its end even if
    /// nobody waits for it any more: until then it counts.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        list: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        // The semaphore is never closed.
        let turn = self.turns.clone().acquire_owned().await.ok();
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            list()
        })
    }
}

impl Node {
    /// The header of a response at `revision`.
    pub(crate) fn header(&self, revision: i64) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision,
            raft_term: self.status.term(),
        }
    }

    /// The header of a response about now.
    pub(crate) fn header_now(&self) -> ResponseHeader {
        self.header(self.reader.current_revision())
    }

    /// Whether a leader is known.
    pub(crate) fn has_leader(&self) -> bool {
        self.status.leader() != 0
    }

    /// Keeps the files that references found from now on point into.
    pub(crate) fn pin(&self) -> log::Pin {
        self.log.pin()
    }

    /// Whether this member has no vote.
    pub(crate) fn is_learner(&self) -> bool {
        self.reader.members().iter().any(|member| member.id == self.member_id && member.learner)
    }

    /// Waits until a damaged value has been fetched from a peer.
    ///
    /// # Errors
    /// When no peer had it in time.
    pub(crate) async fn repair(&self, damaged: &Damaged) -> Result<(), api::Error> {
        tracing::error!(error = %damaged, "found damaged data");
        let address = damaged.address;
        match self.ask(|token| Input::Repair { token, address }).await? {
            Answer::Repaired => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Hashes all versions up to `revision`, letting other tasks in.
    ///
    /// # Errors
    /// Those of [`Reader::hash_kv`].
    pub(crate) async fn hash_kv(&self, revision: i64) -> Result<HashKvReply, api::Error> {
        let mut hashing = self.reader.hash_kv(revision)?;
        loop {
            match hashing.step() {
                Some(reply) => return Ok(reply),
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Replicates a command and waits until it is applied here.
    ///
    /// # Errors
    /// That of the store, or why there was no agreement.
    pub(crate) async fn propose(&self, kind: Kind, body: Bytes) -> Outcome {
        let _admitted = self.admission.admit(body.len()).await;
        let answer = self.ask(|token| Input::Propose(Proposal { token, kind, body })).await?;
        match answer {
            Answer::Applied(outcome) => outcome,
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until the local state has everything that was acknowledged anywhere before this call.
    pub(crate) async fn linearize(&self) -> Result<(), api::Error> {
        match self.ask(|token| Input::Read { token }).await? {
            Answer::ReadNow => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Renews a lease, or asks the leader what is left of it.
    pub(crate) async fn lease(&self, lease: i64, renew: bool) -> Result<LeaseAnswer, api::Error> {
        match self.ask(|token| Input::Lease { token, lease, renew }).await? {
            Answer::Lease(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Hands leadership to a member.
    pub(crate) async fn move_leader(&self, to: u64) -> Result<(), api::Error> {
        match self.ask(|token| Input::MoveLeader { token, to }).await? {
            Answer::LeaderMoved => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// [`Node::ask`] for threads that may block.
    pub(crate) fn ask_blocking(&self, input: impl FnOnce(u64) -> Input) -> Result<Answer, api::Error> {
        self.desks.ask(input).blocking_recv().map_err(|_| api::Error::Stopped)
    }

    /// Asks the deciding thread and waits for its answer; a failure among the answers becomes the error.
    pub(crate) async fn ask(&self, input: impl FnOnce(u64) -> Input) -> Result<Answer, api::Error> {
        match self.desks.ask(input).await {
            Ok(Answer::Failed(error)) => Err(error),
            Ok(answer) => Ok(answer),
            // The deciding thread is gone.
            Err(_) => Err(api::Error::Stopped),
        }
    }
}

/// An answer of another kind than was asked for would be a mistake of ours; the client gets an error, not a panic.
fn unexpected(answer: &Answer) -> api::Error {
    tracing::error!(?answer, "the member answered something that was not asked");
    api::Error::Unhealthy
}

/// Lease ids for clients that do not choose one: positive, and unlikely to meet those of other members.
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
