//! A state, its stream, and a follower that receives it.

mod installing;
mod outgoing;
mod receiver;
mod receiving;
mod sending;

use std::sync::Arc;

use bytes::Bytes;
use consensus::{Body, ConfState, Message, SnapshotMeta};
use log::LogId;

use super::format::SnapshotStreamId;
use super::outgoing::{Outgoing, SendError, SentSnapshot};
use super::receiver::{Receiver, StreamKey};
use crate::maintenance::memory::MemoryShare;
use crate::tests::LogAndStore;

const LEADER: u64 = 1;
const FOLLOWER: u64 = 2;

/// The run of the leader's process.
const RUN: u64 = 40;

/// A leader's state of some keys, one of them without a value and one with two versions.
fn filled() -> LogAndStore {
    let mut state = LogAndStore::new(&[LEADER, FOLLOWER, 3]);
    for number in 0..20_u8 {
        state.put(&format!("key{number:02}"), vec![number; 100 * usize::from(number)]);
    }
    state.put("key07", "a second version");
    state
}

/// Names the applied state.
fn meta(state: &LogAndStore) -> SnapshotMeta {
    let LogId { index, term } = state.applied();
    SnapshotMeta { index, term, conf_state: ConfState::of_voters([LEADER, FOLLOWER, 3]) }
}

/// The message with which a leader of this term announces the snapshot.
fn message(from: u64, term: u64, meta: &SnapshotMeta) -> Message {
    Message { from, to: FOLLOWER, term, body: Body::Snapshot(meta.clone()) }
}

/// The applied state as a stream.
fn outgoing(state: &mut LogAndStore) -> Outgoing {
    let (pin, meta) = (state.log.reader().pin(), meta(state));
    let sent = SentSnapshot { peer: FOLLOWER, sequence: 1 };
    let source = state.store.begin_snapshot();
    let mut outgoing = Outgoing::new(sent, &meta, pin, source, state.values.clone(), Arc::default());
    outgoing.open(RUN, &message(LEADER, 1, &meta).encode());
    outgoing
}

/// All bytes from where the stream stands.
fn rest_of(outgoing: &mut Outgoing) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = outgoing.next_bytes().expect("the values are intact") {
        all.extend_from_slice(&bytes);
    }
    all
}

/// The applied state as the bytes of a stream.
fn stream(state: &mut LogAndStore) -> Bytes {
    rest_of(&mut outgoing(state)).into()
}

/// A receiver of a stream that `meta` announces.
fn receiver(follower: &mut LogAndStore, meta: &SnapshotMeta) -> Receiver {
    receiver_with(follower, meta, MemoryShare::of(&Arc::default()))
}

/// The same, which accounts for its memory.
fn receiver_with(follower: &mut LogAndStore, meta: &SnapshotMeta, memory: MemoryShare) -> Receiver {
    let key = StreamKey { from: LEADER, id: SnapshotStreamId { run: RUN, sequence: 1 } };
    let installer = follower.log.begin_install(LogId { index: meta.index, term: meta.term });
    Receiver::new(key, message(LEADER, 1, meta), meta.clone(), 0, Box::new(installer), memory)
}
