//! Proposals, reads and messages that are refused, with their errors.

use bytes::Bytes;
use consensus::{
    Body, ConfState, Config, Consensus, Entry, EntryKind, MAX_TERM, Message, Rejected, SnapshotMeta, Start,
};

const TERM: u64 = 2;

/// Member 1 of three, following 2 in term 2, with entries 2 and 3 committed (4 is not) and all on its disk.
fn follower() -> Consensus {
    let config =
        Config { id: 1, election_tick: 10, heartbeat_tick: 1, pre_vote: true, check_quorum: true, seed: 1 };
    let mut node = Consensus::new(&config, Start::bootstrap([1, 2, 3])).unwrap();
    node.step(2, from_2(append(1, 1, vec![batch(TERM, 2), batch(TERM, 3), batch(TERM, 4)], 3))).unwrap();
    while let Some(ready) = node.ready() {
        if let Some(write) = ready.write {
            node.synced(write.number);
        }
        if let Some(entry) = ready.committed.last() {
            node.applied(entry.index);
        }
    }
    assert_eq!((node.status().commit, node.status().applied, node.status().last_index), (3, 3, 4));
    node
}

fn batch(term: u64, index: u64) -> Entry {
    Entry { term, index, kind: EntryKind::Batch, payload: Bytes::from_static(b"batch") }
}

fn append(previous_index: u64, previous_term: u64, entries: Vec<Entry>, commit: u64) -> Body {
    Body::Append { previous_index, previous_term, commit, entries }
}

fn from_2(body: Body) -> Message {
    Message { from: 2, to: 1, term: TERM, body }
}

fn snapshot(index: u64, term: u64, voters: &[u64]) -> Body {
    Body::Snapshot(SnapshotMeta { index, term, conf_state: ConfState::of_voters(voters.iter().copied()) })
}

#[test]
fn what_no_sound_leader_says_is_refused() {
    let odd = Entry { kind: EntryKind::ConfChange, ..batch(TERM, 5) };
    let cases = [
        (append(4, TERM, vec![batch(TERM, 6)], 3), Rejected::Malformed("entries are not consecutive")),
        (append(4, TERM, vec![batch(1, 5)], 3), Rejected::Malformed("terms of entries fall")),
        (
            append(4, TERM, vec![batch(TERM + 1, 5)], 3),
            Rejected::Malformed("an entry of a term after its leader's"),
        ),
        (
            append(9, 0, vec![batch(TERM, 10)], 3),
            Rejected::Malformed("term 0 belongs to index 0 and only there"),
        ),
        (append(4, TERM, vec![odd], 3), Rejected::Malformed("a conf change that cannot be read")),
        (append(3, 1, vec![], 3), Rejected::Conflict { index: 3 }),
        (append(1, 1, vec![batch(1, 2)], 3), Rejected::Conflict { index: 2 }),
        (Body::Heartbeat { commit: 5 }, Rejected::BeyondLog { index: 5, last: 4 }),
        (snapshot(9, TERM, &[2, 3]), Rejected::Malformed("a snapshot that does not name us")),
        (
            snapshot(9, TERM + 1, &[1, 2]),
            Rejected::Malformed("a snapshot of no term, or one after its leader's"),
        ),
        (snapshot(9, TERM, &[]), Rejected::Malformed("no voters")),
        (snapshot(3, 1, &[1, 2]), Rejected::Conflict { index: 3 }),
    ];
    for (body, reason) in cases {
        let mut node = follower();
        let before = node.status();
        assert_eq!(node.step(2, from_2(body.clone())), Err(reason), "{body:?}");
        assert_eq!(node.status(), before, "a refused message changes nothing");
    }
}

#[test]
fn a_message_is_from_whom_the_connection_says() {
    let mut node = follower();
    let heartbeat = from_2(Body::Heartbeat { commit: 3 });
    assert_eq!(node.step(3, heartbeat.clone()), Err(Rejected::Misaddressed { from: 2, to: 1 }));
    let elsewhere = Message { to: 3, ..heartbeat.clone() };
    assert_eq!(node.step(2, elsewhere), Err(Rejected::Misaddressed { from: 2, to: 3 }));
    let second = Message { from: 3, ..heartbeat.clone() };
    assert_eq!(node.step(3, second), Err(Rejected::TwoLeaders { from: 3, leader: 2, term: TERM }));
    for term in [0, MAX_TERM + 1] {
        assert_eq!(node.step(2, Message { term, ..heartbeat.clone() }), Err(Rejected::Term { term }));
    }
    node.step(2, heartbeat).unwrap();
}

#[test]
fn responses_beyond_the_leaders_log_are_refused() {
    let mut node = follower();
    while !node.is_leader() {
        node.campaign();
        while let Some(ready) = node.ready() {
            let mut messages = ready.messages;
            if let Some(write) = ready.write {
                messages.extend(node.synced(write.number));
            }
            for message in messages {
                if let (2, Body::Vote { pre, .. }) = (message.to, message.body) {
                    let granted = Body::VoteResponse { pre, granted: true, commit: 0, commit_term: 0 };
                    node.step(2, Message { from: 2, to: 1, term: message.term, body: granted }).unwrap();
                }
            }
        }
    }
    let status = node.status();
    let (term, last) = (status.term, status.last_index);
    let mut step = |body| node.step(2, Message { from: 2, to: 1, term, body });
    let beyond = Err(Rejected::BeyondLog { index: last + 1, last });
    assert_eq!(step(Body::AppendAccepted { index: last + 1, commit: 0 }), beyond);
    let rejected = |index, hint_index| Body::AppendRejected { index, hint_index, hint_term: 1, commit: 0 };
    assert_eq!(step(rejected(last + 1, 1)), beyond);
    let hint = Err(Rejected::Malformed("a rejection hints beyond what it rejects"));
    assert_eq!(step(rejected(last, u64::MAX)), hint);
}
