//! Which streams a follower accepts, and what becomes of one that breaks, is replaced or ends.

use bytes::Bytes;
use consensus::{Body, Config, Consensus, Message, SnapshotMeta, Start};

use super::super::format::{SnapshotStreamId, encode_header};
use super::super::receiver::Receiver;
use super::super::receiving::{FULL_DISK_PAUSE_NS, RESUME_WITHIN_NS, SnapshotOffer, SnapshotReceiving};
use super::{FOLLOWER, LEADER, LogAndStore, RUN, filled, message, meta, stream};
use crate::io::{Notice, Output, SnapshotEvent};
use crate::jobs::Job;

/// A follower with an empty log.
struct Follower {
    state: LogAndStore,
    consensus: Consensus,
    receiving: SnapshotReceiving,
    lineage: u64,
    out: Output,
}

impl Follower {
    fn new() -> Follower {
        let config = Config {
            id: FOLLOWER,
            election_tick: 10,
            heartbeat_tick: 1,
            pre_vote: true,
            check_quorum: true,
            seed: 7,
        };
        let consensus = Consensus::new(&config, Start::bootstrap([LEADER, FOLLOWER, 3])).expect("it starts");
        Follower {
            state: LogAndStore::new(&[LEADER, FOLLOWER, 3]),
            consensus,
            receiving: SnapshotReceiving::default(),
            lineage: 0,
            out: Output::default(),
        }
    }

    fn accept(&mut self, header: Bytes, from: u64, refusal: Option<&str>) -> Result<Box<Receiver>, String> {
        let Follower { state, consensus, receiving, lineage, out } = self;
        let offer =
            SnapshotOffer { from, header, member_id: FOLLOWER, applied: 1, lineage: *lineage, refusal };
        receiving.accept(offer, &mut state.log, consensus, out)
    }

    /// Takes the jobs that abandon what was received, and returns their number.
    fn take_abandoned(&mut self) -> usize {
        let jobs = std::mem::take(&mut self.out.background);
        assert!(jobs.iter().all(|job| matches!(job, Job::AbandonSnapshot(_))));
        jobs.len()
    }

    fn whole(&mut self, receiver: Box<Receiver>, is_installing: bool) -> Result<Box<Receiver>, String> {
        self.receiving.whole(receiver, is_installing, &mut self.consensus, &mut self.out)
    }
}

/// What a stream with this message is opened with.
fn header(sequence: u64, message: &Message) -> Bytes {
    encode_header(SnapshotStreamId { run: RUN, sequence }, &message.encode())
}

/// A snapshot that is not there but in name.
fn named(index: u64) -> SnapshotMeta {
    SnapshotMeta { index, ..meta(&LogAndStore::new(&[LEADER])) }
}

#[test]
fn a_snapshot_is_refused_unless_its_leader_sends_it_and_its_entries_are_missing() {
    let mut follower = Follower::new();
    let new = message(LEADER, 1, &named(9));
    assert!(follower.accept(header(1, &new), 3, None).is_err(), "3 sends what 1 announces");
    let misdirected = Message { to: 3, ..new.clone() };
    assert!(follower.accept(header(1, &misdirected), LEADER, None).is_err());
    let applied = follower.accept(header(1, &message(LEADER, 1, &named(1))), LEADER, None);
    assert!(applied.is_err_and(|reason| reason.contains("applied here")));
    let refused = follower.accept(header(1, &new), LEADER, Some("not now"));
    assert_eq!(refused.err().as_deref(), Some("not now"));
    assert!(follower.out.notices.is_empty());
    assert!(follower.accept(header(1, &new), LEADER, None).is_ok());
    let event = SnapshotEvent::Receiving { index: 9 };
    assert_eq!(follower.out.notices, [Notice::Snapshot { peer: LEADER, event }]);
}

