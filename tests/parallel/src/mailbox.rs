//! The mailbox of those who decide: whoever sleeps is woken, nothing is lost, turns are taken for a sleeper, floods
//! wait and go on.

use std::time::Instant;

use member::Input;
use shuttle::sync::Arc;
use shuttle::thread;

use crate::never;

mod sound {
    include!(concat!(env!("OUT_DIR"), "/mailbox.rs"));
}

mod looks_before_it_locks {
    include!(concat!(env!("OUT_DIR"), "/mailbox_looks_before_it_locks.rs"));
}

mod forgets_what_came_meanwhile {
    include!(concat!(env!("OUT_DIR"), "/mailbox_forgets_what_came_meanwhile.rs"));
}

mod wakes_one_flooder {
    include!(concat!(env!("OUT_DIR"), "/mailbox_wakes_one_flooder.rs"));
}

/// As much as may lie in a mailbox.
const FLOOD_BYTES: usize = 64 << 20;

macro_rules! scenarios {
    ($mailbox:ident) => {
        /// Two threads send; the third takes until it has all, each sender's in order.
        pub(super) fn all_arrive() {
            let mailbox = Arc::new($mailbox::Mailbox::default());
            let senders: Vec<_> = [10, 20]
                .map(|first| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || {
                        (first..first + 2).for_each(|peer| mailbox.send(Input::PeerUp(peer)))
                    })
                })
                .into();
            let mut taken = Vec::new();
            while taken.len() < 4 {
                let mut inputs = Vec::new();
                mailbox.wait(never());
                mailbox.take(&mut inputs);
                taken.extend(inputs.iter().map(super::peer));
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let of = |first: u64| taken.iter().filter(move |peer| **peer / 10 == first / 10).copied();
            assert!(of(10).eq([10, 11]) && of(20).eq([20, 21]), "{taken:?}");
        }

        /// Takes what lies in a mailbox, for whoever decides.
        struct Seat {
            mailbox: Arc<$mailbox::Mailbox>,
            taken: parking_lot::Mutex<Vec<u64>>,
        }

        impl Seat {
            /// Whether all has been taken.
            fn turn(&self) -> bool {
                let mut taken = self.taken.lock();
                let mut inputs = Vec::new();
                self.mailbox.take(&mut inputs);
                taken.extend(inputs.iter().map(super::peer));
                taken.len() == 4
            }
        }

        impl $mailbox::Turn for Seat {
            fn take(&self) -> Option<Instant> {
                (!self.turn()).then(never)
            }
        }

        /// Two threads bring news and take turns for the third while that sleeps; together they take all.
        pub(super) fn turns_take_all() {
            let mailbox = Arc::new($mailbox::Mailbox::default());
            let seat = std::sync::Arc::new(Seat { mailbox: mailbox.clone(), taken: Default::default() });
            mailbox.set_turn(Some(seat.clone()));
            let bringers: Vec<_> = [10, 20]
                .map(|first| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || {
                        (first..first + 2).for_each(|peer| mailbox.bring(vec![Input::PeerUp(peer)]))
                    })
                })
                .into();
            while !seat.turn() {
                mailbox.wait(never());
            }
            bringers.into_iter().for_each(|bringer| bringer.join().unwrap());
            mailbox.set_turn(None);
            let taken = seat.taken.lock();
            let of = |first: u64| taken.iter().filter(move |peer| **peer / 10 == first / 10).copied();
            assert!(of(10).eq([10, 11]) && of(20).eq([20, 21]), "{:?}", *taken);
        }

        /// One peer floods, two more wait; both go on when the mailbox was emptied, and not before.
        pub(super) fn floods_go_on() {
            let mailbox = Arc::new($mailbox::Mailbox::default());
            mailbox.make_room(super::FLOOD_BYTES);
            mailbox.bring(vec![Input::PeerUp(1)]);
            let peers: Vec<_> = (2..=3)
                .map(|peer| {
                    let mailbox = mailbox.clone();
                    thread::spawn(move || {
                        mailbox.make_room(1);
                        mailbox.bring(vec![Input::PeerUp(peer)]);
                    })
                })
                .collect();
            let mut taken = Vec::new();
            while taken.len() < 3 {
                let mut inputs = Vec::new();
                mailbox.wait(never());
                mailbox.take(&mut inputs);
                assert!(!taken.is_empty() || inputs.len() == 1, "nothing is let in beside a flood");
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

mod of_forgets_what_came_meanwhile {
    use super::*;
    scenarios!(forgets_what_came_meanwhile);
}

mod of_wakes_one_flooder {
    use super::*;
    scenarios!(wakes_one_flooder);
}

#[test]
fn what_is_sent_arrives_and_the_sleeper_is_woken() {
    crate::holds(of_sound::all_arrive);
}

#[test]
fn a_mailbox_that_looks_before_it_locks_is_noticed() {
    crate::fails(of_looks_before_it_locks::all_arrive);
}

#[test]
fn who_brings_news_decides_for_a_sleeper() {
    crate::holds(of_sound::turns_take_all);
}

#[test]
fn a_turn_that_forgets_what_came_meanwhile_is_noticed() {
    crate::fails(of_forgets_what_came_meanwhile::turns_take_all);
}

#[test]
fn peers_that_flood_wait_and_go_on() {
    crate::holds(of_sound::floods_go_on);
}

#[test]
fn a_mailbox_that_wakes_one_flooder_of_two_is_noticed() {
    crate::fails(of_wakes_one_flooder::floods_go_on);
}
