//! Leases: granted, kept, asked for, revoked with their keys, expired.

use etcd_client::{EventType, LeaseTimeToLiveOptions, PutOptions};
use etcd_client_tests::Server;

#[tokio::test]
async fn a_lease_holds_its_keys_until_it_is_revoked() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let lease = client.lease_grant(600, None).await.unwrap();
    assert_eq!(lease.ttl(), 600);
    client.put("held", "x", Some(PutOptions::new().with_lease(lease.id()))).await.unwrap();
    assert_eq!(client.get("held", None).await.unwrap().kvs()[0].lease(), lease.id());

    let options = LeaseTimeToLiveOptions::new().with_keys();
    let status = client.lease_time_to_live(lease.id(), Some(options)).await.unwrap();
    assert_eq!((status.granted_ttl(), status.keys()), (600, &[b"held".to_vec()][..]));
    assert!((1..=600).contains(&status.ttl()), "{}", status.ttl());
    let ids: Vec<i64> = client.leases().await.unwrap().leases().iter().map(|found| found.id()).collect();
    assert_eq!(ids, [lease.id()]);

    client.lease_revoke(lease.id()).await.unwrap();
    assert_eq!(client.get("held", None).await.unwrap().count(), 0);
    assert_eq!(client.lease_time_to_live(lease.id(), None).await.unwrap().ttl(), -1);
    let error = client.lease_revoke(lease.id()).await.unwrap_err();
    assert!(error.to_string().contains("etcdserver: requested lease not found"), "{error}");
}

#[tokio::test]
async fn a_keep_alive_answers_the_whole_ttl() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let lease = client.lease_grant(600, None).await.unwrap();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease.id()).await.unwrap();
    for _ in 0..3 {
        keeper.keep_alive().await.unwrap();
        let answer = answers.message().await.unwrap().unwrap();
        assert_eq!((answer.id(), answer.ttl()), (lease.id(), 600));
    }
}

#[tokio::test]
async fn an_expired_lease_takes_its_keys_along() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut stream = client.watch("held", None).await.unwrap();
    let lease = client.lease_grant(1, None).await.unwrap();
    client.put("held", "x", Some(PutOptions::new().with_lease(lease.id()))).await.unwrap();
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let answer = stream.message().await.unwrap().unwrap();
        kinds.extend(answer.events().iter().map(|event| event.event_type()));
    }
    assert_eq!(kinds, [EventType::Put, EventType::Delete]);
    assert_eq!(client.lease_time_to_live(lease.id(), None).await.unwrap().ttl(), -1);
}

#[tokio::test]
async fn a_key_needs_a_lease_that_exists() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let error = client.put("held", "x", Some(PutOptions::new().with_lease(12345))).await.unwrap_err();
    assert!(error.to_string().contains("etcdserver: requested lease not found"), "{error}");
}
