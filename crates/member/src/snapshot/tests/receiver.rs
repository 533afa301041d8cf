//! A receiver takes a stream however it is cut, and nothing else than the whole state that its message names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use consensus::ConfState;
use log::HardState;

use super::super::format::{ItemKind, ItemReader, ItemWriter, put_value};
use super::{FOLLOWER, LEADER, LogAndStore, filled, meta, receiver, receiver_with, stream};
use crate::jobs::{Done, Job, JobLane};
use crate::maintenance::memory::MemoryShare;

/// The items of a stream, without the end.
fn items(stream: &Bytes) -> Vec<(ItemKind, Bytes)> {
    let mut reader = ItemReader::default();
    reader.push(stream);
    let mut items: Vec<_> = std::iter::from_fn(|| reader.take().expect("the stream is intact")).collect();
    assert_eq!(items.pop().map(|(kind, _)| kind), Some(ItemKind::End));
    items
}

/// A stream of these items.
fn framed(items: &[(ItemKind, Bytes)]) -> Vec<u8> {
    let mut writer = ItemWriter::default();
    let mut frames: Vec<Bytes> = items.iter().map(|(kind, body)| writer.frame(*kind, body)).collect();
    frames.push(writer.end());
    frames.concat()
}

#[test]
fn a_received_state_is_the_sent_one_however_its_stream_is_cut() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    for cut in [1, 1_000, stream.len()] {
        let mut follower = LogAndStore::new(&[FOLLOWER]);
        let mut receiver = receiver(&mut follower, &meta);
        for part in stream.chunks(cut) {
            assert!(!receiver.is_whole());
            receiver.take(part).expect("it is the stream");
        }
        assert!(receiver.is_whole());
        assert_eq!(receiver.offset(), stream.len() as u64);
        let whole = receiver.into_whole();
        let Done::Installed(done) = Job::Install(whole.installer).run() else { unreachable!() };
        let hard_state = HardState { term: meta.term, vote: 0, commit: meta.index };
        let installed = follower.log.install_done(done, hard_state).expect("the disk is intact");
        follower.write(installed.job);
        drop(whole.state.install(&mut follower.store, &mut follower.log));
        follower.store.check_all();
        follower.log.check_all();
        assert_eq!(follower.contents(), leader.contents());
        assert_eq!(follower.reader.state_hash(), leader.reader.state_hash());
    }
}

/// What a state takes while it is received, whole, installed in place of another, and while the other is not dropped.
#[test]
fn the_memory_of_a_received_state_is_accounted_until_what_it_replaced_is_dropped() {
    let mut leader = LogAndStore::new(&[LEADER]);
    for number in 0..3_000 {
        leader.put(&format!("/registry/pods/{number:06}"), "value");
    }
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = filled();
    let sum: Arc<AtomicU64> = Arc::default();
    let accounted = || sum.load(Ordering::Relaxed);
    let mut receiver = receiver_with(&mut follower, &meta, MemoryShare::of(&sum));
    let (most, end) = stream.split_at(stream.len() - 20);
    receiver.take(most).expect("it is the stream");
    let estimated = accounted();
    receiver.take(end).expect("it is the stream");
    let whole = accounted();
    assert!((whole / 2..whole * 2).contains(&estimated), "{estimated} of {whole}");
    let before = follower.reader.memory();
    let state = receiver.into_whole().state;
    let old = Job::DropState(Box::new(state.install(&mut follower.store, &mut follower.log)));
    assert_eq!(follower.reader.memory().total(), whole);
    assert_eq!(accounted(), before.total(), "the new one counts as the state");
    assert_eq!(old.lane(), JobLane::Space);
    assert!(matches!(old.run(), Done::StateDropped));
    assert_eq!(accounted(), 0);
}

#[test]
fn an_unfinished_stream_is_not_a_snapshot_and_nothing_may_follow_its_end() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = LogAndStore::new(&[FOLLOWER]);
    let mut cut_off = receiver(&mut follower, &meta);
    cut_off.take(&stream[..stream.len() - 1]).expect("it is a part of the stream");
    assert!(!cut_off.is_whole());
    let mut too_long = receiver(&mut follower, &meta);
    too_long.take(&stream).expect("it is the stream");
    assert!(too_long.take(b"x").is_err());
    assert!(!too_long.is_whole());
    let mut too_long = receiver(&mut follower, &meta);
    assert!(too_long.take(&[&stream[..], b"x"].concat()).is_err());
    assert!(!too_long.is_whole());
}

#[test]
fn a_state_that_the_message_does_not_name_is_refused() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = LogAndStore::new(&[FOLLOWER]);
    let mut others = [meta.clone(), meta.clone(), meta.clone()];
    others[0].index += 1;
    others[1].term += 1;
    others[2].conf_state = ConfState::of_voters([FOLLOWER]);
    for other in others {
        let mut receiver = receiver(&mut follower, &other);
        assert!(receiver.take(&stream).is_err(), "{other:?}");
        assert!(!receiver.is_whole());
    }
    receiver(&mut follower, &meta).take(&stream).expect("it is the stream");
}

#[test]
fn items_in_another_order_and_values_without_a_reference_are_refused() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let items = items(&stream);
    let mut follower = LogAndStore::new(&[FOLLOWER]);
    let mut refusal = |items: &[(ItemKind, Bytes)]| receiver(&mut follower, &meta).take(&framed(items)).err();
    assert_eq!(refusal(&items), None);
    assert_eq!(refusal(&items[1..]).as_deref(), Some("a chunk comes before the head"));
    let second_head = [&items[..1], &items[..]].concat();
    assert!(refusal(&second_head).is_some_and(|reason| reason.contains("head")));
    let mut value = Vec::new();
    put_value(&mut value, b"value", crc32c::crc32c(b"value"));
    let more = [&items[..1], &[(ItemKind::Values, value.clone().into())], &items[1..]].concat();
    assert!(refusal(&more).is_some(), "a value before those of the chunk");
    let more = [&items[..], &[(ItemKind::Values, value.into())]].concat();
    assert_eq!(refusal(&more).as_deref(), Some("something follows the end"));
    let fewer: Vec<_> = items.iter().filter(|(kind, _)| *kind != ItemKind::Values).cloned().collect();
    assert!(refusal(&fewer).is_some(), "no values");
}

#[test]
fn a_value_with_another_checksum_is_refused_and_the_receiver_takes_no_more() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut items = items(&stream);
    let values = items.iter_mut().find(|(kind, _)| *kind == ItemKind::Values).expect("there are values");
    let mut body = values.1.to_vec();
    *body.last_mut().expect("it is not empty") ^= 1;
    values.1 = body.into();
    let mut follower = LogAndStore::new(&[FOLLOWER]);
    let mut receiver = receiver(&mut follower, &meta);
    assert!(receiver.take(&framed(&items)).is_err());
    assert!(receiver.take(&stream).is_err());
    assert!(!receiver.is_whole());
}
