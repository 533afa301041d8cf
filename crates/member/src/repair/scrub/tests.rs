//! What a round reads, how fast, and what it finds.

use bytes::Bytes;

use super::job::{MAX_JOB_LOOK_UPS, MAX_LOOK_UP_VERSIONS, MIN_READ_BYTES};
use super::*;
use crate::jobs::Done;
use crate::tests::LogAndStore;

const SECOND_NS: u64 = 1_000_000_000;
const RATE: ScrubRate = ScrubRate {
    bytes_per_second: 1 << 20,
    disk_time_part: 16,
    max_stall_pause_ns: SECOND_NS,
    first_after_ns: SECOND_NS,
    round_ns: 100 * SECOND_NS,
};

/// Runs the job that is due at this time, if there is one.
fn step(scrub: &mut Scrub, state: &LogAndStore, now_ns: u64) -> Option<ScrubNews> {
    let job = scrub.next_job(now_ns, RATE, &state.log, &state.reader, state.applied().index)?;
    assert!(scrub.next_job(now_ns, RATE, &state.log, &state.reader, 0).is_none(), "one job at a time");
    let Done::Scrubbed(done) = job.run() else { panic!("a scrub job") };
    Some(scrub.read(now_ns, RATE, &state.log, done))
}

/// Reads a whole round. Returns what was damaged: values, entries; and when it began and ended.
fn round(
    scrub: &mut Scrub,
    state: &LogAndStore,
    now_ns: &mut u64,
) -> (Vec<(Bytes, u64)>, Vec<u64>, ScrubTotals) {
    let (mut values, mut entries) = (Vec::new(), Vec::new());
    loop {
        *now_ns = scrub.next_due_ns().map_or(*now_ns, |due_ns| due_ns.max(*now_ns));
        let Some(news) = step(scrub, state, *now_ns) else { continue };
        values.extend(news.values);
        entries.extend(news.entry.map(|(index, _)| index));
        if let Some(totals) = news.ended {
            return (values, entries, totals);
        }
    }
}

fn filled(values: u32, bytes: usize) -> LogAndStore {
    let mut state = LogAndStore::new(&[1, 2]);
    for number in 0..values {
        state.put(&format!("key{number:04}"), vec![number as u8; bytes]);
    }
    state.background();
    state
}

#[test]
fn a_round_finds_every_damaged_entry_and_value_and_nothing_else() {
    let mut state = filled(300, 500);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    assert_eq!(round(&mut scrub, &state, &mut now_ns).2.damaged, 0);
    let damaged: Vec<_> = ["key0007", "key0008", "key0250"].map(|key| state.reference(key)).into();
    damaged.iter().for_each(|reference| state.damage(reference.value.address));
    let (values, entries, totals) = round(&mut scrub, &state, &mut now_ns);
    let expected: Vec<_> =
        damaged.iter().map(|reference| (reference.key.clone(), reference.value.address)).collect();
    assert_eq!(values, expected);
    assert_eq!(entries, [9, 10, 252], "a value lies in the entry that brought it");
    assert_eq!(totals.damaged, 6);
    state.drop_history();
}

/// What the disk cannot read is fetched from peers as if it were damaged, but does not count as that.
#[test]
fn a_round_in_which_reads_fail_counts_no_damage() {
    let state = filled(20, 500);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    let eio = |after| {
        let kind = std::io::ErrorKind::Other;
        state.disk.inject(log::Fault { operation: log::Operation::Read, after, kind });
    };
    // All entries at once, then the first of them alone.
    (0..2).for_each(|_| eio(0));
    let (_, entries, totals) = round(&mut scrub, &state, &mut now_ns);
    assert_eq!((entries.len(), totals.damaged), (1, 0));
    // Behind the 20 values comes the end of the round; the reads of entries come first.
    let mut fetched = 0;
    for after in 1..30 {
        eio(after);
        let (values, _, totals) = round(&mut scrub, &state, &mut now_ns);
        assert_eq!(totals.damaged, 0);
        fetched += values.len();
    }
    assert!(fetched > 0, "some of them hit a value");
}

/// It is replaced all the same, because a restart could not read it either.
#[test]
fn a_checkpoint_that_cannot_be_read_is_no_damage() {
    let mut state = filled(20, 500);
    state.checkpoint();
    let (mut scrub, mut now_ns, mut unreadable) = (Scrub::default(), 0, 0);
    for after in 0..30 {
        let kind = std::io::ErrorKind::Other;
        state.disk.inject(log::Fault { operation: log::Operation::Read, after, kind });
        loop {
            now_ns = scrub.next_due_ns().map_or(now_ns, |due_ns| due_ns.max(now_ns));
            let Some(news) = step(&mut scrub, &state, now_ns) else { continue };
            unreadable += u64::from(news.checkpoint.is_some_and(|error| error.is_of_the_disk()));
            if let Some(totals) = news.ended {
                assert_eq!(totals.damaged, 0);
                break;
            }
        }
    }
    assert!(unreadable > 0, "some of the reads that failed were of the checkpoint");
}

