//! Losing leadership with commands at hand.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Input, Proposal};
use prost::Message;

use crate::rig::Cluster;

/// Steps after which a leader without followers steps down; long enough for every election timeout.
const MAX_STEPS: usize = 2_000;

/// Steps in the shortest election timeout.
const ELECTION_STEPS: usize = 200;

/// Leaves the leader alone and counts steps until it leads no more. A put comes in before step `put_at`.
fn steps_to_step_down(put_at: Option<usize>) -> usize {
    let mut cluster = Cluster::new(3, |_| {});
    let leader = cluster.leader().expect("somebody leads");
    for follower in (1..=3).filter(|id| *id != leader) {
        cluster.stop(follower);
    }
    for step in 0..MAX_STEPS {
        if put_at == Some(step) {
            let put = pb::PutRequest { key: "k".into(), ..Default::default() };
            let body = put.encode_to_vec().into();
            cluster.send(leader, |token| Input::Propose(Proposal { token, kind: CommandKind::Put, body }));
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

/// Steps until a cluster of three whose members `ids` were killed and started again agrees on a leader.
fn steps_to_come_back(ids: impl Fn(&Cluster, u64) -> Vec<u64>) -> usize {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put("k", "v");
    cluster.settle();
    let leader = cluster.leader().expect("somebody leads");
    let killed = ids(&cluster, leader);
    killed.iter().for_each(|id| cluster.stop(*id));
    killed.iter().for_each(|id| cluster.start(*id));
    let mut steps = 0;
    cluster.until("a leader", |cluster| {
        steps += 1;
        cluster.leader().is_some()
            && cluster.nodes.values().all(|node| Some(node.opened.status.leader()) == cluster.leader())
    });
    steps
}

#[test]
fn members_that_come_back_do_not_wait_for_an_election_timeout() {
    let all = steps_to_come_back(|_, _| vec![1, 2, 3]);
    let leader = steps_to_come_back(|_, leader| vec![leader]);
    let but_leader = steps_to_come_back(|_, leader| (1..=3).filter(|id| *id != leader).collect());
    for steps in [all, leader, but_leader] {
        assert!(steps < ELECTION_STEPS / 2, "{steps} steps");
    }
}
