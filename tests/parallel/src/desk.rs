//! Desks: whoever asks is answered, by the answer to his question, or let go when the deciding thread has ended.

use member::peer_message::LeaseAnswer;
use member::{Answer, Input};
use shuttle::future::block_on;
use shuttle::thread;

macro_rules! desk {
    ($name:ident, $file:literal) => {
        mod $name {
            use std::sync::Arc;

            use mailbox::Mailbox;

            mod mailbox {
                include!(concat!(env!("OUT_DIR"), "/mailbox.rs"));
            }

            mod desk {
                include!(concat!(env!("OUT_DIR"), $file));
            }

            /// Two threads ask; the deciding thread ends when it has answered `answers` questions.
            pub(super) fn asked(answers: usize) {
                let mailbox = Arc::new(Mailbox::default());
                let desks = Arc::new(desk::Desks::new(0, mailbox.clone()));
                desks.run_first();
                let askers = [10, 20].map(|lease| {
                    let desks = desks.clone();
                    let ask = move |token| super::Input::Lease { token, lease, renew: false };
                    super::thread::spawn(move || {
                        super::check(lease, super::block_on(desks.ask(ask)).ok(), answers)
                    })
                });
                let mut answered = 0;
                while answered < answers {
                    let mut inputs = Vec::new();
                    mailbox.wait(crate::never());
                    mailbox.take(&mut inputs);
                    answered += inputs.len();
                    desks.deliver(inputs.iter().map(super::answer));
                }
                if answers < askers.len() {
                    desks.close();
                }
                askers.into_iter().for_each(|asker| asker.join().unwrap());
            }
        }
    };
}

desk!(sound, "/desk.rs");
desk!(counts_after_it_unlocked, "/desk_counts_after_it_unlocked.rs");
desk!(closes_before_it_says_so, "/desk_closes_before_it_says_so.rs");

/// What is left of a lease is its own number, so that an answer tells its question.
fn answer(input: &Input) -> (u64, Answer) {
    let Input::Lease { token, lease, .. } = input else { panic!("another input") };
    (*token, Answer::Lease(LeaseAnswer::Alive { remaining_s: *lease, granted_s: 60 }))
}

fn check(lease: i64, answer: Option<Answer>, answers: usize) {
    match answer {
        Some(Answer::Lease(LeaseAnswer::Alive { remaining_s, .. })) => assert_eq!(remaining_s, lease),
        Some(other) => panic!("another answer: {other:?}"),
        None => assert!(answers < 2, "nobody was let go"),
    }
}

#[test]
fn questions_are_answered() {
    crate::holds(|| sound::asked(2));
}

#[test]
fn a_desk_that_counts_after_it_unlocked_is_noticed() {
    crate::fails(|| counts_after_it_unlocked::asked(2));
}

#[test]
fn nobody_waits_for_a_thread_that_has_ended() {
    crate::holds(|| sound::asked(0));
    crate::holds(|| sound::asked(1));
}

#[test]
fn a_desk_that_closes_before_it_says_so_is_noticed() {
    crate::fails(|| closes_before_it_says_so::asked(0));
}