/// A snapshot of a leader whose term is over, or whose entries are committed here, would be received in vain.
#[test]
fn a_snapshot_that_consensus_would_not_install_is_refused_at_its_offer() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = Follower::new();
    let heartbeat = Message { from: 3, to: FOLLOWER, term: 5, body: Body::Heartbeat { commit: 1 } };
    follower.consensus.step(3, heartbeat).expect("3 leads term 5");
    let old = follower.accept(header(1, &message(LEADER, 4, &named(9))), LEADER, None);
    assert!(old.is_err_and(|reason| reason.contains("another leader, or a later term")));
    // A member that the configuration does not name, while the leader is heard.
    let stranger = follower.accept(header(1, &message(9, 6, &named(9))), 9, None);
    assert!(stranger.is_err_and(|reason| reason.contains("another leader")));
    let second = follower.accept(header(1, &message(LEADER, 5, &named(9))), LEADER, None);
    assert!(second.is_err_and(|reason| reason.contains("leads term 5")), "a second leader of a term");
    let own = follower.accept(header(1, &message(3, 5, &meta)), 3, None);
    let mut receiver = own.expect("its leader's");
    receiver.take(&stream).expect("it is the stream");
    // Its term ends while it arrives.
    let later = Message { from: LEADER, to: FOLLOWER, term: 6, body: Body::Heartbeat { commit: 1 } };
    follower.consensus.step(LEADER, later).expect("1 leads term 6");
    let late = follower.whole(receiver, false);
    assert!(late.is_err_and(|reason| reason.contains("a later term")));
    assert_eq!(follower.take_abandoned(), 1);
}

#[test]
fn a_broken_stream_goes_on_with_what_was_received_if_it_comes_back_in_time() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let header = header(1, &message(LEADER, 1, &meta));
    let mut follower = Follower::new();
    let mut receiver = follower.accept(header.clone(), LEADER, None).expect("it is new");
    receiver.take(&stream[..50]).expect("it is a part of the stream");
    follower.receiving.broken(0, receiver, &mut follower.out);
    follower.receiving.expire(RESUME_WITHIN_NS - 1, &mut follower.out);
    let receiver = follower.accept(header.clone(), LEADER, Some("not now")).expect("it goes on");
    assert_eq!(receiver.offset(), 50);
    follower.receiving.broken(0, receiver, &mut follower.out);
    assert_eq!(follower.take_abandoned(), 0);
    follower.receiving.expire(RESUME_WITHIN_NS, &mut follower.out);
    assert_eq!(follower.take_abandoned(), 1);
    assert_eq!(follower.accept(header, LEADER, None).expect("it begins again").offset(), 0);
}

#[test]
fn a_broken_stream_of_a_leader_whose_term_has_ended_does_not_go_on() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let header = header(1, &message(LEADER, 1, &meta));
    let mut follower = Follower::new();
    let mut receiver = follower.accept(header.clone(), LEADER, None).expect("it is new");
    receiver.take(&stream[..50]).expect("it is a part of the stream");
    follower.receiving.broken(0, receiver, &mut follower.out);
    let later = Message { from: 3, to: FOLLOWER, term: 2, body: Body::Heartbeat { commit: 1 } };
    follower.consensus.step(3, later).expect("3 leads term 2");
    let resumed = follower.accept(header, LEADER, None);
    assert!(resumed.is_err_and(|reason| reason.contains("a later term")));
    assert_eq!(follower.take_abandoned(), 1);
}

#[test]
fn why_none_is_taken_now_is_said_before_what_consensus_thinks_of_it() {
    let mut follower = Follower::new();
    let later = Message { from: 3, to: FOLLOWER, term: 2, body: Body::Heartbeat { commit: 1 } };
    follower.consensus.step(3, later).expect("3 leads term 2");
    let refused = follower.accept(header(1, &message(LEADER, 1, &named(9))), LEADER, Some("it installs"));
    assert_eq!(refused.err().as_deref(), Some("it installs"));
}

#[test]
fn a_state_of_another_lineage_is_refused_at_its_end() {
    let mut leader = filled();
    let header = header(1, &message(LEADER, 1, &meta(&leader)));
    let stream = stream(&mut leader);
    let mut follower = Follower { lineage: 0x51, ..Follower::new() };
    let mut receiver = follower.accept(header, LEADER, None).expect("it is new");
    assert!(receiver.take(&stream).is_err_and(|reason| reason.contains("lineage 0, this member of 51")));
    assert!(!receiver.is_whole());
}

