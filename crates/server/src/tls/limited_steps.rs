//! Handshakes let all else that their thread does run between their steps.
//!
//! A step of a handshake computes for a third of a millisecond and more (a signature, a key exchange, the check of a
//! client's certificate), and a thousand of them may be ready at once. So a few steps run, and the next ones only when
//! every other task that is ready has run:
//!
//! ```text
//! ready: h1 h2 ... h1000, a get     h1 h2 h3 h4 run, h5 ... h1000 wait, the get runs, h5 h6 h7 h8 run, ...
//! ```
//!
//! A permit is held for one step, never while a handshake waits for its client: one that stalls delays no other.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// Steps that run one after the other on a thread: one or two milliseconds.
const MAX_STEPS_AT_ONCE: usize = 4;

thread_local! {
    /// The permits of this thread, which has one runtime.
    static STEPS: Arc<Semaphore> = Arc::new(Semaphore::new(MAX_STEPS_AT_ONCE));
}

/// A future each step of which needs a permit of its thread.
pub(super) struct LimitedSteps<F> {
    inner: F,
    steps: PollSemaphore,
}

/// Has each step of `inner` wait for a permit. To be called on the thread that runs it.
pub(super) fn limit_steps<F: Future + Unpin>(inner: F) -> LimitedSteps<F> {
    LimitedSteps { inner, steps: PollSemaphore::new(STEPS.with(Arc::clone)) }
}

impl<F: Future + Unpin> Future for LimitedSteps<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // The semaphore is never closed.
        let permit = ready!(self.steps.poll_acquire(context));
        let polled = Pin::new(&mut self.inner).poll(context);
        // Passed on when all tasks that are ready by now have run.
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(permit);
        });
        polled
    }
}

#[cfg(test)]
mod tests {
    //! A thousand handshakes beside another task.
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_between_a_few_steps_of_handshakes() {
        const HANDSHAKES: usize = 1_000;
        let steps = Arc::<AtomicUsize>::default();
        for _ in 0..HANDSHAKES {
            let steps = steps.clone();
            let mut is_first = true;
            tokio::spawn(limit_steps(poll_fn(move |context| {
                steps.fetch_add(1, Ordering::Relaxed);
                // Its client answers at once.
                context.waker().wake_by_ref();
                if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
            })));
        }
        let (mut before, mut most) = (0, 0);
        while before < 2 * HANDSHAKES {
            tokio::task::yield_now().await;
            let now = steps.load(Ordering::Relaxed);
            (most, before) = (most.max(now - before), now);
        }
        assert!((1..=2 * MAX_STEPS_AT_ONCE).contains(&most), "{most} steps before another task");
    }

    #[tokio::test]
    async fn a_handshake_that_stalls_keeps_no_permit() {
        for _ in 0..2 * MAX_STEPS_AT_ONCE {
            tokio::spawn(limit_steps(std::future::pending::<()>()));
        }
        tokio::task::yield_now().await;
        let another = limit_steps(std::future::ready(()));
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), another).await;
        assert!(ended.is_ok(), "the stalled ones keep their permits");
    }
}
