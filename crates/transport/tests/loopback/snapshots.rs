//! Snapshots: whole, resumed, refused, failed.

use bytes::Bytes;
use transport::{Error, PeersConfig, SnapshotSender};

use crate::cluster::{Member, identity, pair};

fn content() -> Bytes {
    (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<u8>>().into()
}

/// Sends what the receiver still wants, in chunks of two parts, up to `end`.
fn send_until(sender: &mut SnapshotSender, content: &Bytes, end: usize) -> Result<(), Error> {
    while sender.offset() < end as u64 {
        let from = sender.offset() as usize;
        let chunk = content.slice(from..end.min(from + 100_000));
        let middle = chunk.len() / 3;
        sender.chunk(&[chunk.slice(..middle), chunk.slice(middle..)])?;
    }
    Ok(())
}

fn members() -> (Member, Member) {
    pair(PeersConfig::new(identity(1)), PeersConfig::new(identity(2)))
}

#[test]
fn a_snapshot_arrives_whole_with_its_header() {
    let (a, b) = members();
    let content = content();
    let mut sender = a.peers.open_snapshot(2, "at index 7".into()).unwrap();
    assert_eq!(sender.offset(), 0);
    send_until(&mut sender, &content, content.len()).unwrap();
    sender.finish().unwrap();
    let seen = b.journal.wait_for("the end", |seen| !seen.snapshots.ended.is_empty());
    assert_eq!(seen.snapshots.begun, [(1, Bytes::from("at index 7"))]);
    assert_eq!(seen.snapshots.ended, [content.len() as u64]);
    assert!(seen.snapshots.kept == content);
}

#[test]
fn a_broken_snapshot_resumes_where_the_receiver_stands() {
    let (a, b) = members();
    let content = content();
    let mut sender = a.peers.open_snapshot(2, "first".into()).unwrap();
    send_until(&mut sender, &content, 1_000_000).unwrap();
    drop(b.journal.wait_for("a part", |seen| seen.snapshots.kept.len() == 1_000_000));
    drop(sender);
    let mut sender = a.peers.open_snapshot(2, "second".into()).unwrap();
    assert_eq!(sender.offset(), 1_000_000);
    assert_eq!(b.journal.wait_for("nothing", |_| true).snapshots.dropped, 1, "the first receiver is gone");
    send_until(&mut sender, &content, content.len()).unwrap();
    sender.finish().unwrap();
    assert!(b.journal.wait_for("nothing", |_| true).snapshots.kept == content);
}

#[test]
fn a_newer_snapshot_ends_an_older_one() {
    let (a, b) = members();
    let mut older = a.peers.open_snapshot(2, "older".into()).unwrap();
    older.chunk(&[Bytes::from_static(b"abc")]).unwrap();
    drop(b.journal.wait_for("a chunk", |seen| seen.snapshots.kept == b"abc"));
    let newer = a.peers.open_snapshot(2, "newer".into()).unwrap();
    assert_eq!(newer.offset(), 3);
    assert!(older.finish().is_err());
    newer.finish().unwrap();
    assert_eq!(b.journal.wait_for("nothing", |_| true).snapshots.ended, [3]);
}

#[test]
fn the_receivers_reason_reaches_the_sender() {
    let (a, b) = members();
    b.journal.change(|seen| seen.snapshots.refuse = Some("a snapshot is being installed".into()));
    let refused = a.peers.open_snapshot(2, Bytes::new()).unwrap_err();
    assert_eq!(refused.to_string(), "the receiver of the snapshot failed: a snapshot is being installed");
    b.journal.change(|seen| {
        seen.snapshots.refuse = None;
        seen.snapshots.fail_at = Some(500_000);
    });
    let content = content();
    let mut sender = a.peers.open_snapshot(2, Bytes::new()).unwrap();
    let failed = send_until(&mut sender, &content, content.len()).and_then(|()| sender.finish());
    assert_eq!(
        failed.unwrap_err().to_string(),
        "the receiver of the snapshot failed: no space left on device"
    );
}

#[test]
fn a_peer_that_was_not_set_or_does_not_listen_is_an_error() {
    let a = Member::start(1);
    assert!(matches!(a.peers.open_snapshot(2, Bytes::new()), Err(Error::UnknownPeer(2))));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    a.peers.set(2, &[format!("http://{closed}")]).unwrap();
    let error = a.peers.open_snapshot(2, Bytes::new()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("dial {closed}: ")), "{error}");
}
