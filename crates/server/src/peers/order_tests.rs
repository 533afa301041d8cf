//! Reports of several threads about one peer: the inputs have the order of the reports.

use std::sync::Barrier;

use super::*;
use crate::config::FeatureGates;

/// Rounds in which two reports meet. With the lock released before what follows from a report is submitted, hundreds of
/// them end wrongly.
const ROUNDS: u64 = 20_000;

/// In each round a connection of a peer is lost while the next one is made, and each is reported by its own thread.
/// When both are reported, the peer is connected: its loss is not the last that the member hears.
#[test]
fn a_lost_connection_is_not_reported_behind_the_next_one() {
    let metrics = Arc::new(Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("good names"));
    let handoff = Handoff::new(1, metrics.clone());
    let inbound = PeerInbound::new(handoff.clone(), metrics, Arc::default(), |_| {});
    let why = Error::Io { doing: "test", source: std::io::Error::other("it is lost") };
    for class in [StreamClass::Control, StreamClass::Bulk] {
        inbound.up(2, class, 1, transport::MAX_VERSION);
    }
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let lost = |round: u64| {
        begin.wait();
        inbound.down(2, StreamClass::Bulk, round, &why);
        end.wait();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=ROUNDS).for_each(lost));
        for round in 1..=ROUNDS {
            begin.wait();
            inbound.up(2, StreamClass::Bulk, round + 1, transport::MAX_VERSION);
            end.wait();
            let inputs = handoff.take_inputs();
            let mut reports =
                inputs.iter().filter(|input| matches!(input, Input::PeerUp(_) | Input::PeerDown(_)));
            let last = reports.next_back();
            assert!(!matches!(last, Some(Input::PeerDown(_))), "round {round}: {inputs:?}");
        }
    });
}