/// Values that were copied out of the log are read where they are, and the log from where it begins.
#[test]
fn a_round_reads_what_is_left_after_a_checkpoint() {
    let mut state = filled(20, 500);
    let address = state.reference("key0003").value.address;
    state.checkpoint();
    state.damage(address);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    let (values, entries, _) = round(&mut scrub, &state, &mut now_ns);
    assert_eq!((values.len(), entries), (1, vec![]));
}

#[test]
fn a_round_keeps_its_rate_and_the_next_one_waits() {
    let state = filled(1_000, 100);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    assert!(step(&mut scrub, &state, 0).is_none(), "the process has just started");
    let (_, _, totals) = round(&mut scrub, &state, &mut now_ns);
    let took_ns = now_ns - SECOND_NS;
    assert!(totals.bytes >= 1_000 * MIN_READ_BYTES, "{totals:?}");
    let least_ns = (totals.bytes - MAX_JOB_BYTES) * SECOND_NS / RATE.bytes_per_second;
    assert!(took_ns >= least_ns, "{took_ns} ns for {totals:?}");
    assert!(step(&mut scrub, &state, 100 * SECOND_NS).is_none(), "the next round is not due");
    assert!(step(&mut scrub, &state, 101 * SECOND_NS + SECOND_NS / 50).is_some());
}

/// What the pause is made of is tested in `pauses.rs`; here, that all of it comes from what really happens.
#[test]
fn a_pause_follows_from_the_time_of_the_read_and_from_writes() {
    let state = filled(1_000, 100);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    assert!(step(&mut scrub, &state, 0).is_none(), "the process has just started");
    let mut pause_ns = |took_ns: u64, written: u64| {
        now_ns = scrub.next_due_ns().expect("a round is under way").max(now_ns);
        scrub.log_grew(written);
        let job = scrub.next_job(now_ns, RATE, &state.log, &state.reader, state.applied().index);
        let Some(Done::Scrubbed(done)) = job.map(Job::run) else { panic!("a scrub job") };
        now_ns += took_ns;
        let bytes = scrub.read(now_ns, RATE, &state.log, done).bytes;
        let paused_ns = scrub.next_due_ns().expect("a round is under way") - now_ns;
        (paused_ns, bytes * SECOND_NS / RATE.bytes_per_second)
    };
    let (paused_ns, by_rate_ns) = pause_ns(0, 0);
    assert_eq!(paused_ns, by_rate_ns);
    assert_eq!(pause_ns(SECOND_NS, 0).0, 15 * SECOND_NS);
    let (paused_ns, by_rate_ns) = pause_ns(0, 1 << 30);
    assert_eq!(paused_ns, 64 * by_rate_ns);
}

/// A key may have any number of versions: a part of a round ends between two of them.
#[test]
fn the_versions_of_a_key_are_divided() {
    let mut state = LogAndStore::new(&[1, 2]);
    (0..600).for_each(|_| state.put("key", "value"));
    state.put("other", "value");
    state.background();
    let address = state.reference("other").value.address;
    state.damage(address);
    let (mut scrub, mut now_ns) = (Scrub::default(), 0);
    let (values, _, totals) = round(&mut scrub, &state, &mut now_ns);
    assert_eq!(values.len(), 1);
    assert!(totals.bytes < 3 * 601 * MIN_READ_BYTES, "each is read once: {totals:?}");
}

/// One job looks at a bounded number of versions, although none has a value to read.
#[test]
fn a_job_ends_although_there_is_nothing_to_read() {
    let mut state = LogAndStore::new(&[1, 2]);
    let per_job = MAX_JOB_LOOK_UPS * MAX_LOOK_UP_VERSIONS;
    (0..per_job).for_each(|_| state.put("key", ""));
    state.put("other", "value");
    let mut position = VersionPosition::default();
    let mut read = |bytes| {
        let (from, reader, files) = (position.clone(), state.reader.clone(), state.log.reader());
        let done = ScrubJob(ScrubRead::Values { from, reader, files }).run();
        assert_eq!(done.bytes, bytes);
        let ScrubFound::Values { rest, .. } = done.found else { panic!("values were read") };
        position = rest.clone().unwrap_or_default();
        rest.is_some()
    };
    assert!(read(0), "a part of the key's versions");
    assert!(!read(MIN_READ_BYTES), "the rest, and the other key");
}
