//! Answers to pings that wait for company.
//!
//! Clients measure the way to the server: grpc-go sends a ping with nearly everything it receives. A write for the
//! answer alone costs both sides as much as a write that carries something, so an answer waits for what its connection
//! sends next, but no longer than [`MAX_WAIT`]. The connections of a thread are told together that their answers have
//! waited long enough, by one timer.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;

/// The longest wait: beyond the rest between two deliveries to busy watchers, and far below the seconds after which a
/// client gives up a connection that does not answer.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// The frame of an answer: eight bytes of PING, acknowledged, for the connection.
const HEAD: [u8; 9] = [0, 0, 8, 6, 1, 0, 0, 0, 0];
const BYTES: usize = HEAD.len() + 8;

thread_local! {
    static OWN: RefCell<Arc<Mutex<Vec<Waiting>>>> = RefCell::default();
}

/// The answer of one connection. See the module.
#[derive(Default)]
pub(super) struct Pong(Arc<State>);

#[derive(Default)]
struct State {
    waits: AtomicBool,
    /// The thread's timer has this connection on its list.
    listed: AtomicBool,
    due: AtomicBool,
}

struct Waiting {
    state: Arc<State>,
    connection: Waker,
}

impl Pong {
    /// Whether `written`, which is all there is to send, may wait: it is one answer to a ping and not due. The
    /// connection is woken when it is.
    pub(super) fn may_wait(&self, written: &[u8], context: &Context<'_>) -> bool {
        let state = &self.0;
        if written.len() != BYTES || written[..HEAD.len()] != HEAD || state.due.load(Ordering::Relaxed) {
            return false;
        }
        state.waits.store(true, Ordering::Relaxed);
        if !state.listed.swap(true, Ordering::Relaxed) {
            list(Waiting { state: state.clone(), connection: context.waker().clone() });
        }
        true
    }

    /// What waited was sent.
    pub(super) fn sent(&self) {
        self.0.waits.store(false, Ordering::Relaxed);
        self.0.due.store(false, Ordering::Relaxed);
    }
}

/// Puts a connection on the list of its thread, whose timer runs while there is any.
fn list(waiting: Waiting) {
    let own = OWN.with_borrow(Arc::clone);
    let mut list = own.lock();
    list.push(waiting);
    let first = list.len() == 1;
    drop(list);
    if first {
        tokio::spawn(async move {
            tokio::time::sleep(MAX_WAIT).await;
            let list = std::mem::take(&mut *own.lock());
            list.into_iter().for_each(Waiting::end);
        });
    }
}

impl Waiting {
    fn end(self) {
        self.state.listed.store(false, Ordering::Relaxed);
        if self.state.waits.load(Ordering::Relaxed) {
            self.state.due.store(true, Ordering::Relaxed);
            self.connection.wake();
        }
    }
}
