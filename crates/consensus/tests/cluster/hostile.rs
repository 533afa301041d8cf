//! Hostile peers: no message makes a node abort.

use bytes::Bytes;
use consensus::{
    Body, Change, ConfChange, ConfState, Config, Consensus, Entry, EntryKind, Message, SnapshotMeta, Start,
};

use crate::rng::{Rng, seeds};

const ME: u64 = 1;

/// Mostly small, so that it hits something; sometimes at the edge.
fn number(rng: &mut Rng, near: u64) -> u64 {
    match rng.below(20) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << 60,
        3..8 => rng.next() % 12,
        _ => near.saturating_add(rng.next() % 5).saturating_sub(2),
    }
}

fn entries(rng: &mut Rng, after: u64, term: u64) -> Vec<Entry> {
    let mut index = after;
    let count = rng.below(4);
    (0..count)
        .map(|_| {
            index = if rng.chance(95) { index.wrapping_add(1) } else { number(rng, after) };
            let term = if rng.chance(80) { term } else { number(rng, term) };
            let kind = [EntryKind::Batch, EntryKind::ConfChange, EntryKind::Empty][rng.below(3)];
            let payload = match kind {
                _ if rng.chance(3) => Bytes::from_static(b"odd"),
                EntryKind::Batch => Bytes::from_static(b"batch"),
                EntryKind::Empty => Bytes::new(),
                EntryKind::ConfChange => conf_change(rng).encode(),
            };
            Entry { term, index, kind, payload }
        })
        .collect()
}

fn conf_change(rng: &mut Rng) -> ConfChange {
    let mut change = ConfChange::default();
    for _ in 0..rng.below(3) {
        let id = 1 + rng.next() % 4;
        change.changes.push([Change::AddVoter(id), Change::AddLearner(id), Change::Remove(id)][rng.below(3)]);
    }
    change
}

fn conf_state(rng: &mut Rng) -> ConfState {
    let mut ids = |percent| (0..5).filter(|_| rng.chance(percent)).collect::<Vec<u64>>();
    let mut conf = ConfState { voters: ids(60), ..ConfState::default() };
    conf.voters_outgoing = if ids(20).len() > 1 { ids(60) } else { Vec::new() };
    conf.learners = ids(20);
    conf.learners_next = ids(10);
    conf
}

fn message(rng: &mut Rng, node: &Consensus) -> (u64, Message) {
    let status = node.status();
    let from = 2 + rng.next() % 4;
    let term = if rng.chance(60) { status.term } else { number(rng, status.term) };
    let (last, commit) = (status.last_index, status.commit);
    let body = match rng.below(12) {
        0..3 => {
            let previous_index = if rng.chance(70) { last } else { number(rng, commit) };
            let previous_term = number(rng, term);
            let entries = entries(rng, previous_index, term);
            Body::Append { previous_index, previous_term, commit: number(rng, last), entries }
        }
        3 => Body::AppendAccepted { index: number(rng, last), commit: number(rng, last) },
        4 => Body::AppendRejected {
            index: number(rng, last),
            hint_index: number(rng, last),
            hint_term: number(rng, term),
            commit: number(rng, last),
        },
        5 => Body::Vote {
            pre: rng.chance(50),
            transfer: rng.chance(50),
            last_index: number(rng, last),
            last_term: number(rng, term),
            commit: number(rng, last),
            commit_term: number(rng, term),
        },
        6 => Body::VoteResponse {
            pre: rng.chance(50),
            granted: rng.chance(80),
            commit: number(rng, last),
            commit_term: number(rng, term),
        },
        7 => Body::Heartbeat { commit: number(rng, last) },
        8 => Body::HeartbeatResponse { commit: number(rng, last) },
        9 => Body::TimeoutNow,
        10 => Body::Snapshot(SnapshotMeta {
            index: number(rng, last + 1),
            term: number(rng, term),
            conf_state: conf_state(rng),
        }),
        _ if rng.chance(50) => Body::LeadershipCheck { round: number(rng, 1) },
        _ => Body::LeadershipCheckResponse { round: number(rng, 1) },
    };
    (from, Message { from, to: ME, term, body })
}

/// Does what an owner does, with a disk that is late.
fn work(rng: &mut Rng, node: &mut Consensus, writes: &mut Vec<u64>) {
    while let Some(ready) = node.ready() {
        writes.extend(ready.write.filter(|write| write.must_sync).map(|write| write.number));
        for entry in ready.committed {
            if entry.kind == EntryKind::ConfChange {
                let _ = node.apply_conf_change(&ConfChange::decode(entry.payload).unwrap());
            }
            node.applied(entry.index);
        }
        for peer in ready.snapshots_wanted {
            let status = node.status();
            let meta =
                SnapshotMeta { index: status.applied, term: status.term, conf_state: node.conf_state() };
            node.offer_snapshot(peer, &meta);
        }
        for fetch in ready.fetches {
            node.fetch_failed(fetch.from);
        }
    }
    if !writes.is_empty() && rng.chance(60) {
        let done = writes.drain(..=rng.below(writes.len())).next_back().unwrap();
        node.synced(done);
    }
}

fn harass(seed: u64, start: Start) -> (usize, usize) {
    let mut rng = Rng::new(seed);
    let config = Config {
        id: ME,
        election_tick: 5,
        heartbeat_tick: 1,
        pre_vote: seed.is_multiple_of(2),
        check_quorum: true,
        seed,
    };
    let mut node = Consensus::new(&config, start).unwrap();
    let mut writes = Vec::new();
    let (mut taken, mut rejected) = (0, 0);
    for _ in 0..400 {
        match rng.below(12) {
            0 => node.tick(),
            1 => node.campaign(),
            2 => {
                let _ = node.propose(Bytes::from_static(b"mine"));
                let _ = node.propose_conf_change(&conf_change(&mut rng));
            }
            3 => {
                let _ = node.start_round(7);
            }
            4 => {
                let _ = node.transfer_leader(2);
                node.truncate(node.status().applied);
            }
            _ => {
                let (from, message) = message(&mut rng, &node);
                match node.step(from, message) {
                    Ok(()) => taken += 1,
                    Err(_) => rejected += 1,
                }
            }
        }
        work(&mut rng, &mut node, &mut writes);
    }
    (taken, rejected)
}

#[test]
fn no_message_makes_a_node_abort() {
    let (mut taken, mut rejected) = (0, 0);
    for seed in seeds(0, 1500) {
        let start = match seed % 4 {
            0 => Start::joining(),
            1 => Start::bootstrap([1]),
            _ => Start::bootstrap([1, 2, 3]),
        };
        let counts =
            std::panic::catch_unwind(|| harass(seed, start)).unwrap_or_else(|_| panic!("seed {seed}"));
        (taken, rejected) = (taken + counts.0, rejected + counts.1);
    }
    assert!(taken > 10_000 && rejected > 10_000, "{taken} taken, {rejected} rejected");
}
