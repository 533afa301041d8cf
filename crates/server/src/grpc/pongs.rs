//! Answers to pings, delayed until the connection sends something else.
//!
//! Clients measure the round trip to the server: grpc-go sends a ping with nearly everything it receives. A write for
//! the answer alone costs both sides as much as a write that carries something, so an answer waits for what its
//! connection sends next, but no longer than [`MAX_DELAY`]. One timer a thread ends the delays of all its connections.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;

/// Longest delay: more than the delay between two deliveries to busy watchers, and far below the seconds after which a
/// client gives up a connection that does not answer.
const MAX_DELAY: Duration = Duration::from_millis(10);

/// The head of the frame: eight bytes of PING, acknowledged, for the connection.
const HEAD: [u8; 9] = [0, 0, 8, 6, 1, 0, 0, 0, 0];
const FRAME_BYTES: usize = HEAD.len() + 8;

thread_local! {
    static OWN: RefCell<Arc<Mutex<Vec<PendingPong>>>> = RefCell::default();
}

/// The answer of one connection. See the module.
#[derive(Default)]
pub(super) struct DelayedPong(Arc<PongState>);

#[derive(Default)]
struct PongState {
    waits: AtomicBool,
    /// The timer of the thread knows this connection.
    scheduled: AtomicBool,
    due: AtomicBool,
}

struct PendingPong {
    state: Arc<PongState>,
    connection: Waker,
}

impl DelayedPong {
    /// Whether `waiting`, which is all there is to send, may wait: it is one answer to a ping and not due. The
    /// connection is woken when it becomes due.
    pub(super) fn may_wait(&self, waiting: Option<&[u8]>, context: &Context<'_>) -> bool {
        let state = &self.0;
        let is_pong = waiting.is_some_and(|bytes| bytes.len() == FRAME_BYTES && bytes.starts_with(&HEAD));
        if !is_pong || state.due.load(Ordering::Relaxed) {
            return false;
        }
        state.waits.store(true, Ordering::Relaxed);
        if !state.scheduled.swap(true, Ordering::Relaxed) {
            schedule(PendingPong { state: state.clone(), connection: context.waker().clone() });
        }
        true
    }

    /// Everything that waited was sent.
    pub(super) fn sent(&self) {
        self.0.waits.store(false, Ordering::Relaxed);
        self.0.due.store(false, Ordering::Relaxed);
    }
}

/// Adds a connection to those of its thread; starts the thread's timer with the first one.
fn schedule(pending: PendingPong) {
    let own = OWN.with_borrow(Arc::clone);
    let mut connections = own.lock();
    connections.push(pending);
    let first = connections.len() == 1;
    drop(connections);
    if first {
        tokio::spawn(async move {
            tokio::time::sleep(MAX_DELAY).await;
            let connections = std::mem::take(&mut *own.lock());
            connections.into_iter().for_each(PendingPong::end);
        });
    }
}

impl PendingPong {
    fn end(self) {
        self.state.scheduled.store(false, Ordering::Relaxed);
        if self.state.waits.load(Ordering::Relaxed) {
            self.state.due.store(true, Ordering::Relaxed);
            self.connection.wake();
        }
    }
}
