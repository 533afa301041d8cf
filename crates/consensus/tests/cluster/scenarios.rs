//! One story a test.

use crate::cluster::Cluster;

#[test]
fn three_members_elect_replicate_and_read() {
    let mut cluster = Cluster::new(1, 3);
    let leader = cluster.elect();
    let (index, term) = cluster.propose(leader, 100).unwrap();
    cluster.run(3);
    assert_eq!(cluster.committed[&index].term, term);
    assert!(cluster.members.values().all(|member| member.applied == index));
    cluster.read(leader);
    cluster.run(2);
    assert_eq!(cluster.reads_served, 1);
}
