//! How many snapshots run, and which entries are kept for their receivers and for how long.

use consensus::{ConfState, PeerState, PeerStatus, SnapshotMeta};

use super::super::sending::{KeptLog, MAX_RUNNING, MAX_SILENCE_NS, MIN_ENTRY_BYTES, SnapshotSending};
use super::{LogAndStore, SendError, SentSnapshot};
use crate::io::{Notice, Output, SnapshotEvent};

/// More than the logs of these tests take.
const ENOUGH_BYTES: u64 = 1 << 20;

/// A log that ends with this entry.
fn log_up_to(last: u64) -> LogAndStore {
    let mut state = LogAndStore::new(&[1, 2, 3]);
    while state.log.last_index() < last {
        state.put("key", "value");
    }
    state
}

/// Snapshots of the state at these indexes for these peers.
fn running(state: &mut LogAndStore, peers: &[(u64, u64)], max_bytes: u64) -> SnapshotSending {
    let mut sending = SnapshotSending::new(0);
    for &(peer, index) in peers {
        let kept = KeptLog { after: index, max_bytes };
        sending.pin_state(peer, &meta(index), kept, &state.log, &mut state.store, state.values.clone());
    }
    sending
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, term: 1, conf_state: ConfState::of_voters([1, 2, 3]) }
}

/// Starts the snapshot of a peer. Returns its stream.
fn start(sending: &mut SnapshotSending, peer: u64, index: u64) -> Option<Box<super::Outgoing>> {
    let mut out = Output::default();
    let started = sending.start(peer, &meta(index), 9, &[], &mut out);
    assert_eq!(started, out.snapshots.len() == 1);
    out.snapshots.pop()
}

/// Starts the snapshot of a peer, and ends it.
fn send(sending: &mut SnapshotSending, peer: u64, index: u64) {
    let outgoing = start(sending, peer, index).expect("it leaves");
    let notice = Notice::Snapshot { peer, event: SnapshotEvent::Sent { index } };
    assert_eq!(sending.ended(0, outgoing.sent(), &Ok(())), Some((peer, notice)));
}

fn follower(id: u64, matched: u64) -> PeerStatus {
    PeerStatus { id, matched, next: matched + 1, state: PeerState::Replicate, recent_active: true }
}

fn silent(id: u64, matched: u64) -> PeerStatus {
    PeerStatus { recent_active: false, ..follower(id, matched) }
}

#[test]
fn each_peer_gets_one_at_a_time_and_only_so_many_run() {
    let mut state = log_up_to(60);
    let sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    assert!(!sending.may_prepare(0, 2));
    assert!(sending.may_prepare(0, 3));
    let sending = running(&mut state, &[(2, 50), (3, 50)], ENOUGH_BYTES);
    assert_eq!(MAX_RUNNING, 2);
    assert!(!sending.may_prepare(0, 4));
}

#[test]
fn the_entries_after_a_snapshot_are_kept_up_to_a_number_of_bytes() {
    let mut state = log_up_to(100);
    assert_eq!(running(&mut state, &[], 0).oldest_needed(&state.log), u64::MAX);
    // Small entries count for more than they take on the disk.
    let sending = running(&mut state, &[(2, 60), (3, 50)], 50 * MIN_ENTRY_BYTES);
    assert_eq!(sending.oldest_needed(&state.log), 50);
    state.put("key", "value");
    assert_eq!(sending.oldest_needed(&state.log), 60);
    assert!(state.log.bytes_after(50) < 50 * MIN_ENTRY_BYTES);
    let last = state.log.last_index();
    (0..3).for_each(|_| state.put("key", vec![1; 20_000]));
    let used = state.log.bytes_after(last);
    assert!((60_000..80_000).contains(&used), "{used}");
    let sending = running(&mut state, &[(2, last)], used);
    assert_eq!(sending.oldest_needed(&state.log), last);
    state.put("key", vec![1; 20_000]);
    assert_eq!(sending.oldest_needed(&state.log), u64::MAX);
}

#[test]
fn only_what_was_offered_leaves_and_it_leaves_once() {
    let mut state = log_up_to(60);
    let mut sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    assert!(start(&mut sending, 2, 51).is_none());
    assert!(start(&mut sending, 2, 50).is_some());
    assert!(start(&mut sending, 2, 50).is_none());
}

#[test]
fn a_new_leadership_drops_what_has_not_left() {
    let mut state = log_up_to(60);
    let mut sending = running(&mut state, &[(2, 50), (3, 60)], ENOUGH_BYTES);
    let left = start(&mut sending, 3, 60);
    sending.leadership_changed();
    assert_eq!(sending.oldest_needed(&state.log), 60);
    drop(left);
}

#[test]
fn a_snapshot_is_given_up_when_the_entries_after_it_are_gone() {
    let mut state = log_up_to(60);
    let mut sending = running(&mut state, &[(2, 50), (3, 55)], ENOUGH_BYTES);
    let mut given_up = start(&mut sending, 2, 50).expect("it leaves");
    let mut other = start(&mut sending, 3, 55).expect("it leaves");
    sending.forget(50);
    assert!(given_up.next_bytes().is_ok(), "entry 51 is there");
    sending.forget(51);
    assert!(given_up.next_bytes().is_err() && other.next_bytes().is_ok());
    assert!(!sending.may_prepare(0, 2), "its stream has not ended");
    sending.ended(0, given_up.sent(), &Ok(()));
    assert!(sending.may_prepare(0, 2) && !sending.has_catching_up(), "it needs another");
    sending.ended(0, other.sent(), &Ok(()));
    sending.forget(55);
    assert!(sending.has_catching_up());
    sending.forget(56);
    assert!(!sending.has_catching_up());
    let mut sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    sending.forget(51);
    assert!(start(&mut sending, 2, 50).is_none() && sending.may_prepare(0, 2), "it had not left");
}

