//! Transactions of the destination: each has changes, and the state key that says how far they go.
//!
//! The state key counts its own puts, its `version`, and each transaction compares it: it is applied only behind the
//! one before, and only once. So several may be under way, and one whose answer was lost may be sent again.
//!
//! ```text
//! sent          if version = 7 then …    if version = 8 then …    if version = 9 then …
//! answered      applied, version is 8    no answer                refused: version is still 8
//! state key     version 8, or 9 if the second was applied after all: goes on from there
//! ```

use std::rc::Rc;
use std::sync::Arc;

use api::{Code, etcdserverpb as pb, methods};
use bytes::Bytes;
use pb::compare::{CompareTarget, TargetUnion};
use pb::request_op::Request;
use prost::Message;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::FollowBoard;
use super::calls::{AttemptTimeout, FollowHalt, PatientClient};
use super::leases::LeaseCopies;
use super::state::{FollowPosition, FollowState};
use crate::client::{CallError, Client};
use crate::exit::{Exit, code};

/// Transactions under way at the most: their answers come together, after one sync of the destination.
const MAX_UNDER_WAY: usize = 64;

/// Bytes under way at the most, unless a single transaction has more.
const MAX_BYTES_UNDER_WAY: usize = 4 << 20;

/// Puts and deletes, and how far the copy has come with them.
#[derive(Clone, Debug)]
pub(super) struct FollowStep {
    pub(super) operations: Vec<pb::RequestOp>,
    pub(super) position: FollowPosition,
}

/// Writes the destination.
pub(super) struct FollowWriter {
    destination: Rc<PatientClient>,
    leases: Rc<LeaseCopies>,
    board: Rc<FollowBoard>,
    state_key: Bytes,
    state: FollowState,
    /// Puts of the state key so far.
    version: i64,
    /// Transactions under way: half as many after some came in another order than they were sent.
    window: usize,
    timeout: AttemptTimeout,
}

impl FollowWriter {
    pub(super) fn new(
        destination: Rc<PatientClient>,
        leases: Rc<LeaseCopies>,
        board: Rc<FollowBoard>,
        state_key: Bytes,
        (state, version): (FollowState, i64),
    ) -> Self {
        Self {
            destination,
            leases,
            board,
            state_key,
            state,
            version,
            window: MAX_UNDER_WAY / 4,
            timeout: AttemptTimeout::default(),
        }
    }

    /// How far the copy has come.
    pub(super) fn position(&self) -> &FollowPosition {
        &self.state.position
    }

    /// Writes steps in their order, each in one transaction.
    ///
    /// # Errors
    ///
    /// The destination refused one, or someone else wrote the state key.
    pub(super) async fn write(&mut self, mut steps: Vec<FollowStep>) -> Result<(), FollowHalt> {
        let mut done = 0;
        let mut failures = 0;
        while done < steps.len() {
            let count = fitting(&steps[done..], self.window);
            let batch = &mut steps[done..done + count];
            let (applied, refusal) = self.send(batch).await?;
            let applied = match applied == count {
                true => {
                    self.version += count as i64;
                    self.window = (self.window * 2).min(MAX_UNDER_WAY);
                    self.timeout.note_success();
                    count
                }
                false => self.find_version(count).await?,
            };
            if applied > 0 {
                failures = 0;
                self.note_applied(&batch[..applied]);
            }
            match refusal {
                // It was applied after all, or another was refused before it could be.
                _ if applied == count => {}
                None => self.window = (self.window / 2).max(1),
                Some(error) if error.is_passing() => {
                    if error == CallError::Deadline {
                        // Fewer at once, and more time for each.
                        self.window = (self.window / 2).max(1);
                    }
                    self.timeout.note_failure(&error);
                    self.destination.wait(&error, &mut failures).await;
                }
                Some(error) if error.says("etcdserver: requested lease not found") => {
                    self.grant_again(&mut batch[applied..]).await?;
                }
                Some(error) => return Err(refused(error).into()),
            }
            done += applied;
        }
        Ok(())
    }

    /// Sends steps at once. Returns how many were surely applied, and the first error.
    async fn send(&self, steps: &[FollowStep]) -> Result<(usize, Option<CallError>), FollowHalt> {
        let (mut calls, timeout) = (JoinSet::new(), self.timeout.time());
        for (at, step) in steps.iter().enumerate() {
            let request = self.request(step, self.version + at as i64);
            let client: Arc<Client> = self.destination.client.clone();
            // Tasks start in the order in which they are made, so that is the order in which requests are sent.
            calls.spawn(async move {
                let deadline = Some(Instant::now() + timeout);
                (at, client.write::<pb::TxnResponse>(methods::KV_TXN, &request, deadline).await)
            });
        }
        let mut answers = calls.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let mut applied = 0;
        for ((_, answer), step) in answers.iter().zip(steps) {
            let Some(answer) = answer.as_ref().ok().filter(|answer| answer.succeeded) else { break };
            self.check_revision(answer.header.as_ref().map_or(0, |header| header.revision), &step.position)?;
            applied += 1;
        }
        Ok((applied, answers.into_iter().find_map(|(_, answer)| answer.err())))
    }

