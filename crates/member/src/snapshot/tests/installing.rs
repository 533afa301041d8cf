//! An installation begins once, when consensus wants it, and holds up the writes after it.

use consensus::{SnapshotMeta, Write};
use log::JobError;

use super::super::installing::SnapshotInstalling;
use super::super::receiver::Receiver;
use super::{FOLLOWER, LEADER, LogAndStore, filled, meta, receiver, stream};
use crate::io::Output;
use crate::jobs::Job;

fn arrived() -> Box<Receiver> {
    let mut leader = filled();
    let (stream, meta) = (stream(&mut leader), meta(&leader));
    let mut follower = LogAndStore::new(&[FOLLOWER]);
    let mut receiver = receiver(&mut follower, &meta);
    receiver.take(&stream).expect("it is the stream");
    Box::new(receiver)
}

fn write(number: u64, snapshot: Option<SnapshotMeta>) -> Write {
    Write { number, hard_state: None, snapshot, entries: Vec::new(), must_sync: true }
}

#[test]
fn a_wanted_snapshot_is_installed_once_and_before_later_writes() {
    let mut installing = SnapshotInstalling::default();
    let mut out = Output::default();
    let snapshot = arrived();
    let meta = snapshot.meta().clone();
    installing.arrived(snapshot, &mut out);
    assert!(!installing.is_running(), "consensus has not decided");
    installing.want(&meta, write(1, Some(meta.clone())));
    installing.abandon_unwanted(&mut out);
    assert!(installing.is_running() && out.background.is_empty());
    installing.begin(&mut out);
    installing.begin(&mut out);
    assert!(matches!(out.background[..], [Job::Install(_)]));
    installing.hold(write(2, None));
    installing.hold(write(3, None));
    let installed = installing.finish();
    assert_eq!((installed.from, installed.meta, installed.write.number), (LEADER, meta, 1));
    assert!(!installing.is_running());
    assert_eq!(installing.take_held(), [write(2, None), write(3, None)]);
    assert_eq!(installing.take_held(), []);
}

/// Consensus counts on it, so it is tried until there is space.
#[test]
fn a_commit_that_finds_no_space_is_tried_again_at_each_tick() {
    let mut installing = SnapshotInstalling::default();
    let mut out = Output::default();
    let snapshot = arrived();
    let meta = snapshot.meta().clone();
    installing.arrived(snapshot, &mut out);
    installing.want(&meta, write(1, Some(meta.clone())));
    installing.begin(&mut out);
    for attempt in 0..3 {
        let Some(Job::Install(installer)) = out.background.pop() else { unreachable!("attempt {attempt}") };
        installing.wait(installer, &JobError::Busy("a test says so"), &mut out);
        installing.begin(&mut out);
        assert!(out.background.is_empty() && installing.is_running(), "attempt {attempt}: not before a tick");
        assert_eq!(out.notices.len(), 1, "one notice is enough");
        installing.tick(&mut out);
    }
    installing.tick(&mut out);
    assert_eq!(out.background.len(), 1);
}

#[test]
fn a_snapshot_that_consensus_did_not_want_is_abandoned() {
    let mut installing = SnapshotInstalling::default();
    let mut out = Output::default();
    installing.arrived(arrived(), &mut out);
    installing.arrived(arrived(), &mut out);
    assert!(matches!(out.background[..], [Job::AbandonSnapshot(_)]), "the first one");
    installing.abandon_unwanted(&mut out);
    assert!(matches!(out.background[..], [Job::AbandonSnapshot(_), Job::AbandonSnapshot(_)]));
    installing.begin(&mut out);
    assert_eq!(out.background.len(), 2);
    assert!(!installing.is_running());
}

#[test]
#[should_panic(expected = "another snapshot than it heard of")]
fn consensus_wants_the_snapshot_that_arrived() {
    let mut installing = SnapshotInstalling::default();
    let snapshot = arrived();
    let meta = snapshot.meta().clone();
    let other = SnapshotMeta { index: meta.index + 1, ..meta };
    installing.arrived(snapshot, &mut Output::default());
    installing.want(&other, write(1, Some(other.clone())));
}
