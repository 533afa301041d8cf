//! Commands that touch much are applied in slices: the cluster goes on meanwhile, and comes to the same everywhere.

use std::sync::Arc;

use api::etcdserverpb as pb;
use api::etcdserverpb::request_op::Request;
use member::batch::CommandKind;
use member::{Answer, Input, MemberConfig, Proposal};
use prost::Message;
use store::watch::{NextResponse, WatchStream};

use crate::rig::Cluster;

const KEYS: usize = 300;

/// Each member slices at another place.
fn tune(config: &mut MemberConfig) {
    config.store_limits.slice_keys = [3, 7, 1_000][(config.member_id - 1) as usize];
}

fn all() -> pb::RangeRequest {
    pb::RangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() }
}

fn fill(cluster: &mut Cluster, lease: i64) {
    let put = |n: usize| {
        let request = pb::PutRequest { key: format!("k{n:03}").into(), lease, ..Default::default() };
        pb::RequestOp { request: Some(Request::RequestPut(request)) }
    };
    let request = pb::TxnRequest { success: (0..KEYS).map(put).collect(), ..Default::default() };
    let leader = cluster.leader().unwrap();
    cluster.propose(leader, CommandKind::Txn, &request).expect("a transaction is applied");
    cluster.settle();
}

fn keys(cluster: &Cluster, at: u64) -> usize {
    cluster.nodes[&at].opened.reader.range(&all()).expect("in range").kvs.len()
}

fn watch(cluster: &Cluster, at: u64) -> WatchStream {
    let mut stream = cluster.nodes[&at].opened.hub.open(Arc::new(|| {}), 1 << 20);
    let create = pb::WatchCreateRequest { key: "k".into(), range_end: "l".into(), ..Default::default() };
    stream.create(&create);
    take(&mut stream);
    stream
}

/// The number of events in each response since the last time.
fn take(stream: &mut WatchStream) -> Vec<usize> {
    let mut events = Vec::new();
    loop {
        match stream.next(1).expect("values are intact") {
            NextResponse::Send(frame) => {
                let response = pb::WatchResponse::decode(frame.to_bytes()).expect("it is one");
                events.push(response.events.len());
            }
            NextResponse::Busy => {}
            NextResponse::Idle => return events.into_iter().filter(|events| *events > 0).collect(),
        }
    }
}

/// Proposes a command that deletes all keys, and runs the cluster until all have applied it.
fn delete_all(cluster: &mut Cluster, kind: CommandKind, body: Vec<u8>) {
    let leader = cluster.leader().unwrap();
    let term = cluster.nodes[&leader].opened.status.term();
    let mut streams: Vec<_> = (1..=3).map(|at| watch(cluster, at)).collect();
    let body = body.into();
    let token = cluster
        .send(leader, |token| Input::Propose(Proposal { token, kind, caller: Default::default(), body }));
    let mut partial = [0; 3];
    cluster.until("all keys are deleted everywhere", |cluster| {
        for at in 1..=3 {
            let status = &cluster.nodes[&at].opened.status;
            let keys = keys(cluster, at);
            assert!(keys == 0 || keys == KEYS, "{keys} keys are visible at {at}");
            if status.applied_index() < status.committed_index() {
                partial[at as usize - 1] += 1;
                assert_eq!(keys, KEYS);
                let due_ns = cluster.nodes[&at].opened.member.next_due_ns();
                assert_eq!(due_ns, Some(0), "the next slice waits for nothing");
            }
        }
        (1..=3).all(|at| keys(cluster, at) == 0)
    });
    assert!(matches!(cluster.answers.remove(&token), Some(Answer::Applied(Ok(_)))));
    assert!(partial[0] >= KEYS / 3 - 1 && partial[1] >= KEYS / 7 - 1, "{partial:?} steps between slices");
    assert_eq!(partial[2], 0, "it was one slice");
    for stream in &mut streams {
        assert_eq!(take(stream), [KEYS], "one revision is one response");
    }
    cluster.settle();
    cluster.assert_equal();
    cluster.nodes.values().for_each(|node| node.opened.member.check_all());
    assert_eq!((cluster.leader(), cluster.nodes[&leader].opened.status.term()), (Some(leader), term));
}

#[test]
fn a_deletion_is_sliced_and_the_leader_keeps_leading() {
    let mut cluster = Cluster::new(3, tune);
    fill(&mut cluster, 0);
    let request = pb::DeleteRangeRequest { key: "k".into(), range_end: "l".into(), prev_kv: false };
    delete_all(&mut cluster, CommandKind::DeleteRange, request.encode_to_vec());
}

#[test]
fn a_revocation_is_sliced() {
    let mut cluster = Cluster::new(3, tune);
    let leader = cluster.leader().unwrap();
    let grant = pb::LeaseGrantRequest { id: 7, ttl: 600 };
    cluster.propose(leader, CommandKind::LeaseGrant, &grant).expect("a lease is granted");
    fill(&mut cluster, 7);
    let request = pb::LeaseRevokeRequest { id: 7 };
    delete_all(&mut cluster, CommandKind::LeaseRevoke, request.encode_to_vec());
}

/// Whether member 1 applies something that is committed.
fn is_applying(cluster: &mut Cluster) -> bool {
    let status = &cluster.nodes[&1].opened.status;
    status.applied_index() < status.committed_index()
}

/// Deletes all keys, and runs until member 1 is during the deletion. Returns the leader.
fn begin_deletion(cluster: &mut Cluster) -> u64 {
    let request = pb::DeleteRangeRequest { key: "k".into(), range_end: "l".into(), prev_kv: false };
    let leader = cluster.leader().unwrap();
    let body = request.encode_to_vec().into();
    cluster.send(leader, |token| {
        Input::Propose(Proposal { token, kind: CommandKind::DeleteRange, caller: Default::default(), body })
    });
    cluster.until("member 1 is during the deletion", is_applying);
    leader
}

#[test]
fn entries_are_written_and_sent_between_slices() {
    let mut cluster = Cluster::new(3, tune);
    fill(&mut cluster, 0);
    let leader = begin_deletion(&mut cluster);
    let committed = cluster.nodes[&1].opened.status.committed_index();
    let put = pb::PutRequest { key: "after".into(), ..Default::default() };
    let body = put.encode_to_vec().into();
    cluster.send(leader, |token| {
        Input::Propose(Proposal { token, kind: CommandKind::Put, caller: Default::default(), body })
    });
    cluster.until("member 1 knows that it is committed", |cluster| {
        cluster.nodes[&1].opened.status.committed_index() > committed
    });
    assert_eq!(keys(&cluster, 1), KEYS, "the deletion is still under way here");
    cluster.until("it is applied", |cluster| cluster.nodes[&1].opened.reader.counts().keys == 1);
}

#[test]
fn a_member_that_ends_during_a_deletion_applies_it_again() {
    let mut cluster = Cluster::new(3, tune);
    fill(&mut cluster, 0);
    begin_deletion(&mut cluster);
    cluster.run(3);
    assert!(is_applying(&mut cluster), "the deletion is still under way");
    cluster.stop(1);
    cluster.start(1);
    cluster.settle();
    assert_eq!(keys(&cluster, 1), 0);
    cluster.assert_equal();
}
