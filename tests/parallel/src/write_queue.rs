//! The write queue: every job is written once, by one thread at a time, in order, and reported in that order, and no
//! thread sleeps while jobs are queued, whether the log thread or an inline flusher writes them.

use shuttle::sync::Arc;
use shuttle::thread;

mod sound {
    include!(concat!(env!("OUT_DIR"), "/write_queue.rs"));
}

mod forgets_jobs_of_the_last_write {
    include!(concat!(env!("OUT_DIR"), "/write_queue_forgets_jobs_of_the_last_write.rs"));
}

mod releases_before_it_reports {
    include!(concat!(env!("OUT_DIR"), "/write_queue_releases_before_it_reports.rs"));
}

mod leaves_silently {
    include!(concat!(env!("OUT_DIR"), "/write_queue_inline_flusher_leaves_silently.rs"));
}

mod with_two_flushers {
    include!(concat!(env!("OUT_DIR"), "/write_queue_with_two_flushers.rs"));
}

macro_rules! scenario {
    ($module:ident) => {
        /// The log: what was written to it, and what was reported of that.
        #[derive(Default)]
        struct Log {
            /// A thread writes.
            is_written: parking_lot::Mutex<bool>,
            written: parking_lot::Mutex<Vec<u32>>,
            reported: parking_lot::Mutex<Vec<u32>>,
            all: parking_lot::Condvar,
        }

        impl Log {
            fn write(&self, queue: &$module::WriteQueue<u32>, jobs: Vec<u32>) {
                assert!(!std::mem::replace(&mut *self.is_written.lock(), true), "two threads write at once");
                self.written.lock().extend(&jobs);
                *self.is_written.lock() = false;
                queue.finish(|_| {
                    self.reported.lock().extend(jobs);
                    self.all.notify_one();
                });
            }
        }

        /// Two threads push and flush inline, a third only pushes; when all is written the queue is closed, while a
        /// thread flushes inline once more.
        pub(super) fn all_is_written() {
            let queue = Arc::new($module::WriteQueue::default());
            let log = Arc::new(Log::default());
            let writer = {
                let (queue, log) = (queue.clone(), log.clone());
                thread::spawn(move || {
                    while let Some(jobs) = queue.take() {
                        log.write(&queue, jobs);
                    }
                })
            };
            let flushers = [10, 20].map(|first| {
                let (queue, log) = (queue.clone(), log.clone());
                thread::spawn(move || {
                    for job in first..first + 2 {
                        if let Some(jobs) = queue.take_inline(|| queue.push([job].into_iter())) {
                            log.write(&queue, jobs);
                        }
                    }
                    if let Some(jobs) = queue.take_inline(|| ()) {
                        log.write(&queue, jobs);
                    }
                })
            });
            queue.push([30].into_iter());
            queue.push([31].into_iter());
            let mut reported = log.reported.lock();
            log.all.wait_while(&mut reported, |reported| reported.len() < 6);
            drop(reported);
            queue.close();
            writer.join().unwrap();
            flushers.into_iter().for_each(|flusher| flusher.join().unwrap());
            let written = log.written.lock();
            for first in [10, 20, 30] {
                let of = written.iter().filter(|job| **job / 10 == first / 10).copied();
                assert!(of.eq([first, first + 1]), "{:?}", *written);
            }
            assert_eq!(*written, *log.reported.lock(), "reported in the order of the writes");
        }
    };
}

mod of_sound {
    use super::*;
    scenario!(sound);
}

mod of_forgets_jobs_of_the_last_write {
    use super::*;
    scenario!(forgets_jobs_of_the_last_write);
}

mod of_releases_before_it_reports {
    use super::*;
    scenario!(releases_before_it_reports);
}

mod of_leaves_silently {
    use super::*;
    scenario!(leaves_silently);
}

mod of_with_two_flushers {
    use super::*;
    scenario!(with_two_flushers);
}

#[test]
fn inline_flushers_and_the_log_thread_write_everything_once_and_in_order() {
    crate::holds(of_sound::all_is_written);
}

#[test]
fn a_queue_that_forgets_jobs_of_the_last_write_is_noticed() {
    crate::fails(of_forgets_jobs_of_the_last_write::all_is_written);
}

#[test]
fn a_queue_that_releases_before_it_reports_is_noticed() {
    crate::fails(of_releases_before_it_reports::all_is_written);
}

#[test]
fn an_inline_flusher_that_leaves_a_closed_queue_silently_is_noticed() {
    crate::fails(of_leaves_silently::all_is_written);
}

#[test]
fn a_queue_with_two_flushers_is_noticed() {
    crate::fails(of_with_two_flushers::all_is_written);
}
