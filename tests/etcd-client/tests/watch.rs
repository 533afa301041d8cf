//! Watches: what happened since a revision, in order, with progress and an end.

use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use etcd_client_tests::Server;

/// Kind, key, value and revision of an event.
type Seen = (EventType, String, String, i64);

async fn next(stream: &mut WatchStream) -> WatchResponse {
    stream.message().await.unwrap().expect("the stream continues")
}

/// Reads events until there are `count`.
async fn events(stream: &mut WatchStream, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    while seen.len() < count {
        for event in next(stream).await.events() {
            let kv = event.kv().unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            seen.push((event.event_type(), text(kv.key()), text(kv.value()), kv.mod_revision()));
        }
    }
    seen
}

fn put(key: &str, value: &str, revision: i64) -> Seen {
    (EventType::Put, key.to_owned(), value.to_owned(), revision)
}

#[tokio::test]
async fn a_watch_from_the_past_goes_on_into_the_present() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let first = client.put("w/a", "1", None).await.unwrap().header().unwrap().revision();
    client.put("elsewhere", "x", None).await.unwrap();
    let options = WatchOptions::new().with_prefix().with_start_revision(first);
    let mut stream = client.watch("w/", Some(options)).await.unwrap();
    assert!(next(&mut stream).await.created());
    client.put("w/b", "2", None).await.unwrap();
    client.delete("w/a", None).await.unwrap();
    let deleted = (EventType::Delete, "w/a".to_owned(), String::new(), first + 3);
    assert_eq!(events(&mut stream, 3).await, [put("w/a", "1", first), put("w/b", "2", first + 2), deleted]);
}

#[tokio::test]
async fn watches_of_one_stream_are_told_apart_and_end_when_cancelled() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut stream = client.watch("a", Some(WatchOptions::new().with_watch_id(7))).await.unwrap();
    let created = next(&mut stream).await;
    assert!(created.created());
    assert_eq!(created.watch_id(), 7);
    stream.watch("b", Some(WatchOptions::new().with_watch_id(8).with_prev_key())).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 8);

    client.put("b", "1", None).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 8);
    client.put("b", "2", None).await.unwrap();
    let update = next(&mut stream).await;
    assert_eq!(update.events()[0].prev_kv().unwrap().value(), b"1");

    stream.cancel(8).await.unwrap();
    let cancelled = next(&mut stream).await;
    assert!(cancelled.canceled());
    assert_eq!(cancelled.watch_id(), 8);
    client.put("b", "3", None).await.unwrap();
    client.put("a", "4", None).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 7);
}

#[tokio::test]
async fn progress_tells_the_revision_of_the_store() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut stream = client.watch("a", None).await.unwrap();
    assert!(next(&mut stream).await.created());
    let revision = client.put("elsewhere", "x", None).await.unwrap().header().unwrap().revision();
    // A progress answer may be older than the put when the watch has not seen it yet: ask until it is not.
    loop {
        stream.request_progress().await.unwrap();
        let progress = next(&mut stream).await;
        assert!(progress.events().is_empty());
        if progress.header().unwrap().revision() >= revision {
            break;
        }
    }
}

#[tokio::test]
async fn a_watch_below_the_compacted_revision_is_cancelled_and_told_why() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let first = client.put("a", "1", None).await.unwrap().header().unwrap().revision();
    client.put("a", "2", None).await.unwrap();
    client.compact(first + 1, None).await.unwrap();
    let options = WatchOptions::new().with_start_revision(first);
    let mut stream = client.watch("a", Some(options)).await.unwrap();
    let mut answer = next(&mut stream).await;
    if !answer.canceled() {
        answer = next(&mut stream).await;
    }
    assert!(answer.canceled());
    assert_eq!(answer.compact_revision(), first + 1);
}
