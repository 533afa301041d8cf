//! What each check concludes from the answers of peers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use store::{HashKvReply, KeptHash};

use super::compaction::CompactionChecks;
use super::peer_hashes::{PeerHash, PeerHashError, read_answer};
use super::source::HashSource;
use super::{initial, periodic};
use crate::http::BoxFuture;

/// Member 1, and what members from 2 on answer at each revision; without an entry, that they do not answer.
#[derive(Default)]
struct Answers {
    /// The local hashes at the newest revision, one for each time it is asked; the last one from then on.
    newest: Mutex<Vec<HashKvReply>>,
    kept: Vec<KeptHash>,
    peers: BTreeMap<(i64, u64), Result<HashKvReply, PeerHashError>>,
    members: u64,
    asked: Mutex<Vec<i64>>,
    alarms: Mutex<Vec<u64>>,
}

fn hash(hash: u32, hash_revision: i64, compact_revision: i64) -> HashKvReply {
    HashKvReply { hash, hash_revision, compact_revision, revision: hash_revision }
}

impl HashSource for Answers {
    fn member_id(&self) -> u64 {
        1
    }

    fn request_timeout(&self) -> Duration {
        Duration::from_secs(7)
    }

    fn hash(&self, revision: i64) -> BoxFuture<'_, Result<HashKvReply, api::Error>> {
        assert_eq!(revision, 0, "the newest");
        let mut newest = self.newest.lock();
        let answer = if newest.len() > 1 { newest.remove(0) } else { newest[0] };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn peer_hashes(&self, revision: i64) -> BoxFuture<'_, Vec<PeerHash>> {
        self.asked.lock().push(revision);
        let answer = |id: u64| {
            let silent = || Err(PeerHashError::Failed("it does not answer".to_owned()));
            self.peers.get(&(revision, id)).cloned().unwrap_or_else(silent)
        };
        let hashes = (2..=self.members).map(|id| PeerHash { id, urls: Vec::new(), answer: answer(id) });
        Box::pin(std::future::ready(hashes.collect()))
    }

    fn linearize(&self) -> BoxFuture<'_, Result<(), api::Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn kept_hashes(&self) -> Vec<KeptHash> {
        self.kept.clone()
    }

    fn raise_alarm(&self, member: u64) -> BoxFuture<'_, Result<(), api::Error>> {
        self.alarms.lock().push(member);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// At the newest revision 9, with what the peers answer.
fn at_newest(own: &[HashKvReply], peers: &[Result<HashKvReply, PeerHashError>]) -> Answers {
    let answers = peers.iter().zip(2..).map(|(answer, id)| ((9, id), answer.clone()));
    Answers {
        newest: Mutex::new(own.to_vec()),
        peers: answers.collect(),
        members: 1 + peers.len() as u64,
        ..Answers::default()
    }
}

#[tokio::test]
async fn the_initial_check_fails_for_another_hash_of_the_same_history_only() {
    let own = hash(7, 9, 4);
    let error = Err("1 found data inconsistency with peers".to_owned());
    for (peers, expected) in [
        (vec![], Ok(())),
        (vec![Ok(hash(7, 9, 4)), Ok(hash(7, 9, 4))], Ok(())),
        (vec![Ok(hash(8, 9, 5)), Err(PeerHashError::Compacted)], Ok(())),
        (vec![Err(PeerHashError::Future), Err(PeerHashError::OtherCluster)], Ok(())),
        (vec![Ok(hash(7, 9, 4)), Ok(hash(8, 9, 4))], error),
    ] {
        let source = at_newest(&[own], &peers);
        assert_eq!(initial::check(&source).await, expected, "{peers:?}");
        assert_eq!(*source.asked.lock(), [9]);
        assert!(source.alarms.lock().is_empty());
    }
}

#[tokio::test]
async fn the_periodic_check_raises_one_alarm_for_what_no_member_can_have() {
    let own = hash(7, 9, 4);
    let newer = HashKvReply { revision: 11, ..own };
    for (own, peers, alarms) in [
        (vec![own], vec![Ok(own), Ok(own)], vec![]),
        (vec![own], vec![Ok(hash(8, 9, 5)), Err(PeerHashError::Compacted)], vec![2]),
        (vec![own, hash(1, 10, 5)], vec![Ok(hash(8, 9, 5))], vec![]),
        (vec![own, hash(1, 9, 4)], vec![Ok(own), Ok(hash(3, 9, 4))], vec![1]),
        (vec![own], vec![Ok(own), Ok(hash(3, 9, 4))], vec![3]),
        (vec![own], vec![Ok(hash(3, 9, 4)), Ok(hash(3, 9, 4))], vec![1]),
        (vec![own], vec![Ok(hash(3, 9, 4))], vec![0]),
        (vec![own], vec![Ok(own), Ok(hash(3, 9, 4)), Ok(hash(3, 9, 4))], vec![0]),
        (vec![own], vec![Ok(hash(3, 9, 4)), Err(PeerHashError::Future)], vec![0]),
        (vec![own], vec![Ok(own), Ok(newer)], vec![3]),
        (vec![own, newer], vec![Ok(newer)], vec![]),
    ] {
        let source = at_newest(&own, &peers);
        periodic::check(&source).await.expect("it leads");
        assert_eq!(*source.alarms.lock(), alarms, "{own:?} {peers:?}");
    }
}