    /// Checks that a transaction got the revision that it has in the source, if revisions are kept.
    fn check_revision(&self, revision: i64, position: &FollowPosition) -> Result<(), FollowHalt> {
        match position {
            FollowPosition::Copied { revision: wanted } if self.state.keeps_revisions && revision != *wanted => {
                Err(Exit::new(
                    code::ERROR,
                    format!(
                        "revision {wanted} of the source became revision {revision}: another client writes to the \
                         destination, so revisions cannot be kept; begin again with a new cluster"
                    ),
                )
                .into())
            }
            _ => Ok(()),
        }
    }

    fn request(&self, step: &FollowStep, version: i64) -> pb::TxnRequest {
        let state = FollowState { position: step.position.clone(), ..self.state.clone() };
        let put = pb::PutRequest { key: self.state_key.clone(), value: state.encode(), ..Default::default() };
        let mut success = step.operations.clone();
        success.push(pb::RequestOp { request: Some(Request::RequestPut(put)) });
        let compare = pb::Compare {
            target: CompareTarget::Version.into(),
            key: self.state_key.clone(),
            target_union: Some(TargetUnion::Version(version)),
            ..Default::default()
        };
        pb::TxnRequest { compare: vec![compare], success, failure: Vec::new() }
    }

    /// Asks the destination how many of the steps that were sent last it has applied.
    async fn find_version(&mut self, sent: usize) -> Result<usize, FollowHalt> {
        let (kv, _) = self.destination.get(&self.state_key).await?;
        let version = kv.as_ref().map_or(0, |kv| kv.version);
        let applied = version - self.version;
        let state = kv.as_ref().and_then(|kv| FollowState::decode(&kv.value));
        let is_ours = state.as_ref().is_some_and(|state| state.run == self.state.run);
        if applied != 0 && !is_ours || applied < 0 || applied > sent as i64 {
            let key = String::from_utf8_lossy(&self.state_key);
            return Err(Exit::new(
                code::ERROR,
                format!("another process wrote or removed the state key {key:?}: only one may follow"),
            )
            .into());
        }
        if let (Some(kv), Some(state)) = (kv, state)
            && applied > 0
        {
            self.check_revision(kv.mod_revision, &state.position)?;
        }
        self.version = version;
        // It is at most `sent`.
        Ok(applied as usize)
    }

    fn note_applied(&mut self, steps: &[FollowStep]) {
        let Some(last) = steps.last() else { return };
        self.state.position = last.position.clone();
        let written: usize = steps.iter().map(|step| step.operations.len()).sum();
        self.board.update(|figures| figures.written += written as u64);
        if let FollowPosition::Copied { revision } = last.position {
            self.board.applied(revision);
        }
    }

    /// Grants the leases of steps again, as the destination does not have one of them.
    async fn grant_again(&self, steps: &mut [FollowStep]) -> Result<(), FollowHalt> {
        for step in steps {
            let (FollowPosition::Copying { revision, .. } | FollowPosition::Copied { revision }) =
                step.position;
            for operation in &mut step.operations {
                if let Some(Request::RequestPut(put)) = &mut operation.request
                    && put.lease != 0
                {
                    self.leases.forget(put.lease);
                    put.lease = self.leases.copy(put.lease, revision).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the state key.
    ///
    /// # Errors
    ///
    /// The destination refused.
    pub(super) async fn remove_state(&self) -> Result<(), FollowHalt> {
        let request = pb::DeleteRangeRequest { key: self.state_key.clone(), ..Default::default() };
        let _: pb::DeleteRangeResponse = self.destination.call(methods::KV_DELETE_RANGE, &request).await?;
        Ok(())
    }
}

/// How many of these steps may be under way together.
fn fitting(steps: &[FollowStep], window: usize) -> usize {
    let mut bytes = 0;
    let fits = steps.iter().take(window).take_while(|step| {
        bytes += step.operations.iter().map(Message::encoded_len).sum::<usize>();
        bytes <= MAX_BYTES_UNDER_WAY
    });
    fits.count().max(1)
}

/// The end, after the destination refused a transaction for good.
fn refused(error: CallError) -> Exit {
    let advice = match &error {
        error if error.says("etcdserver: too many operations in txn request") => {
            "give --max-txn-ops the value that the destination was started with"
        }
        error if error.says("etcdserver: request is too large") || error.is_code(Code::ResourceExhausted) => {
            "the destination needs room, or a --max-request-bytes above the source's"
        }
        _ => return error.into(),
    };
    Exit {
        message: Some(format!("the destination refused a transaction: {error}: {advice}")),
        ..error.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_steps_are_under_way_or_many_small_ones() {
        let step = |bytes: usize| {
            let put = pb::PutRequest { value: vec![0; bytes].into(), ..Default::default() };
            let operation = pb::RequestOp { request: Some(Request::RequestPut(put)) };
            FollowStep { operations: vec![operation], position: FollowPosition::Copied { revision: 1 } }
        };
        let small: Vec<_> = (0..100).map(|_| step(10)).collect();
        assert_eq!((fitting(&small, 64), fitting(&small, 1)), (64, 1));
        let large: Vec<_> = (0..10).map(|_| step(1 << 20)).collect();
        assert_eq!(fitting(&large, 64), 3);
        assert_eq!(fitting(&[step(MAX_BYTES_UNDER_WAY + 1), step(1)], 64), 1);
    }
}