#[test]
fn on_a_nearly_full_disk_a_snapshot_of_compacted_history_is_given_up() {
    let mut state = log_up_to(60);
    let mut sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    let mut outgoing = start(&mut sending, 2, 50).expect("it leaves");
    let revision = state.reader.current_revision();
    sending.make_space(40, revision);
    assert!(outgoing.next_bytes().is_ok(), "it needs nothing that could be purged");
    sending.make_space(40, revision + 1);
    assert!(outgoing.next_bytes().is_err());
}

#[test]
fn a_peer_that_got_one_is_waited_for_until_it_is_near() {
    let mut state = log_up_to(200);
    let mut sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    let sent = start(&mut sending, 2, 50).expect("it leaves").sent();
    let of_another = SentSnapshot { sequence: sent.sequence + 1, ..sent };
    assert_eq!(sending.ended(0, of_another, &Ok(())), None);
    let notice = Notice::Snapshot { peer: 2, event: SnapshotEvent::Sent { index: 50 } };
    assert_eq!(sending.ended(0, sent, &Ok(())), Some((2, notice)));
    assert!(sending.may_prepare(0, 2) && sending.has_catching_up());
    // 200 applied, those after 100 kept anyway: 150 is near enough.
    for (matched, needed) in [(0, 50), (50, 50), (80, 80), (149, 149), (150, u64::MAX)] {
        sending.note_progress(0, 200, 100, &[follower(2, matched)]);
        assert_eq!(sending.oldest_needed(&state.log), needed, "the peer has {matched}");
    }
}

#[test]
fn a_peer_that_installs_its_snapshot_is_waited_for_although_that_is_near() {
    let mut state = log_up_to(200);
    let mut sending = running(&mut state, &[(2, 190)], ENOUGH_BYTES);
    send(&mut sending, 2, 190);
    sending.note_progress(0, 200, 100, &[follower(2, 40)]);
    assert_eq!(sending.oldest_needed(&state.log), 190, "it has acknowledged nothing behind the snapshot");
    sending.note_progress(0, 200, 100, &[follower(2, 190)]);
    assert!(!sending.has_catching_up());
}

#[test]
fn a_silent_peer_is_waited_for_and_one_that_stays_silent_is_not() {
    let mut state = log_up_to(200);
    let mut sending = running(&mut state, &[(2, 50)], ENOUGH_BYTES);
    send(&mut sending, 2, 50);
    for (now_ns, peer) in [
        (5, silent(2, 50)),
        (4 + MAX_SILENCE_NS, silent(2, 50)),
        (6 + MAX_SILENCE_NS, follower(2, 60)),
        (7 + MAX_SILENCE_NS, silent(2, 60)),
        (6 + 2 * MAX_SILENCE_NS, silent(2, 60)),
    ] {
        sending.note_progress(now_ns, 200, 100, std::slice::from_ref(&peer));
        assert_eq!(sending.oldest_needed(&state.log), peer.matched);
    }
    sending.note_progress(7 + 2 * MAX_SILENCE_NS, 200, 100, &[silent(2, 60)]);
    assert_eq!(sending.oldest_needed(&state.log), u64::MAX);
}

#[test]
fn no_peer_is_waited_for_that_got_none_or_is_no_member() {
    let mut state = log_up_to(200);
    let mut sending = running(&mut state, &[(2, 50), (3, 50)], ENOUGH_BYTES);
    let failed = start(&mut sending, 2, 50).expect("it leaves").sent();
    let error = SendError { reason: "broken".to_owned(), damaged: None };
    let (_, notice) = sending.ended(0, failed, &Err(error)).expect("it ran");
    let event = SnapshotEvent::NotSent { index: 50, reason: "broken".to_owned() };
    assert_eq!(notice, Notice::Snapshot { peer: 2, event });
    assert!(!sending.has_catching_up());
    send(&mut sending, 3, 50);
    sending.note_progress(0, 200, 100, &[follower(2, 60)]);
    assert_eq!(sending.oldest_needed(&state.log), u64::MAX);
}

/// Consensus asks again at each heartbeat, and a peer that refuses does so for a while.
#[test]
fn after_a_failure_a_peer_gets_no_other_at_once() {
    let mut state = log_up_to(60);
    let mut sending = running(&mut state, &[], ENOUGH_BYTES);
    let refused = || Err(SendError { reason: "the disk is full".to_owned(), damaged: None });
    let mut end = |sending: &mut SnapshotSending, now_ns, result| {
        let kept = KeptLog { after: 50, max_bytes: ENOUGH_BYTES };
        sending.pin_state(2, &meta(50), kept, &state.log, &mut state.store, state.values.clone());
        let outgoing = start(sending, 2, 50).expect("it leaves");
        assert!(sending.ended(now_ns, outgoing.sent(), &result).is_some());
    };
    let (mut now_ns, mut offers) = (0, 0);
    while now_ns < 60_000_000_000 {
        if sending.may_prepare(now_ns, 2) {
            end(&mut sending, now_ns, refused());
            offers += 1;
        }
        assert!(sending.may_prepare(now_ns, 3), "others do not wait");
        now_ns += 100_000_000;
    }
    assert!((25..40).contains(&offers), "{offers} in a minute of heartbeats");
    now_ns += 2_000_000_000;
    end(&mut sending, now_ns, Ok(()));
    assert!(sending.may_prepare(now_ns, 2));
    end(&mut sending, now_ns, refused());
    assert!(!sending.may_prepare(now_ns, 2) && sending.may_prepare(now_ns + 200_000_000, 2));
    sending.leadership_changed();
    assert!(sending.may_prepare(now_ns, 2));
}
