//! Keys and values, transactions, compaction.

use etcd_client::{
    CompactionOptions, Compare, CompareOp, DeleteOptions, Error, GetOptions, KeyValue, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse,
};
use etcd_client_tests::Server;

fn pairs(kvs: &[KeyValue]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    kvs.iter().map(|kv| (text(kv.key()), text(kv.value()))).collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[tokio::test]
async fn put_get_and_delete_keep_their_revisions() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let first = client.put("key", "one", None).await.unwrap().header().unwrap().revision();
    let options = PutOptions::new().with_prev_key();
    let second = client.put("key", "two", Some(options)).await.unwrap();
    assert_eq!(second.header().unwrap().revision(), first + 1);
    assert_eq!(second.prev_key().unwrap().value(), b"one");

    let now = client.get("key", None).await.unwrap();
    let kv = &now.kvs()[0];
    assert_eq!((kv.value(), kv.version(), kv.lease()), (&b"two"[..], 2, 0));
    assert_eq!((kv.create_revision(), kv.mod_revision()), (first, first + 1));
    let before = client.get("key", Some(GetOptions::new().with_revision(first))).await.unwrap();
    assert_eq!(before.kvs()[0].value(), b"one");

    let options = DeleteOptions::new().with_prev_key();
    let deleted = client.delete("key", Some(options)).await.unwrap();
    assert_eq!((deleted.deleted(), deleted.prev_kvs()[0].value()), (1, &b"two"[..]));
    assert_eq!(client.get("key", None).await.unwrap().count(), 0);
    assert_eq!(client.delete("key", None).await.unwrap().deleted(), 0);
}

#[tokio::test]
async fn ranges_are_limited_sorted_and_counted() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for (key, value) in [("a/1", "z"), ("a/2", "y"), ("a/3", "x"), ("b", "w")] {
        client.put(key, value, None).await.unwrap();
    }
    let prefix = || GetOptions::new().with_prefix();
    let two = client.get("a/", Some(prefix().with_limit(2))).await.unwrap();
    assert_eq!(pairs(two.kvs()), [pair("a/1", "z"), pair("a/2", "y")]);
    assert_eq!((two.more(), two.count()), (true, 3));

    let sorted = prefix().with_sort(SortTarget::Value, SortOrder::Ascend);
    let sorted = client.get("a/", Some(sorted)).await.unwrap();
    assert_eq!(pairs(sorted.kvs()), [pair("a/3", "x"), pair("a/2", "y"), pair("a/1", "z")]);

    let keys = client.get("a/", Some(prefix().with_keys_only())).await.unwrap();
    assert_eq!(pairs(keys.kvs()), [pair("a/1", ""), pair("a/2", ""), pair("a/3", "")]);
    let count = client.get("", Some(GetOptions::new().with_all_keys().with_count_only())).await.unwrap();
    assert_eq!((count.count(), count.kvs().len()), (4, 0));
    let serializable = client.get("b", Some(GetOptions::new().with_serializable())).await.unwrap();
    assert_eq!(pairs(serializable.kvs()), [pair("b", "w")]);
    let deleted = client.delete("a/", Some(DeleteOptions::new().with_prefix())).await.unwrap();
    assert_eq!(deleted.deleted(), 3);
}

#[tokio::test]
async fn a_stream_of_a_range_gives_what_the_range_gives() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for number in 0..100 {
        client.put(format!("key/{number:03}"), "x".repeat(1000), None).await.unwrap();
    }
    let options = || Some(GetOptions::new().with_prefix());
    let whole = client.get("key/", options()).await.unwrap();
    let mut stream = client.kv_client().get_stream("key/", options()).await.unwrap();
    let mut streamed = Vec::new();
    while let Some(mut part) = stream.message().await.unwrap() {
        streamed.extend(part.take_kvs());
    }
    assert_eq!(whole.kvs().len(), 100);
    assert_eq!(pairs(&streamed), pairs(whole.kvs()));
}

#[tokio::test]
async fn a_transaction_takes_one_branch_at_one_revision() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.put("owner", "me", None).await.unwrap();
    let claim = |value: &str| {
        Txn::new()
            .when([Compare::value("owner", CompareOp::Equal, value)])
            .and_then([TxnOp::put("owner", "you", None), TxnOp::put("count", "1", None)])
            .or_else([TxnOp::get("owner", None)])
    };
    let done = client.txn(claim("me")).await.unwrap();
    assert!(done.succeeded());
    let revision = done.header().unwrap().revision();
    for key in ["owner", "count"] {
        assert_eq!(client.get(key, None).await.unwrap().kvs()[0].mod_revision(), revision);
    }
    let refused = client.txn(claim("me")).await.unwrap();
    assert!(!refused.succeeded());
    assert_eq!(refused.header().unwrap().revision(), revision);
    let responses = refused.op_responses();
    let [TxnOpResponse::Get(found)] = responses.as_slice() else { panic!("{responses:?}") };
    assert_eq!(pairs(found.kvs()), [pair("owner", "you")]);
}

#[tokio::test]
async fn what_is_compacted_is_refused_with_etcds_words() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let first = client.put("key", "one", None).await.unwrap().header().unwrap().revision();
    let second = client.put("key", "two", None).await.unwrap().header().unwrap().revision();
    client.compact(second, Some(CompactionOptions::new().with_physical())).await.unwrap();
    let words = |error: Error| match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        other => panic!("not an answer of the server: {other}"),
    };
    let at = |revision| Some(GetOptions::new().with_revision(revision));
    assert_eq!(
        words(client.get("key", at(first)).await.unwrap_err()),
        "etcdserver: mvcc: required revision has been compacted"
    );
    assert_eq!(
        words(client.get("key", at(second + 1)).await.unwrap_err()),
        "etcdserver: mvcc: required revision is a future revision"
    );
    assert_eq!(client.get("key", at(second)).await.unwrap().kvs()[0].value(), b"two");
    assert_eq!(words(client.put("", "x", None).await.unwrap_err()), "etcdserver: key is not provided");
}
