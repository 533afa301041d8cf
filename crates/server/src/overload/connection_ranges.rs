//! The long ranges of one connection in the queue of all.
//!
//! Long ranges are made by few threads, first come first served. A connection has as many of them in that queue as are
//! made at a time, and its others wait here. So a range waits for at most 2 per core of each other connection, not for
//! the hundreds that one of them may ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::range_wait::CountedRange;

/// The long ranges of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionRanges {
    permits: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

impl ConnectionRanges {
    /// So many may be in the queue, or made, at a time.
    pub(crate) fn at_once(count: usize) -> ConnectionRanges {
        ConnectionRanges { permits: Arc::new(Semaphore::new(count)), waiting: Arc::default() }
    }

    /// Waits until another one may be in the queue, which lasts until the permit is dropped.
    pub(crate) async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let _waiting = CountedRange::of(&self.waiting);
        // The semaphore is never closed.
        self.permits.clone().acquire_owned().await.ok()
    }

    /// How many wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    //! Permits are given back, and those that wait are counted.
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_range_that_ends_makes_room_for_the_next_one() {
        let ranges = ConnectionRanges::at_once(2);
        let context = &mut Context::from_waker(Waker::noop());
        let mut admitted: Vec<_> = Vec::new();
        for _ in 0..2 {
            let Poll::Ready(permit) = pin!(ranges.admit()).poll(context) else { panic!("two are admitted") };
            admitted.push(permit.expect("open"));
        }
        let mut third = pin!(ranges.admit());
        assert!(third.as_mut().poll(context).is_pending());
        {
            let mut given_up = pin!(ranges.admit());
            assert!(given_up.as_mut().poll(context).is_pending());
            assert_eq!(ranges.waiting(), 2);
        }
        assert_eq!(ranges.waiting(), 1);
        admitted.pop();
        assert!(third.as_mut().poll(context).is_ready());
        assert_eq!(ranges.waiting(), 0);
    }
}