#[test]
fn a_stream_that_was_refused_is_not_resumed() {
    let mut leader = filled();
    let header = header(1, &message(LEADER, 1, &meta(&leader)));
    let mut bytes = stream(&mut leader).to_vec();
    bytes[20] ^= 1;
    let mut follower = Follower::new();
    let mut receiver = follower.accept(header.clone(), LEADER, None).expect("it is new");
    assert!(receiver.take(&bytes).is_err());
    follower.receiving.broken(0, receiver, &mut follower.out);
    assert_eq!(follower.take_abandoned(), 1);
    assert_eq!(follower.accept(header, LEADER, None).expect("it begins again").offset(), 0);
}

#[test]
fn a_snapshot_that_does_not_fit_on_the_disk_is_followed_by_a_pause() {
    let mut leader = filled();
    let header = header(1, &message(LEADER, 1, &meta(&leader)));
    let stream = stream(&mut leader);
    let mut follower = Follower::new();
    let mut receiver = follower.accept(header.clone(), LEADER, None).expect("it is new");
    let end = stream.len() - 1;
    receiver.take(&stream[..end]).expect("little is written before the end");
    follower.state.disk.set_capacity(Some(0));
    assert!(receiver.take(&stream[end..]).is_err_and(|reason| reason.contains("no storage space")));
    assert!(!receiver.is_whole() && !follower.receiving.is_pausing(0));
    follower.receiving.broken(5, receiver, &mut follower.out);
    assert_eq!(follower.take_abandoned(), 1);
    assert!(follower.receiving.is_pausing(4 + FULL_DISK_PAUSE_NS));
    assert!(!follower.receiving.is_pausing(5 + FULL_DISK_PAUSE_NS));
}

#[test]
fn a_snapshot_gives_way_to_a_later_one_of_its_leader_or_one_of_a_later_term() {
    let mut follower = Follower::new();
    let first = follower.accept(header(1, &message(LEADER, 2, &named(9))), LEADER, None);
    follower.receiving.broken(0, first.expect("it is new"), &mut follower.out);
    assert!(follower.accept(header(1, &message(3, 2, &named(9))), 3, None).is_err(), "of the same term");
    assert_eq!(follower.take_abandoned(), 0);
    let later = follower.accept(header(2, &message(LEADER, 2, &named(10))), LEADER, None);
    assert_eq!(follower.take_abandoned(), 1);
    assert!(follower.accept(header(1, &message(3, 3, &named(11))), 3, None).is_ok());
    assert_eq!(follower.take_abandoned(), 0, "its thread still holds it");
    follower.receiving.broken(0, later.expect("it is of the leader"), &mut follower.out);
    assert_eq!(follower.take_abandoned(), 1, "and brings back what has been replaced");
}

#[test]
fn consensus_hears_of_a_snapshot_that_is_whole_and_current() {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = Follower::new();
    let accept = |follower: &mut Follower, sequence| {
        let mut receiver =
            follower.accept(header(sequence, &message(LEADER, 1, &meta)), LEADER, None).expect("it is new");
        receiver.take(&stream).expect("it is the stream");
        receiver
    };
    let replaced = accept(&mut follower, 1);
    let receiver = accept(&mut follower, 2);
    assert!(follower.whole(replaced, false).is_err());
    assert!(follower.whole(receiver, true).is_err(), "another one is being installed");
    let unfinished = follower.accept(header(3, &message(LEADER, 1, &meta)), LEADER, None).expect("it is new");
    assert!(follower.whole(unfinished, false).is_err());
    assert_eq!(follower.take_abandoned(), 3);
    let receiver = accept(&mut follower, 4);
    let arrived = follower.whole(receiver, false).expect("consensus takes it");
    assert_eq!((arrived.key.from, arrived.meta()), (LEADER, &meta));
    let wanted = follower.consensus.ready().and_then(|ready| ready.write).and_then(|write| write.snapshot);
    assert_eq!(wanted, Some(meta));
    assert_eq!(follower.take_abandoned(), 0);
}
