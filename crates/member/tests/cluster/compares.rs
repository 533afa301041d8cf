//! Values that a transaction compares and that are on the disk are read by a job: the member goes on meanwhile.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::jobs::{Done, Job};
use member::{Answer, Input};
use store::Reply;

use crate::rig::{Cluster, values_read};

/// Puts "then" if the value of this key is 300 bytes of 9.
pub(crate) fn compares_value(key: &'static str) -> pb::TxnRequest {
    let compare = pb::Compare {
        result: pb::compare::CompareResult::Equal as i32,
        target: pb::compare::CompareTarget::Value as i32,
        key: key.into(),
        target_union: Some(pb::compare::TargetUnion::Value(vec![9; 300].into())),
        ..Default::default()
    };
    let put = pb::PutRequest { key: "then".into(), value: "yes".into(), ..Default::default() };
    let success = vec![pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }];
    pb::TxnRequest { compare: vec![compare], success, failure: vec![] }
}

/// A cluster in which the value of "guard" has left the tail.
fn filled() -> Cluster {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.put("guard", vec![9; 300]);
    (0..40).for_each(|number| cluster.put(&format!("key{number}"), vec![0; 300]));
    cluster.settle();
    cluster
}

/// Proposes the transaction, and runs until every member waits for the value.
fn begin(cluster: &mut Cluster) -> u64 {
    cluster.hold_jobs = Box::new(values_read);
    let leader = cluster.leader().unwrap();
    let token = cluster.begin(leader, CommandKind::Txn, &compares_value("guard"));
    cluster.until("all members wait for the value", |cluster| cluster.held_jobs.len() == 3);
    token
}

#[test]
fn entries_are_committed_while_a_value_is_read() {
    let mut cluster = filled();
    let token = begin(&mut cluster);
    let leader = cluster.leader().unwrap();
    let status = |cluster: &Cluster| {
        let status = &cluster.nodes[&leader].opened.status;
        (status.term(), status.applied_index(), status.committed_index())
    };
    let (term, applied, committed) = status(&cluster);
    assert!(applied < committed);
    let put = pb::PutRequest { key: "after".into(), ..Default::default() };
    cluster.begin(leader, CommandKind::Put, &put);
    cluster.until("the next entry is committed", |cluster| status(cluster).2 > committed);
    cluster.run(500);
    assert_eq!(
        (status(&cluster).0, status(&cluster).1),
        (term, applied),
        "the leader leads, and nothing is applied"
    );
    cluster.release_jobs();
    cluster.until("the transaction is answered", |cluster| cluster.answers.contains_key(&token));
    cluster.settle();
    match cluster.answers.remove(&token) {
        Some(Answer::Applied(Ok(Reply::Txn(reply)))) => assert!(reply.succeeded),
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.get(leader, "after"), Ok(Some("".into())));
    cluster.assert_equal();
}

#[test]
fn a_value_that_is_in_memory_is_not_read() {
    let mut cluster = filled();
    cluster.put("guard", vec![9; 300]);
    cluster.settle();
    cluster.hold_jobs = Box::new(values_read);
    let leader = cluster.leader().unwrap();
    cluster.propose(leader, CommandKind::Txn, &compares_value("guard")).expect("it is applied");
    assert!(cluster.held_jobs.is_empty());
}

#[test]
fn a_value_that_comes_after_a_snapshot_was_installed_is_dropped() {
    let mut cluster = Cluster::new(3, |config| {
        config.catchup_entries = 5;
        config.checkpoint_commands = 5;
    });
    cluster.put("guard", vec![9; 300]);
    (0..40).for_each(|number| cluster.put(&format!("key{number}"), vec![0; 300]));
    cluster.settle();
    begin(&mut cluster);
    let behind = cluster.follower();
    let held = std::mem::take(&mut cluster.held_jobs);
    let (late, others): (Vec<_>, Vec<_>) = held.into_iter().partition(|(at, _)| *at == behind);
    cluster.hold_jobs = Box::new(|_, _| false);
    others.into_iter().for_each(|(at, input)| cluster.give(at, input));
    cluster.hold = Some(behind);
    (0..60).for_each(|number| cluster.put(&format!("more{number}"), vec![0; 300]));
    cluster.hold = None;
    cluster.held.clear();
    cluster.until("a snapshot is installed", |cluster| {
        let status = |at: u64| &cluster.nodes[&at].opened.status;
        status(behind).applied_index() == status(cluster.leader().unwrap()).applied_index()
    });
    late.into_iter().for_each(|(at, input)| cluster.give(at, input));
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_file_with_a_value_to_compare_is_not_freed_while_its_read_is_queued() {
    let mut cluster = Cluster::new(3, |config| {
        config.catchup_entries = 5;
        config.checkpoint_commands = 5;
    });
    cluster.put("guard", vec![9; 300]);
    (0..40).for_each(|number| cluster.put(&format!("key{number}"), vec![0; 300]));
    cluster.settle();
    let behind = cluster.follower();
    cluster.queue_jobs = Box::new(move |at, job| at == behind && matches!(job, Job::ReadValues { .. }));
    let leader = cluster.leader().unwrap();
    cluster.begin(leader, CommandKind::Txn, &compares_value("guard"));
    cluster.until("the read is queued", |cluster| !cluster.queued_jobs.is_empty());
    // A snapshot replaces the state that refers to the value, and nothing else does.
    cluster.hold = Some(behind);
    cluster.put("guard", vec![8; 300]);
    (0..60).for_each(|number| cluster.put(&format!("more{number}"), vec![0; 300]));
    cluster.hold = None;
    cluster.held.clear();
    cluster.until("a snapshot is installed", |cluster| {
        let status = |at: u64| &cluster.nodes[&at].opened.status;
        status(behind).applied_index() == status(cluster.leader().unwrap()).applied_index()
    });
    cluster.run(500);
    let bytes = |cluster: &Cluster| cluster.nodes[&behind].opened.log.file_bytes();
    let before = bytes(&cluster);
    let (_, job) = cluster.queued_jobs.pop().expect("the read is queued");
    let done = job.run();
    let Done::ValuesRead(Ok(values)) = &done else { panic!("its file is there") };
    assert_eq!(values[0].1, vec![9; 300]);
    cluster.give(behind, Input::Background(Box::new(done)));
    cluster.put("last", vec![0; 300]);
    cluster.run(500);
    assert!(bytes(&cluster) < before, "the file is freed after the read");
    cluster.assert_equal();
}
