//! Calls that are repeated until they are answered: a copy outlives lost connections and elections on both sides.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use api::{etcdserverpb as pb, methods};
use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use super::board::FollowBoard;
use crate::client::{CallError, Client};
use crate::exit::Exit;
use crate::own::pages::ReadsRanges;

/// Time that one attempt may take: a member that hangs is left after it.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that an attempt may take after others were not answered in time: a large store takes long to count its keys,
/// and a slow line to carry a large value.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Attempts in a row that must be answered in time before the next one gets less: on a slow line it may be late again.
const ATTEMPTS_BEFORE_LESS: u32 = 8;

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Failures in a row after which the operator learns of them: a change of leaders takes fewer.
const SILENT_FAILURES: u32 = 10;

/// Why a copy cannot go on as it is.
#[derive(Debug)]
pub(super) enum FollowHalt {
    /// A revision that was to be read has been compacted: up to this one, or 0 where that was not said.
    Compacted(i64),
    /// The command ends.
    Exit(Exit),
}

impl From<CallError> for FollowHalt {
    fn from(error: CallError) -> Self {
        if error.is_compacted() { Self::Compacted(0) } else { Self::Exit(error.into()) }
    }
}

impl From<Exit> for FollowHalt {
    fn from(exit: Exit) -> Self {
        Self::Exit(exit)
    }
}

/// A client whose calls are repeated while they fail for reasons that pass. They must change nothing when they are
/// repeated.
pub(super) struct PatientClient {
    pub(super) client: Arc<Client>,
    /// `source` or `destination`.
    role: &'static str,
    board: Rc<FollowBoard>,
}

impl PatientClient {
    pub(super) fn new(client: Client, role: &'static str, board: Rc<FollowBoard>) -> Self {
        Self { client: Arc::new(client), role, board }
    }

    /// Makes a call until it is answered, or refused for good.
    ///
    /// # Errors
    ///
    /// The cluster refused it for a reason that does not pass.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, CallError> {
        let (mut failures, mut timeout) = (0, AttemptTimeout::default());
        loop {
            let deadline = Some(Instant::now() + timeout.time());
            match self.client.read(method, request, deadline).await {
                Err(error) if error.is_passing() => {
                    timeout.note_failure(&error);
                    self.wait(&error, &mut failures).await;
                }
                answer => return answer,
            }
        }
    }

    /// Waits after a failed attempt; the next one goes to another member.
    pub(super) async fn wait(&self, error: &CallError, failures: &mut u32) {
        *failures += 1;
        if *failures == SILENT_FAILURES {
            self.board.note(format!("the {} does not answer ({}): trying again", self.role, error.reason()));
        }
        self.client.leave().await;
        tokio::time::sleep(RETRY_INTERVAL).await;
    }

    /// Reads a key. Returns it, if it is there, with the header of the answer.
    ///
    /// # Errors
    ///
    /// The cluster refused.
    pub(super) async fn get(
        &self,
        key: &Bytes,
    ) -> Result<(Option<api::mvccpb::KeyValue>, pb::ResponseHeader), CallError> {
        let request = pb::RangeRequest { key: key.clone(), ..Default::default() };
        let response: pb::RangeResponse = self.call(methods::KV_RANGE, &request).await?;
        Ok((response.kvs.into_iter().next(), response.header.unwrap_or_default()))
    }

    /// Counts the keys of a range. Returns how many, at which revision.
    ///
    /// # Errors
    ///
    /// The cluster refused.
    pub(super) async fn count(&self, (key, range_end): (Bytes, Bytes)) -> Result<(u64, i64), CallError> {
        let request = pb::RangeRequest { key, range_end, count_only: true, ..Default::default() };
        let response: pb::RangeResponse = self.call(methods::KV_RANGE, &request).await?;
        let revision = response.header.map_or(0, |header| header.revision);
        Ok((response.count.unsigned_abs(), revision))
    }
}

impl ReadsRanges for PatientClient {
    async fn read_page(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, CallError> {
        // A page that is late is not repeated as it is: its reader asks another member for a smaller one.
        if request.limit > 1 {
            let deadline = Some(Instant::now() + CALL_TIMEOUT);
            match self.client.read(methods::KV_RANGE, request, deadline).await {
                Err(CallError::Deadline) => {
                    self.client.leave().await;
                    return Err(CallError::Deadline);
                }
                Err(error) if error.is_passing() => self.wait(&error, &mut 0).await,
                page => return page,
            }
        }
        self.call(methods::KV_RANGE, request).await
    }
}

/// The time that an attempt may take: twice as long after one that was late, half after several in a row that were not.
pub(super) struct AttemptTimeout {
    time: Duration,
    in_time: u32,
}

impl Default for AttemptTimeout {
    fn default() -> Self {
        Self { time: CALL_TIMEOUT, in_time: 0 }
    }
}

impl AttemptTimeout {
    /// The time for the next attempt.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// An attempt failed.
    pub(super) fn note_failure(&mut self, error: &CallError) {
        if *error == CallError::Deadline {
            *self = Self { time: (2 * self.time).min(MAX_CALL_TIMEOUT), in_time: 0 };
        }
    }

    /// An attempt was answered in time.
    pub(super) fn note_success(&mut self) {
        self.in_time += 1;
        if self.in_time == ATTEMPTS_BEFORE_LESS {
            *self = Self { time: (self.time / 2).max(CALL_TIMEOUT), in_time: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_was_late_is_followed_by_a_longer_one() {
        let mut timeout = AttemptTimeout::default();
        timeout.note_failure(&CallError::Unreachable("refused".to_owned()));
        assert_eq!(timeout.time(), CALL_TIMEOUT);
        for _ in 0..10 {
            timeout.note_failure(&CallError::Deadline);
        }
        assert_eq!(timeout.time(), MAX_CALL_TIMEOUT);
    }

    #[test]
    fn attempts_that_are_answered_in_time_are_followed_by_shorter_ones() {
        let mut timeout = AttemptTimeout::default();
        timeout.note_failure(&CallError::Deadline);
        timeout.note_failure(&CallError::Deadline);
        for _ in 1..ATTEMPTS_BEFORE_LESS {
            timeout.note_success();
        }
        assert_eq!(timeout.time(), 4 * CALL_TIMEOUT);
        timeout.note_success();
        assert_eq!(timeout.time(), 2 * CALL_TIMEOUT);
        for _ in 0..10 * ATTEMPTS_BEFORE_LESS {
            timeout.note_success();
        }
        assert_eq!(timeout.time(), CALL_TIMEOUT);
    }
}
