//! Renews leases.

use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use tokio::time::Instant;

use super::{CallError, Client, MessageStream, until};

/// Time between a lost stream and the next, as in etcd's client.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Renews one lease until it is gone: a third of its time to live after each answer.
pub(crate) struct KeepAlive<'c> {
    client: &'c Client,
    lease: i64,
    stream: Option<MessageStream>,
    /// When to ask again.
    due: Instant,
    /// When the lease has surely expired.
    deadline: Instant,
}

impl<'c> KeepAlive<'c> {
    /// Begins with a renewal; the first must succeed within `first` time.
    pub(crate) fn new(client: &'c Client, lease: i64, first: Duration) -> Self {
        let now = Instant::now();
        Self { client, lease, stream: None, due: now, deadline: now + first }
    }

    /// The answer to the next renewal, or none when the lease is gone.
    ///
    /// # Errors
    ///
    /// The server refused to renew it.
    pub(crate) async fn next(&mut self) -> Result<Option<pb::LeaseKeepAliveResponse>, CallError> {
        loop {
            tokio::time::sleep_until(self.due).await;
            let answer = tokio::time::timeout_at(self.deadline, self.renew()).await;
            match answer {
                Ok(Ok(answer)) if answer.ttl <= 0 => return Ok(None),
                Ok(Ok(answer)) => {
                    let ttl = Duration::from_secs(answer.ttl.unsigned_abs());
                    self.due = Instant::now() + ttl / 3;
                    self.deadline = Instant::now() + ttl;
                    return Ok(Some(answer));
                }
                Ok(Err(error)) if error.is_final() => return Err(error),
                Ok(Err(_)) => {
                    self.stream = None;
                    self.client.leave().await;
                    self.due = Instant::now() + RECONNECT_INTERVAL;
                }
                Err(_) => return Ok(None),
            }
        }
    }

    async fn renew(&mut self) -> Result<pb::LeaseKeepAliveResponse, CallError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(self.client.stream(methods::LEASE_KEEP_ALIVE, None).await?),
        };
        stream.send(&pb::LeaseKeepAliveRequest { id: self.lease }, false)?;
        let lost = || CallError::status(api::Code::Unavailable.number(), "the stream ended".to_owned());
        stream.next().await?.ok_or_else(lost)
    }
}

/// Renews a lease once.
///
/// # Errors
///
/// The lease does not exist, or the server refused.
pub(crate) async fn once(client: &Client, lease: i64) -> Result<pb::LeaseKeepAliveResponse, CallError> {
    loop {
        let mut keep_alive = KeepAlive::new(client, lease, Duration::from_secs(86_400));
        match keep_alive.renew().await {
            Ok(answer) if answer.ttl <= 0 => {
                return Err(CallError::status(
                    api::Code::NotFound.number(),
                    "etcdserver: requested lease not found".to_owned(),
                ));
            }
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_final() => return Err(error),
            Err(_) => client.leave().await,
        }
    }
}

/// Renews many leases, on one stream for as long as it lasts.
#[derive(Default)]
pub(crate) struct LeaseRenewals {
    stream: Option<MessageStream>,
}

impl LeaseRenewals {
    /// Renews leases once each. The answers are in the same order; a lease that does not exist has no time to live.
    ///
    /// # Errors
    ///
    /// The server refused, or the deadline passed: some may have been renewed.
    pub(crate) async fn renew(
        &mut self,
        client: &Client,
        leases: &[i64],
        deadline: Instant,
    ) -> Result<Vec<pb::LeaseKeepAliveResponse>, CallError> {
        // A stream of which not all answers were read is not used again.
        let kept = self.stream.take();
        let was_kept = kept.is_some();
        match until(Some(deadline), self.renew_on(client, kept, leases)).await {
            // Its token may have ended, or its connection: a new stream has new ones.
            Err(error) if was_kept && error != CallError::Deadline => {
                until(Some(deadline), self.renew_on(client, None, leases)).await
            }
            answers => answers,
        }
    }

    async fn renew_on(
        &mut self,
        client: &Client,
        stream: Option<MessageStream>,
        leases: &[i64],
    ) -> Result<Vec<pb::LeaseKeepAliveResponse>, CallError> {
        let mut stream = match stream {
            Some(stream) => stream,
            None => client.stream(methods::LEASE_KEEP_ALIVE, None).await?,
        };
        for id in leases {
            stream.send(&pb::LeaseKeepAliveRequest { id: *id }, false)?;
        }
        let lost = || CallError::status(api::Code::Unavailable.number(), "the stream ended".to_owned());
        let mut answers = Vec::with_capacity(leases.len());
        while answers.len() < leases.len() {
            answers.push(stream.next().await?.ok_or_else(lost)?);
        }
        check_leases(leases, &answers)?;
        self.stream = Some(stream);
        Ok(answers)
    }
}

/// Checks that the answers are about these leases, in their order.
fn check_leases(leases: &[i64], answers: &[pb::LeaseKeepAliveResponse]) -> Result<(), CallError> {
    match leases.iter().zip(answers).find(|(id, answer)| answer.id != **id) {
        Some((id, answer)) => Err(CallError::status(
            api::Code::Internal.number(),
            format!("the renewal of lease {id:x} was answered for lease {:x}", answer.id),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_another_lease_is_refused() {
        let answer = |id| pb::LeaseKeepAliveResponse { id, ttl: 5, ..Default::default() };
        assert_eq!(check_leases(&[1, 2], &[answer(1), answer(2)]), Ok(()));
        let refused = check_leases(&[1, 2], &[answer(2), answer(1)]).expect_err("they are exchanged");
        assert!(refused.is_passing() && !refused.is_final(), "they are renewed again: {refused}");
    }
}
