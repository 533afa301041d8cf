//! Renews a lease.

use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use tokio::time::Instant;

use super::{CallError, Client, MessageStream};

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
