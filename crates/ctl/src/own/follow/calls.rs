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
        let (mut failures, mut timeout) = (0, CALL_TIMEOUT);
        loop {
            let deadline = Some(Instant::now() + timeout);
            match self.client.read(method, request, deadline).await {
                Err(error) if error.is_passing() => {
                    timeout = next_timeout(timeout, &error);
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
        // A page that is late is not repeated as it is: its reader asks for a smaller one.
        if request.limit > 1 {
            let deadline = Some(Instant::now() + CALL_TIMEOUT);
            match self.client.read(methods::KV_RANGE, request, deadline).await {
                Err(error) if error.is_passing() && error != CallError::Deadline => {
                    self.wait(&error, &mut 0).await
                }
                page => return page,
            }
        }
        self.call(methods::KV_RANGE, request).await
    }
}

/// The time for the next attempt: twice as long after one that was not answered in time.
pub(super) fn next_timeout(timeout: Duration, error: &CallError) -> Duration {
    if *error == CallError::Deadline { (2 * timeout).min(MAX_CALL_TIMEOUT) } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_was_late_is_followed_by_a_longer_one() {
        let lost = CallError::Unreachable("refused".to_owned());
        assert_eq!(next_timeout(CALL_TIMEOUT, &lost), CALL_TIMEOUT);
        let mut timeout = CALL_TIMEOUT;
        for _ in 0..10 {
            timeout = next_timeout(timeout, &CallError::Deadline);
        }
        assert_eq!(timeout, MAX_CALL_TIMEOUT);
    }
}
