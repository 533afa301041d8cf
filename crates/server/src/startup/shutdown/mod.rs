//! How a member ends: first the calls of its clients, then the raft loop, which serves them until then.
//!
//! ```text
//! a signal                                    the member has applied its own removal
//! leadership moves                            (it has moved before)
//! client connections: GOAWAY, and no new ones client connections: GOAWAY, and no new ones
//! calls that run are answered                 calls that run are answered, or refused as not taken
//! Input::Stop: a last checkpoint              it stays for the votes of others until they refuse it
//! the process ends                            Input::Stop, and the process ends with an error
//! ```
//!
//! A client that received the GOAWAY sends its next calls to other members, and its library sends those again by itself
//! that were not begun here, or not taken. So no call fails as long as others serve. Streams without an end, such as
//! watches, end with their connections, when all other calls of the connection are answered. Each step has a limit, so
//! that the process ends soon also if a client does not answer, or no quorum does.

use std::sync::Arc;
use std::time::Duration;

use member::Input;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::service_manager;
use crate::node::Node;
use crate::raft_loop::LoopEnd;
use crate::rpc::RpcWorkers;

/// Time in which a leader that stops tries to transfer leadership first: an election without a transfer would be over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(1);

/// Time from the beginning of the end in which clients should be through with their calls.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What of it is left to them at least when the transfer of leadership takes long.
const MIN_DRAIN_TIME: Duration = Duration::from_millis(250);

/// Time in which what is left, answers that no call has a use for among it, should leave after the raft loop has ended.
pub(super) const CLOSING_TIMEOUT: Duration = Duration::from_millis(200);

/// Why the server could not start, or had to stop.
pub(super) type ServerError = Box<dyn std::error::Error + Send + Sync>;

/// What the other parts of the process learn, and say, about its end. Each clone shares the tokens.
#[derive(Clone, Default)]
pub(super) struct EndTokens {
    /// Client ports take no new connections, and end those they have cleanly.
    pub(super) clients: CancellationToken,
    /// So do all other ports. Peers are accepted for as long as the raft loop runs.
    pub(super) others: CancellationToken,
    /// This member has applied its own removal.
    pub(super) removed: CancellationToken,
    /// The others refuse it since: they need it no more.
    pub(super) refused: CancellationToken,
}

/// The signals that end a process. One that comes while it is not waited for is not lost.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn new() -> std::io::Result<EndSignals> {
        Ok(EndSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A member that serves, from here to its end.
pub(super) struct Serving {
    pub(super) node: Arc<Node>,
    pub(super) workers: Arc<RpcWorkers>,
    pub(super) ports: Vec<JoinHandle<()>>,
    pub(super) ending: EndTokens,
}

impl Serving {
    /// Serves until the member receives a signal, was removed, or cannot go on; returns when its calls have ended, or
    /// their time is over.
    ///
    /// # Errors
    /// Why the raft loop has ended, unless it was told to.
    pub(super) async fn until_ended(self, end: &mut LoopEnd) -> Result<(), ServerError> {
        let mut signals = EndSignals::new()?;
        let result = tokio::select! {
            () = signals.next() => {
                let began = Instant::now();
                tracing::info!("received a signal; shutting down");
                service_manager::stopping();
                transfer_leadership(&self.node).await;
                self.drain_clients(began).await;
                self.stop(end).await
            }
            () = self.ending.removed.cancelled() => {
                let began = Instant::now();
                tracing::info!("this member was removed; its clients are sent to other members");
                service_manager::stopping();
                self.drain_clients(began).await;
                tokio::select! {
                    () = signals.next() => self.stop(end).await,
                    () = self.ending.refused.cancelled() => self.stop(end).await,
                    result = wait_end(end) => result,
                }
            }
            result = wait_end(end) => result,
        };
        self.ending.clients.cancel();
        self.ending.others.cancel();
        let Serving { workers, ports, .. } = self;
        let closed = async {
            for port in ports {
                let _ = port.await;
            }
            workers.drained().await;
        };
        let _ = timeout(CLOSING_TIMEOUT, closed).await;
        result
    }

    /// Sends the clients to other members, and waits until the calls that run are answered.
    async fn drain_clients(&self, began: Instant) {
        self.ending.clients.cancel();
        let until = (began + DRAIN_TIMEOUT).max(Instant::now() + MIN_DRAIN_TIME);
        if timeout_at(until, self.workers.drained()).await.is_err() {
            tracing::warn!("shutdown timeout: some client calls were still running");
        }
    }

    async fn stop(&self, end: &mut LoopEnd) -> Result<(), ServerError> {
        self.node.handoff.submit(Input::Stop);
        wait_end(end).await
    }
}

async fn wait_end(end: &mut LoopEnd) -> Result<(), ServerError> {
    let ended = end.wait_for(Option::is_some).await;
    match ended.ok().and_then(|ended| ended.clone()) {
        Some(Ok(())) => Ok(()),
        Some(Err(fatal)) => Err(fatal.into()),
        None => Err("the raft loop exited without a result".into()),
    }
}

/// A leader that stops transfers leadership first, so that the cluster need not wait for an election.
async fn transfer_leadership(node: &Node) {
    if node.status.leader() == node.member_id {
        let moved = timeout(TRANSFER_TIMEOUT, node.give_up_leadership()).await;
        let leader = format!("{:x}", node.status.leader());
        tracing::info!(ok = matches!(moved, Ok(Ok(()))), leader, "leadership transfer before shutdown");
    }
}
