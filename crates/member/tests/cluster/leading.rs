//! Losing leadership with commands at hand.

use api::etcdserverpb as pb;
use member::batch::Kind;
use member::{Input, Proposal};
use prost::Message;

use crate::rig::Cluster;

/// Steps after which a leader without followers steps down; long enough for every election timeout.
const STEPS_MAX: usize = 2_000;

/// Leaves the leader alone and counts steps until it leads no more. A put comes in before step `put_at`.
fn steps_to_step_down(put_at: Option<usize>) -> usize {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.leader().expect("somebody leads");
    for follower in (1..=3).filter(|id| *id != leader) {
        cluster.stop(follower);
    }
    for step in 0..STEPS_MAX {
        if put_at == Some(step) {
            let put = pb::PutRequest { key: "k".into(), ..Default::default() };
            let body = put.encode_to_vec().into();
            cluster.send(leader, |token| Input::Propose(Proposal { token, kind: Kind::Put, body }));
        }
        cluster.step();
        if cluster.leader().is_none() {
            return step;
        }
    }
    panic!("a leader without followers leads on");
}

#[test]
fn a_command_that_comes_as_leadership_ends_waits() {
    let last = steps_to_step_down(None);
    // In the step of the tick consensus steps down, and has not said so when the command is tried.
    assert_eq!(steps_to_step_down(Some(last)), last);
}
