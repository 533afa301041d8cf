//! What a peer sends late to a process that has ended concerns no question of the next process, although the two number
//! their questions and commands alike.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Answer, Input, Proposal};
use prost::Message;

use crate::rig::Cluster;

/// Kinds of frames, see `peer_message`.
const REFUSED: u8 = 3;
const READ_ANSWER: u8 = 5;
const LEASE_ANSWERS: u8 = 7;

/// The token that both processes give to their callers; no other caller has it.
const TOKEN: u64 = 1 << 40;

fn put(key: &str) -> Input {
    let put = pb::PutRequest { key: key.to_owned().into(), ..Default::default() };
    Input::Propose(Proposal {
        token: TOKEN,
        kind: CommandKind::Put,
        caller: Default::default(),
        body: put.encode_to_vec().into(),
    })
}

fn restart(cluster: &mut Cluster, id: u64) {
    cluster.stop(id);
    cluster.start(id);
}

/// Moves the leadership to a third member without a word to `follower`.
fn move_leader_behind(cluster: &mut Cluster, follower: u64) {
    let leader = cluster.leader().expect("somebody leads");
    let to = (1..=3).find(|id| *id != leader && *id != follower).expect("there are three");
    cluster.hold = Some(follower);
    let moved = cluster.ask(leader, |token| Input::MoveLeader { token, to });
    assert!(matches!(moved, Answer::LeaderMoved), "{moved:?}");
}

#[test]
fn a_late_refusal_does_not_send_a_command_of_the_next_process_twice() {
    let mut cluster = Cluster::new(3, |_| {});
    let follower = cluster.follower();
    move_leader_behind(&mut cluster, follower);
    cluster.give(follower, put("before"));
    let refused = cluster.capture(follower, REFUSED);
    restart(&mut cluster, follower);
    cluster.settle();

    cluster.give(follower, put("after"));
    cluster.step();
    cluster.give(follower, refused);
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&TOKEN));
    cluster.settle();
    cluster.run(100);
    let range = pb::RangeRequest { key: "after".into(), ..Default::default() };
    let reply = cluster.nodes[&follower].opened.reader.range(&range).expect("in range");
    assert_eq!(reply.kvs[0].version, 1, "the put is applied once");
}

#[test]
fn a_late_read_answer_does_not_release_a_read_of_the_next_process() {
    let mut cluster = Cluster::new(3, |_| {});
    let follower = cluster.follower();
    cluster.give(follower, Input::Read { token: TOKEN });
    let answer = cluster.capture(follower, READ_ANSWER);
    restart(&mut cluster, follower);
    cluster.settle();

    // The follower is behind, and its question to the leader has the same number as that of the process before.
    cluster.hold = Some(follower);
    cluster.put("new", "value");
    cluster.give(follower, Input::Read { token: TOKEN });
    cluster.step();
    cluster.give(follower, answer);
    cluster.run(20);
    assert!(!cluster.answers.contains_key(&TOKEN), "the read would not find the put");

    cluster.hold = None;
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&TOKEN));
    let answer = cluster.answers.remove(&TOKEN);
    assert!(matches!(answer, Some(Answer::ReadNow)), "{answer:?}");
    assert_eq!(cluster.get(follower, "new"), Ok(Some("value".into())));
}

#[test]
fn a_late_lease_answer_does_not_answer_a_caller_of_the_next_process() {
    let mut cluster = Cluster::new(3, |_| {});
    let follower = cluster.follower();
    let look_up = Input::Lease { token: TOKEN, lease: 7, renew: false };
    cluster.give(follower, look_up);
    let answer = cluster.capture(follower, LEASE_ANSWERS);
    restart(&mut cluster, follower);
    cluster.settle();

    let leader = cluster.leader().expect("somebody leads");
    let grant = pb::LeaseGrantRequest { id: 7, ttl: 60 };
    cluster.propose(leader, CommandKind::LeaseGrant, &grant).expect("a grant is applied");
    cluster.hold = Some(follower);
    cluster.give(follower, Input::Lease { token: TOKEN, lease: 7, renew: true });
    cluster.step();
    cluster.give(follower, answer);
    cluster.run(20);
    let answer = cluster.answers.get(&TOKEN);
    assert!(answer.is_none(), "the lease was granted since: {answer:?}");
}

#[test]
fn a_member_that_was_not_asked_refuses_and_answers_nothing() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.run(200);
    cluster.settle();
    let (leader, follower) = (cluster.leader().expect("somebody leads"), cluster.follower());
    let other = (1..=3).find(|id| *id != leader && *id != follower).expect("there are three");
    cluster.give(follower, Input::Read { token: TOKEN });
    let Input::Frame { bytes, .. } = cluster.capture(follower, READ_ANSWER) else { unreachable!() };
    cluster.give(follower, Input::Frame { from: other, bytes });
    cluster.step();
    assert!(!cluster.answers.contains_key(&TOKEN), "another member answered");
}
