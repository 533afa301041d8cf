//! What operators ask: status, alarms, hashes, defragmentation, members.

use etcd_client::{AlarmAction, AlarmType};
use etcd_client_tests::Server;

#[tokio::test]
async fn a_member_tells_its_status() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.put("key", "value", None).await.unwrap();
    let status = client.status().await.unwrap();
    let header = status.header().unwrap();
    assert_eq!(status.version(), "3.7.3");
    assert_eq!(status.leader(), header.member_id(), "a single member leads");
    assert_ne!(header.cluster_id(), 0);
    assert!(status.raft_term() > 0);
    assert!(status.raft_index() >= status.raft_applied_index());
    assert!(status.db_size() > 0);
    assert!(!status.is_learner());
    assert_eq!(status.errors(), &[] as &[String]);
}

#[tokio::test]
async fn a_fresh_member_has_no_alarms_and_defragments() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.unwrap();
    assert!(alarms.alarms().is_empty());
    client.put("key", "value", None).await.unwrap();
    let before = client.hash_kv(0).await.unwrap();
    client.defragment().await.unwrap();
    let after = client.hash_kv(0).await.unwrap();
    assert_eq!((before.hash(), before.compact_version()), (after.hash(), after.compact_version()));
    client.put("key", "other", None).await.unwrap();
    assert_ne!(client.hash_kv(0).await.unwrap().hash(), before.hash());
}

#[tokio::test]
async fn the_members_are_listed_with_their_addresses() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let list = client.member_list().await.unwrap();
    let [member] = list.members() else { panic!("{:?}", list.members()) };
    assert_eq!(member.name(), "m1");
    assert_eq!(member.client_urls(), [server.url.clone()]);
    assert_eq!(member.id(), list.header().unwrap().member_id());
}