/// Compactions at 30 and 20; each peer has hashes for (30, 20), as far as it answers.
async fn compactions(peers: &[[Option<(u32, i64)>; 2]]) -> (Vec<u64>, Vec<i64>, Vec<i64>) {
    let kept = |revision, compact_revision| KeptHash { hash: 7, revision, compact_revision };
    let mut answers = BTreeMap::new();
    for (of_peer, id) in peers.iter().zip(2..) {
        for (answer, revision) in of_peer.iter().zip([30, 20]) {
            let answer = answer.map(|(hash, compacted)| self::hash(hash, revision, compacted));
            answers.insert((revision, id), answer.ok_or(PeerHashError::Compacted));
        }
    }
    let kept = vec![kept(30, 20), kept(20, -1)];
    let source = Answers { kept, peers: answers, members: 1 + peers.len() as u64, ..Answers::default() };
    let mut checks = CompactionChecks::default();
    checks.check(&source).await;
    let first = std::mem::take(&mut *source.asked.lock());
    let alarms = std::mem::take(&mut *source.alarms.lock());
    checks.check(&source).await;
    let second = std::mem::take(&mut *source.asked.lock());
    (alarms, first, second)
}

#[tokio::test]
async fn the_newest_compaction_that_all_have_is_compared_once() {
    let same = [Some((7, 20)), Some((7, -1))];
    let behind = [Some((9, 19)), Some((7, -1))];
    assert_eq!(compactions(&[same, same]).await, (vec![], vec![30], vec![]));
    assert_eq!(compactions(&[same, behind]).await, (vec![], vec![30, 20], vec![30]));
    assert_eq!(compactions(&[same, [None, None]]).await, (vec![], vec![30, 20], vec![30, 20]));
    assert_eq!(
        compactions(&[]).await,
        (vec![], vec![30, 20], vec![30, 20]),
        "a member alone compares nothing"
    );
}

#[tokio::test]
async fn the_alarm_names_who_differs_from_most() {
    let same = [Some((7, 20)), None];
    let other = [Some((8, 20)), None];
    let third = [Some((9, 20)), None];
    assert_eq!(compactions(&[same, other]).await.0, [3]);
    assert_eq!(compactions(&[other, other]).await.0, [1], "the leader itself");
    assert_eq!(compactions(&[other]).await.0, [0], "no most of two");
    assert_eq!(compactions(&[other, third]).await.0, [0]);
    assert_eq!(compactions(&[same, same, other, third]).await.0, [4, 5]);
    assert_eq!(compactions(&[[None, None], other]).await.0, [0], "who does not answer counts for the quorum");
}

#[test]
fn answers_are_read_as_etcd_writes_them() {
    let whole = br#"{"header":{"revision":12},"hash":3000000000,"compact_revision":-1,"hash_revision":9}"#;
    let expected = HashKvReply { hash: 3_000_000_000, hash_revision: 9, compact_revision: -1, revision: 12 };
    assert_eq!(read_answer(StatusCode::OK, whole), Ok(expected));
    let bad = |status, text: &str| read_answer(status, text.as_bytes());
    assert_eq!(
        bad(StatusCode::BAD_REQUEST, "mvcc: required revision has been compacted\n"),
        Err(PeerHashError::Compacted)
    );
    let future = "etcdserver: mvcc: required revision is a future revision\n";
    assert_eq!(bad(StatusCode::BAD_REQUEST, future), Err(PeerHashError::Future));
    assert_eq!(
        bad(StatusCode::PRECONDITION_FAILED, "cluster ID mismatch\n"),
        Err(PeerHashError::OtherCluster)
    );
    let failed = bad(StatusCode::NOT_FOUND, "404 page not found\n");
    assert_eq!(failed, Err(PeerHashError::Failed("unknown error: 404 page not found".to_owned())));
    assert!(bad(StatusCode::OK, "no JSON").is_err());
}
