//! The queue of what is written to the log: everything is written once, by one at a time, in order, and reported in
//! that order, and nobody sleeps over it, whether the log thread writes or a volunteer.

use shuttle::sync::Arc;
use shuttle::thread;

mod sound {
    include!(concat!(env!("OUT_DIR"), "/writes.rs"));
}

mod forgets_what_came_meanwhile {
    include!(concat!(env!("OUT_DIR"), "/writes_forgets_what_came_meanwhile.rs"));
}

mod lets_go_before_it_reports {
    include!(concat!(env!("OUT_DIR"), "/writes_lets_go_before_it_reports.rs"));
}

mod leaves_silently {
    include!(concat!(env!("OUT_DIR"), "/writes_volunteer_leaves_silently.rs"));
}

mod with_two_hands {
    include!(concat!(env!("OUT_DIR"), "/writes_with_two_hands.rs"));
}

macro_rules! scenario {
    ($writes:ident) => {
        /// The log: what was written to it, and what was reported of that.
        #[derive(Default)]
        struct Log {
            /// Somebody writes.
            in_hand: parking_lot::Mutex<bool>,
            written: parking_lot::Mutex<Vec<u32>>,
            reported: parking_lot::Mutex<Vec<u32>>,
            all: parking_lot::Condvar,
        }

        impl Log {
            fn write(&self, writes: &$writes::Writes<u32>, jobs: Vec<u32>) {
                assert!(!std::mem::replace(&mut *self.in_hand.lock(), true), "two write at once");
                self.written.lock().extend(&jobs);
                *self.in_hand.lock() = false;
                writes.written(|_| {
                    self.reported.lock().extend(jobs);
                    self.all.notify_one();
                });
            }
        }

        /// Two threads volunteer and push, a third only pushes; when all is written the queue is closed, while somebody
        /// volunteers once more.
        pub(super) fn all_is_written() {
            let writes = Arc::new($writes::Writes::default());
            let log = Arc::new(Log::default());
            let writer = {
                let (writes, log) = (writes.clone(), log.clone());
                thread::spawn(move || {
                    while let Some(jobs) = writes.wait() {
                        log.write(&writes, jobs);
                    }
                })
            };
            let volunteers = [10, 20].map(|first| {
                let (writes, log) = (writes.clone(), log.clone());
                thread::spawn(move || {
                    for job in first..first + 2 {
                        if let Some(jobs) = writes.volunteer(|| writes.push([job].into_iter())) {
                            log.write(&writes, jobs);
                        }
                    }
                    if let Some(jobs) = writes.volunteer(|| ()) {
                        log.write(&writes, jobs);
                    }
                })
            });
            writes.push([30].into_iter());
            writes.push([31].into_iter());
            let mut reported = log.reported.lock();
            log.all.wait_while(&mut reported, |reported| reported.len() < 6);
            drop(reported);
            writes.close();
            writer.join().unwrap();
            volunteers.into_iter().for_each(|volunteer| volunteer.join().unwrap());
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

mod of_forgets_what_came_meanwhile {
    use super::*;
    scenario!(forgets_what_came_meanwhile);
}

mod of_lets_go_before_it_reports {
    use super::*;
    scenario!(lets_go_before_it_reports);
}

mod of_leaves_silently {
    use super::*;
    scenario!(leaves_silently);
}

mod of_with_two_hands {
    use super::*;
    scenario!(with_two_hands);
}

#[test]
fn volunteers_and_the_log_thread_write_everything_once_and_in_order() {
    crate::holds(of_sound::all_is_written);
}

#[test]
fn a_queue_that_forgets_what_came_meanwhile_is_noticed() {
    crate::fails(of_forgets_what_came_meanwhile::all_is_written);
}

#[test]
fn a_queue_that_lets_go_before_it_reports_is_noticed() {
    crate::fails(of_lets_go_before_it_reports::all_is_written);
}

#[test]
fn a_volunteer_that_leaves_a_closed_queue_silently_is_noticed() {
    crate::fails(of_leaves_silently::all_is_written);
}

#[test]
fn a_queue_that_lets_two_write_is_noticed() {
    crate::fails(of_with_two_hands::all_is_written);
}
