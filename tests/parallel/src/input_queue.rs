//! The input queue of the raft loop: a sleeping loop is woken, no input is lost, submitters combine, and peers that
//! flood wait and continue.

use std::time::Instant;

use member::Input;
use shuttle::sync::Arc;
use shuttle::thread;

use crate::never;

mod sound {
    include!(concat!(env!("OUT_DIR"), "/input_queue.rs"));
}

mod looks_before_it_locks {
    include!(concat!(env!("OUT_DIR"), "/input_queue_looks_before_it_locks.rs"));
}

mod forgets_inputs_of_the_last_iteration {
    include!(concat!(env!("OUT_DIR"), "/input_queue_forgets_inputs_of_the_last_iteration.rs"));
}

mod wakes_one_flooder {
    include!(concat!(env!("OUT_DIR"), "/input_queue_wakes_one_flooder.rs"));
}

/// As many bytes as may be queued.
const FLOOD_BYTES: usize = 64 << 20;

macro_rules! scenarios {
    ($queue:ident) => {
        /// Two threads send; the third takes until it has all, each sender's in order.
        pub(super) fn all_arrive() {
            let queue = Arc::new($queue::InputQueue::default());
            let senders: Vec<_> = [10, 20]
                .map(|first| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        (first..first + 2).for_each(|peer| queue.submit(Input::PeerUp(peer)))
                    })
                })
                .into();
            let mut taken = Vec::new();
            while taken.len() < 4 {
                let mut inputs = Vec::new();
                queue.wait(never());
                queue.take(&mut inputs);
                taken.extend(inputs.iter().map(super::peer));
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let of = |first: u64| taken.iter().filter(move |peer| **peer / 10 == first / 10).copied();
            assert!(of(10).eq([10, 11]) && of(20).eq([20, 21]), "{taken:?}");
        }

        /// Takes all inputs, as an iteration does.
        struct Iterations {
            queue: Arc<$queue::InputQueue>,
            taken: parking_lot::Mutex<Vec<u64>>,
        }

        impl Iterations {
            /// One iteration. Returns whether all inputs have been taken.
            fn iterate(&self) -> bool {
                let mut taken = self.taken.lock();
                let mut inputs = Vec::new();
                self.queue.take(&mut inputs);
                taken.extend(inputs.iter().map(super::peer));
                taken.len() == 4
            }
        }

        impl $queue::RunIteration for Iterations {
            fn run_iteration(&self) -> Option<Instant> {
                (!self.iterate()).then(never)
            }
        }

        /// Two threads submit, and run iterations for the third while that sleeps; together they take all.
        pub(super) fn combining_takes_all() {
            let queue = Arc::new($queue::InputQueue::default());
            let iterations =
                std::sync::Arc::new(Iterations { queue: queue.clone(), taken: Default::default() });
            queue.set_runner(Some(iterations.clone()));
            let submitters: Vec<_> = [10, 20]
                .map(|first| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        (first..first + 2).for_each(|peer| queue.submit_and_run([Input::PeerUp(peer)]))
                    })
                })
                .into();
            while !iterations.iterate() {
                queue.wait(never());
            }
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            queue.set_runner(None);
            let taken = iterations.taken.lock();
            let of = |first: u64| taken.iter().filter(move |peer| **peer / 10 == first / 10).copied();
            assert!(of(10).eq([10, 11]) && of(20).eq([20, 21]), "{:?}", *taken);
        }

        /// One peer floods, two more wait; both continue when the inputs were taken, and not before.
        pub(super) fn floods_continue() {
            let queue = Arc::new($queue::InputQueue::default());
            queue.reserve_bulk(super::FLOOD_BYTES);
            queue.submit_and_run([Input::PeerUp(1)]);
            let peers: Vec<_> = (2..=3)
                .map(|peer| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        queue.reserve_bulk(1);
                        queue.submit_and_run([Input::PeerUp(peer)]);
                    })
                })
                .collect();
            let mut taken = Vec::new();
            while taken.len() < 3 {
                let mut inputs = Vec::new();
                queue.wait(never());
                queue.take(&mut inputs);
                assert!(!taken.is_empty() || inputs.len() == 1, "no frame is queued beside a flood");
                taken.extend(inputs.iter().map(super::peer));
            }
            peers.into_iter().for_each(|peer| peer.join().unwrap());
        }
    };
}

fn peer(input: &Input) -> u64 {
    let Input::PeerUp(peer) = input else { panic!("another input") };
    *peer
}

mod of_sound {
    use super::*;
    scenarios!(sound);
}

mod of_looks_before_it_locks {
    use super::*;
    scenarios!(looks_before_it_locks);
}

mod of_forgets_inputs_of_the_last_iteration {
    use super::*;
    scenarios!(forgets_inputs_of_the_last_iteration);
}

mod of_wakes_one_flooder {
    use super::*;
    scenarios!(wakes_one_flooder);
}

#[test]
fn inputs_arrive_and_the_sleeping_loop_is_woken() {
    crate::holds(of_sound::all_arrive);
}

#[test]
fn a_queue_that_looks_before_it_locks_is_noticed() {
    crate::fails(of_looks_before_it_locks::all_arrive);
}

#[test]
fn submitters_run_iterations_for_a_sleeping_loop() {
    crate::holds(of_sound::combining_takes_all);
}

#[test]
fn a_submitter_that_forgets_inputs_of_the_last_iteration_is_noticed() {
    crate::fails(of_forgets_inputs_of_the_last_iteration::combining_takes_all);
}

#[test]
fn peers_that_flood_wait_and_continue() {
    crate::holds(of_sound::floods_continue);
}

#[test]
fn a_queue_that_wakes_one_flooder_of_two_is_noticed() {
    crate::fails(of_wakes_one_flooder::floods_continue);
}
