//! Limits on work that would otherwise delay everything else: large ranges and backups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::grpc::{AnswerRoom, Failure};
use crate::overload::RangeWait;

/// Ranges that have this many keys, or examine more keys and changes of the past, are encoded on a thread of their own,
/// and so are answers with as many versions: about half a millisecond of work.
pub(crate) const MIN_LARGE_RANGE_STEPS: usize = 1_000;

/// Large ranges that are encoded at once, for each core: while one waits for the disk, another has work. The others
/// wait, so that ranges take neither all memory nor hundreds of threads.
const MAX_LARGE_RANGES_PER_CORE: usize = 2;

/// Limits the large ranges that are encoded at once, first come first served.
pub(crate) struct LargeRanges {
    at_once: usize,
    permits: Arc<Semaphore>,
    wait: Arc<RangeWait>,
}

impl Default for LargeRanges {
    fn default() -> LargeRanges {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        LargeRanges::at_once(MAX_LARGE_RANGES_PER_CORE * cores)
    }
}

impl LargeRanges {
    fn at_once(count: usize) -> LargeRanges {
        let wait = Arc::new(RangeWait::at_once(count));
        LargeRanges { at_once: count, permits: Arc::new(Semaphore::new(count)), wait }
    }

    /// How long a new one for this room would wait for its permit.
    pub(crate) fn expected_wait(&self, room: &AnswerRoom) -> Duration {
        self.wait.expected(room.waiting_ranges())
    }

    /// How long the last of all would wait, whatever its connection holds back.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.wait.longest()
    }

    /// Waits for room for an answer and for a permit, then runs `encode` on a thread of its own. It runs to its end
    /// even if the caller is dropped, and counts until then. Without room no permit is taken, and as many of a
    /// connection wait for one as there are.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        room: &AnswerRoom,
        encode: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let permits = loop {
            room.wait().await;
            let held_back = self.wait.hold_back();
            let own = room.admit_range(self.at_once).await;
            let queued = self.wait.enter();
            drop(held_back);
            // The semaphore is never closed.
            let permit = self.permits.clone().acquire_owned().await.ok();
            if room.is_there() {
                break (own, permit, queued);
            }
        };
        let wait = self.wait.clone();
        tokio::task::spawn_blocking(move || {
            let _permits = permits;
            let began = Instant::now();
            let encoded = encode();
            wait.observe(began.elapsed());
            encoded
        })
    }
}

/// Backups that are made at once. Each takes about 40 MiB of memory, reads the disk as fast as its client takes it, and
/// keeps history from being purged; a third one would make no other quicker.
const MAX_BACKUPS: usize = 2;

/// Limits the backups that are made at once.
pub(crate) struct Backups {
    permits: Arc<Semaphore>,
}

impl Default for Backups {
    fn default() -> Backups {
        Backups { permits: Arc::new(Semaphore::new(MAX_BACKUPS)) }
    }
}

impl Backups {
    /// A permit, until it is dropped.
    ///
    /// # Errors
    /// When all are taken: a backup may take hours, so none waits for another.
    pub(crate) fn begin(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.permits.clone().try_acquire_owned().map_err(|_| {
            let text = format!(
                "stele: {MAX_BACKUPS} snapshots are being taken of this member; try again when one has ended"
            );
            Failure::new(api::Code::ResourceExhausted, text)
        })
    }
}

#[cfg(test)]
mod tests {
    //! Large ranges wait for a permit and return it; backups are refused without one.

    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::task::{Context, Waker};

    use super::*;

    /// One thread for blocking work: what is given to it runs in order.
    fn on_one_thread(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(test);
    }

    /// Polls a future once and drops it. Returns whether it has to wait.
    fn has_to_wait(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[test]
    fn a_large_range_does_not_begin_without_a_permit() {
        on_one_thread(async {
            let ranges = LargeRanges::at_once(2);
            let permits = ranges.permits.clone().try_acquire_many_owned(2).unwrap();
            let begun = Arc::new(AtomicBool::new(false));
            let early = begun.clone();
            assert!(has_to_wait(
                ranges.begin(&AnswerRoom::default(), move || early.store(true, Ordering::SeqCst))
            ));
            drop(permits);
            assert_eq!(ranges.begin(&AnswerRoom::default(), || 7).await.await.unwrap(), 7);
            assert!(!begun.load(Ordering::SeqCst), "a range was encoded while all permits were taken");
            assert_eq!(ranges.permits.available_permits(), 2);
        });
    }

    #[test]
    fn backlogs_of_other_connections_count_as_far_as_they_come_before() {
        on_one_thread(async {
            let ranges = LargeRanges::at_once(4);
            let each = Duration::from_millis(50);
            ranges.wait.observe(each);
            let permits = ranges.permits.clone().try_acquire_many_owned(4).unwrap();
            let rooms: Vec<_> = (0..10).map(|_| AnswerRoom::of_new_connection()).collect();
            let waiting: Vec<_> = (0..100)
                .flat_map(|_| &rooms)
                .map(|room| {
                    let mut begins = Box::pin(ranges.begin(room, || ()));
                    assert!(begins.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                    begins
                })
                .collect();
            // All 1,000 come before another one of theirs, but for the four that seem to run.
            assert_eq!([ranges.expected_wait(&rooms[0]), ranges.longest_wait()], [996 * each / 4; 2]);
            // Only what is in the queue comes before one of another connection.
            assert_eq!(ranges.expected_wait(&AnswerRoom::of_new_connection()), 36 * each / 4);
            drop((waiting, permits));
            assert_eq!([ranges.expected_wait(&rooms[0]), ranges.longest_wait()], [Duration::ZERO; 2]);
        });
    }

    #[test]
    fn a_range_without_a_caller_counts_until_it_is_encoded() {
        on_one_thread(async {
            let ranges = LargeRanges::at_once(1);
            let (finish, finished) = channel::<()>();
            drop(ranges.begin(&AnswerRoom::default(), move || finished.recv()).await);
            assert_eq!(ranges.permits.available_permits(), 0);
            finish.send(()).unwrap();
            assert_eq!(ranges.begin(&AnswerRoom::default(), || 7).await.await.unwrap(), 7);
        });
    }

    #[test]
    fn a_range_that_panics_returns_its_permit() {
        on_one_thread(async {
            let ranges = LargeRanges::at_once(1);
            assert!(ranges.begin(&AnswerRoom::default(), || panic!("a test's")).await.await.is_err());
            assert_eq!(ranges.begin(&AnswerRoom::default(), || 7).await.await.unwrap(), 7);
        });
    }

    #[test]
    fn a_backup_is_refused_while_as_many_are_made() {
        let backups = Backups::default();
        let mut made: Vec<_> = (0..MAX_BACKUPS).map(|_| backups.begin().unwrap()).collect();
        let failure = backups.begin().unwrap_err();
        assert_eq!(failure.code, api::Code::ResourceExhausted);
        made.pop();
        assert!(backups.begin().is_ok());
    }

    #[test]
    fn there_are_permits_for_every_core() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(LargeRanges::default().permits.available_permits(), 2 * cores);
    }
}
