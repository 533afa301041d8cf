//! Repairs of the damaged values that the watchers of one stream wait for.
//!
//! A value of which no peer has an intact copy stays damaged, and each attempt to repair it reads the disk and asks
//! all peers. A pause follows an attempt that failed, and the next one is twice as long. The stream serves its other
//! watchers meanwhile.
//!
//! ```text
//! watcher 1 needs 7:4096   attempt fails   pause 100 ms   attempt fails   pause 200 ms   ...   pause 5 s   ...
//! watcher 2 needs 9:128    attempt succeeds: both the watcher's value and the next pause of watcher 1 are as new
//! ```
//!
//! At most one attempt for each address is under way, so a stream has no more of them than watchers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use store::Damaged;

use crate::node::Node;

/// The pause after the first attempt that failed.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: what a value waits for if its peer comes back.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How an attempt ended.
struct RepairAttempt {
    address: u64,
    is_repaired: bool,
}

/// The repairs of one stream.
pub(super) struct WatcherRepairs<'a> {
    under_way: FuturesUnordered<BoxFuture<'a, RepairAttempt>>,
    /// Of the values in `under_way`.
    addresses: BTreeSet<u64>,
    /// The pause after the next attempt that fails.
    pause: Duration,
}

impl<'a> WatcherRepairs<'a> {
    pub(super) fn new() -> WatcherRepairs<'a> {
        WatcherRepairs { under_way: FuturesUnordered::new(), addresses: BTreeSet::new(), pause: MIN_PAUSE }
    }

    /// Begins to repair a value, unless its repair is under way.
    pub(super) fn begin(&mut self, node: &'a Node, damaged: Damaged) {
        self.attempt(damaged.address, async move {
            // A value that was relocated meanwhile looks damaged too; the member knows that it is not.
            let repaired = node.repair(&damaged).await;
            if let Err(reason) = &repaired {
                let message = "watchers wait for a damaged value of which no peer has an intact copy";
                tracing::warn!(error = %damaged, %reason, "{message}");
            }
            repaired.is_ok()
        });
    }

    fn attempt(&mut self, address: u64, repair: impl Future<Output = bool> + Send + 'a) {
        if !self.addresses.insert(address) {
            return;
        }
        let pause = self.pause;
        self.under_way.push(Box::pin(async move {
            let is_repaired = repair.await;
            if !is_repaired {
                tokio::time::sleep(pause).await;
            }
            RepairAttempt { address, is_repaired }
        }));
    }

    /// Waits until an attempt and its pause have ended, forever if none is under way. Returns the address of the
    /// value, which its watchers read again.
    pub(super) async fn ended(&mut self) -> u64 {
        let Some(attempt) = self.under_way.next().await else { return std::future::pending().await };
        self.addresses.remove(&attempt.address);
        self.pause = if attempt.is_repaired { MIN_PAUSE } else { MAX_PAUSE.min(2 * self.pause) };
        attempt.address
    }
}

#[cfg(test)]
mod tests {
    //! How often a value is tried that stays damaged, and what does not wait for it.
    use std::future::{pending, ready};

    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_that_stays_damaged_is_tried_ever_more_rarely() {
        let (mut repairs, began, mut attempts) = (WatcherRepairs::new(), Instant::now(), 0);
        while began.elapsed() < Duration::from_mins(1) {
            repairs.attempt(7, ready(false));
            assert_eq!(repairs.ended().await, 7);
            attempts += 1;
        }
        // 0.1, 0.2, 0.4, 0.8, 1.6 and 3.2 s, then 5 s each.
        assert_eq!(attempts, 17);
        repairs.attempt(7, ready(true));
        assert_eq!(repairs.ended().now_or_never(), Some(7), "no pause follows a success");
        let again = Instant::now();
        repairs.attempt(7, ready(false));
        repairs.ended().await;
        assert_eq!(again.elapsed(), MIN_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_does_not_wait_for_another() {
        let mut repairs = WatcherRepairs::new();
        assert_eq!(repairs.ended().now_or_never(), None, "nothing is under way");
        repairs.attempt(7, pending());
        repairs.attempt(7, ready(true));
        assert_eq!(repairs.ended().now_or_never(), None, "the repair of this value is under way");
        repairs.attempt(8, ready(true));
        assert_eq!(repairs.ended().now_or_never(), Some(8));
    }
}
