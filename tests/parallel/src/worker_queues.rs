//! The queues of the RPC workers: each request gets its own answer, or an error when the raft loop has ended.

use member::peer_message::LeaseAnswer;
use member::{Answer, Input};
use shuttle::future::block_on;
use shuttle::thread;

macro_rules! queues {
    ($name:ident, $file:literal) => {
        mod $name {
            use std::sync::Arc;

            use input_queue::InputQueue;

            mod input_queue {
                include!(concat!(env!("OUT_DIR"), "/input_queue.rs"));
            }

            mod worker_queues {
                include!(concat!(env!("OUT_DIR"), $file));
            }

            /// Two threads submit requests; the raft loop ends when it has answered `answers` of them.
            pub(super) fn requested(answers: usize) {
                let inputs = Arc::new(InputQueue::default());
                let queues = Arc::new(worker_queues::WorkerQueues::new(0, inputs.clone()));
                queues.serve_shared();
                let callers = [10, 20].map(|lease| {
                    let queues = queues.clone();
                    let request = move |token| super::Input::Lease { token, lease, renew: false };
                    super::thread::spawn(move || {
                        let answered = super::block_on(queues.request(request)).ok();
                        let answer = answered.map(|worker_queues::TimedAnswer { answer, times }| {
                            assert_eq!(times, worker_queues::AnswerTimes::default());
                            answer
                        });
                        super::check(lease, answer, answers)
                    })
                });
                let mut answered = 0;
                while answered < answers {
                    let mut taken = Vec::new();
                    inputs.wait(crate::never());
                    inputs.take(&mut taken);
                    answered += taken.len();
                    queues.deliver(taken.iter().map(super::answer), worker_queues::IterationTimes::default());
                }
                if answers < callers.len() {
                    queues.close();
                }
                callers.into_iter().for_each(|caller| caller.join().unwrap());
            }
        }
    };
}

queues!(sound, "/worker_queues.rs");
queues!(count_after_they_unlocked, "/worker_queues_count_after_they_unlocked.rs");
queues!(close_before_they_say_so, "/worker_queues_close_before_they_say_so.rs");

/// The remaining time of a lease is its own number, so that an answer shows its request.
fn answer(input: &Input) -> (u64, Answer) {
    let Input::Lease { token, lease, .. } = input else { panic!("another input") };
    (*token, Answer::Lease(LeaseAnswer::Alive { remaining_s: *lease, granted_s: 60 }))
}

fn check(lease: i64, answer: Option<Answer>, answers: usize) {
    match answer {
        Some(Answer::Lease(LeaseAnswer::Alive { remaining_s, .. })) => assert_eq!(remaining_s, lease),
        Some(other) => panic!("another answer: {other:?}"),
        None => assert!(answers < 2, "no request is left without an answer"),
    }
}

#[test]
fn requests_are_answered() {
    crate::holds(|| sound::requested(2));
}

#[test]
fn queues_that_count_after_they_unlocked_are_noticed() {
    crate::fails(|| count_after_they_unlocked::requested(2));
}

#[test]
fn no_request_waits_for_a_loop_that_has_ended() {
    crate::holds(|| sound::requested(0));
    crate::holds(|| sound::requested(1));
}

#[test]
fn queues_that_close_before_they_say_so_are_noticed() {
    crate::fails(|| close_before_they_say_so::requested(0));
}
