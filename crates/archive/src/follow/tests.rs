//! Copies of a made-up cluster into a directory: where they go on, what they say, what is removed.

use std::cell::{Cell, RefCell};

use api::stelepb::{BackupEntriesResponse, BackupEntry};
use bytes::Bytes;

use super::*;
use crate::names::BaseName;
use crate::reading::ArchiveReader;

/// A cluster whose state is the number of its entries.
#[derive(Default)]
struct MadeUp {
    last: Cell<u64>,
    /// The first entry that is still in the log.
    first: Cell<u64>,
    time_ms: Cell<u64>,
    cluster_id: Cell<u64>,
    failures: RefCell<Vec<SourceError>>,
    /// Last entries of the next bases, the next one last; then the last one of all.
    old_bases: RefCell<Vec<u64>>,
    /// Bytes of an entry beside its number.
    entry_bytes: Cell<usize>,
}

/// Entries in one answer.
const MAX_ANSWERED: u64 = 3;

impl MadeUp {
    fn with_entries(last: u64) -> MadeUp {
        let made_up = MadeUp::default();
        made_up.last.set(last);
        made_up.cluster_id.set(7);
        made_up.time_ms.set(1_000);
        made_up
    }

    fn point(&self) -> BackupPoint {
        self.point_at(self.last.get())
    }

    fn point_at(&self, index: u64) -> BackupPoint {
        let cluster_id = self.cluster_id.get();
        BackupPoint {
            cluster_id,
            index,
            revision: index as i64,
            time_ms: self.time_ms.get(),
            ..Default::default()
        }
    }
}

struct MadeUpBase(Vec<BasePart>);

impl BaseStream for MadeUpBase {
    async fn next(&mut self) -> Result<Option<BasePart>, SourceError> {
        Ok(self.0.pop())
    }
}

impl BackupSource for MadeUp {
    type Base = MadeUpBase;

    async fn entries(&self, from: u64) -> Result<BackupEntriesResponse, SourceError> {
        if let Some(failure) = self.failures.borrow_mut().pop() {
            return Err(failure);
        }
        if from > 0 && from < self.first.get() {
            return Err(SourceError::Gone(format!("entry {from} has left the log")));
        }
        let wanted = if from == 0 { 0..0 } else { from..(self.last.get() + 1).min(from + MAX_ANSWERED) };
        let is_end = from == 0 || wanted.end == self.last.get() + 1;
        let payload = |index: u64| [index.to_string().into_bytes(), vec![0; self.entry_bytes.get()]].concat();
        let entry = |index| BackupEntry { term: 1, index, kind: 0, payload: payload(index).into() };
        let point = is_end.then(|| self.point());
        Ok(BackupEntriesResponse { entries: wanted.map(entry).collect(), point })
    }

    async fn base(&self) -> Result<MadeUpBase, SourceError> {
        let last = self.old_bases.borrow_mut().pop().unwrap_or(self.last.get());
        let state = Bytes::from(vec![last as u8; 3_000_000]);
        let (one, two) = (state.slice(..70_000), state.slice(70_000..));
        let begin = BasePart::Begin(self.point_at(last), state.len() as u64);
        Ok(MadeUpBase(vec![BasePart::Bytes(two), BasePart::Bytes(one), begin]))
    }
}

struct TestArchive {
    dir: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl TestArchive {
    fn new() -> TestArchive {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let dir = tempfile::tempdir().expect("a directory");
        TestArchive { dir, runtime: runtime.expect("a runtime") }
    }

    fn url(&self) -> String {
        self.dir.path().display().to_string()
    }

    fn reader(&self) -> ArchiveReader {
        ArchiveReader::open(&self.url(), None).expect("there is an archive")
    }

    /// Copies all that there is; bases are taken when the newest is older than `base_interval`.
    fn copy(
        &self,
        source: &MadeUp,
        base_interval: Duration,
        keep: Option<Duration>,
    ) -> Result<Vec<String>, ArchiveError> {
        let archive = Archive::open(&self.url(), None, true)?;
        let settings = FollowSettings { interval: Duration::from_millis(1), base_interval, keep, once: true };
        let status = FollowStatus::default();
        let follower = BackupFollower::new(&archive, source, settings, &status);
        self.runtime.block_on(follower.run())?;
        Ok(status.take_news())
    }

    /// The entries from one on, as they are read for a restore.
    fn entries_from(&self, next: u64) -> Vec<u64> {
        let reader = self.reader();
        let logs = reader.logs_from(next).expect("they are listed");
        let objects = reader.logs(logs).map(|(_, log)| log.expect("it is whole"));
        let entries = objects.flat_map(|log| log.answers).flat_map(|answer| answer.entries);
        entries.map(|entry| entry.index).filter(|index| *index >= next).collect()
    }
}

const NEVER: Duration = Duration::MAX;

#[test]
fn a_copy_goes_on_where_it_ended() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    source.last.set(12);
    source.failures.borrow_mut().push(SourceError::Passing("an election".to_owned()));
    let news = test.copy(&source, NEVER, None).expect("it is copied");
    assert!(news.iter().any(|line| line.contains("an election; it is tried again")), "{news:?}");
    source.last.set(13);
    test.copy(&source, NEVER, None).expect("it is copied");
    assert_eq!(test.entries_from(6), (6..=13).collect::<Vec<_>>());
    let reader = test.reader();
    let bases = reader.bases().expect("they are listed");
    assert_eq!(bases, [BaseName { index: 5, revision: 5, time_ms: 1_000 }]);
    let base = reader.base(&bases[0]).expect("it is whole");
    let mut end = [0; 9];
    base.read_at(3_000_000 - 9, &mut end).expect("it is there");
    assert!(base.bytes() == 3_000_000 && end == [5; 9]);
    assert!(base.read_at(3_000_000 - 8, &mut end).is_err());
    let spans = reader.check(&mut |_| {}, &mut |error| panic!("{error}")).expect("it is read");
    assert!(spans.len() == 1 && spans[0].last_index == 13 && spans[0].revision == 13, "{spans:?}");
}

#[test]
fn entries_that_are_gone_make_a_new_base_and_are_told() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    source.last.set(8);
    test.copy(&source, NEVER, None).expect("it is copied");
    source.last.set(20);
    source.first.set(15);
    let news = test.copy(&source, NEVER, None).expect("it is copied");
    assert!(
        news.iter().any(|line| line.contains("no state between entry 8 and the base at revision 20")),
        "{news:?}"
    );
    source.last.set(22);
    test.copy(&source, NEVER, None).expect("it is copied");
    let spans = test.reader().check(&mut |_| {}, &mut |error| panic!("{error}")).expect("it is read");
    let ends: Vec<_> = spans.iter().map(|span| (span.base.index, span.last_index)).collect();
    assert_eq!(ends, [(5, 8), (20, 22)]);
}

#[test]
fn two_writers_leave_no_hole() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    let archive = Archive::open(&test.url(), None, true).expect("it is open");
    // Another writer has read one entry, and was quicker.
    source.last.set(6);
    let answer = test.runtime.block_on(source.entries(6)).expect("there is one");
    let log = crate::LogObject { answers: vec![answer] };
    let written = test.runtime.block_on(archive.put_log(6, &source.point(), &log));
    written.expect("it is the first");
    source.last.set(9);
    let settings =
        FollowSettings { interval: Duration::from_millis(1), base_interval: NEVER, keep: None, once: false };
    let status = FollowStatus::default();
    let follower = BackupFollower::new(&archive, &source, settings, &status);
    let again = test.runtime.block_on(archive.put_log(6, &source.point(), &log));
    assert!(matches!(again, Err(ArchiveError::Exists(_))));
    let is_done = async {
        while status.index() < 9 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    test.runtime.block_on(async {
        tokio::select! {
            end = follower.run() => panic!("it ends: {end:?}"),
            () = is_done => {}
        }
    });
    assert_eq!(test.entries_from(6), [6, 7, 8, 9]);
}

#[test]
fn another_cluster_is_refused() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    source.cluster_id.set(8);
    let refused = test.copy(&source, NEVER, None).expect_err("it is another").to_string();
    assert!(refused.contains("the archive is that of cluster 7"), "{refused}");
    let denied = SourceError::Final("permission denied".to_owned());
    source.failures.borrow_mut().push(denied);
    assert!(test.copy(&source, NEVER, None).is_err_and(|error| error.to_string() == "permission denied"));
}

#[test]
fn what_no_kept_state_needs_is_removed() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    let hour = Duration::from_secs(3600);
    // All bases are of 1970, so each copy takes another.
    for (last, time_ms) in [(5, 1_000), (8, 2_000), (11, 3_000)] {
        source.last.set(last);
        source.time_ms.set(time_ms);
        test.copy(&source, hour, None).expect("it is copied");
    }
    let reader = test.reader();
    let state = |test: &TestArchive| {
        let bases: Vec<u64> =
            reader.bases().expect("they are listed").iter().map(|base| base.index).collect();
        (bases, test.entries_from(1))
    };
    assert_eq!(state(&test), (vec![5, 8, 11], vec![6, 7, 8, 9, 10, 11]));
    let archive = Archive::open(&test.url(), None, false).expect("it is there");
    let removed =
        |before_ms| test.runtime.block_on(crate::prune::prune(&archive, before_ms)).expect("it prunes");
    assert_eq!(removed(999), 0);
    assert_eq!(removed(2_500), 2, "the base before, and what only it needs");
    assert_eq!(state(&test), (vec![8, 11], vec![9, 10, 11]));
    assert_eq!(removed(2_500), 0);
    assert_eq!(removed(u64::MAX), 1, "the newest base stays, and the end of the log");
    assert_eq!(state(&test), (vec![11], vec![9, 10, 11]));
    source.time_ms.set(4_000);
    test.copy(&source, hour, Some(hour)).expect("it goes on, and prunes");
}

#[test]
fn a_copy_knows_how_old_the_archive_is() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    let archive = Archive::open(&test.url(), None, true).expect("it is open");
    let known = || {
        let end = test.runtime.block_on(entries::end_of(&archive)).expect("it is read");
        let entries::ArchiveEnd::Entry { last, covered } = end else { panic!("it has a base") };
        (last, covered.time_ms, covered.revision)
    };
    assert_eq!(known(), (5, 1_000, 5), "by its base");
    source.last.set(8);
    source.time_ms.set(2_000);
    test.copy(&source, NEVER, None).expect("it is copied");
    assert_eq!(known(), (8, 2_000, 8), "by its log");
    source.time_ms.set(3_000);
    test.copy(&source, NEVER, None).expect("it is copied");
    assert_eq!(known(), (8, 3_000, 8), "by the note that nothing is new");
    std::fs::write(test.dir.path().join("progress"), "x").expect("it is damaged");
    assert_eq!(known(), (8, 2_000, 8));
    // A copy shows it before it has copied anything.
    source
        .failures
        .borrow_mut()
        .extend([SourceError::Final("no".to_owned()), SourceError::Gone("no".to_owned())]);
    let status = FollowStatus::default();
    let settings =
        FollowSettings { interval: Duration::from_millis(1), base_interval: NEVER, keep: None, once: true };
    let follower = BackupFollower::new(&archive, &source, settings, &status);
    assert!(test.runtime.block_on(follower.first()).is_ok_and(|next| next == 9));
    assert_eq!((status.covered_ms(), status.index(), status.revision()), (2_000, 8, 8));
}

#[test]
fn a_damaged_end_makes_a_new_base() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    for last in [5, 8, 11] {
        source.last.set(last);
        test.copy(&source, NEVER, None).expect("it is copied");
    }
    let last = test.dir.path().join("log").join(format!("{:020}", 9));
    let whole = std::fs::read(&last).expect("it is there");
    std::fs::write(&last, &whole[..whole.len() - 3]).expect("it is cut off");
    source.last.set(20);
    // Once for the base, and once more while there is nothing behind it.
    for _ in 0..2 {
        let news = test.copy(&source, NEVER, None).expect("it is copied");
        let told = |line: &String| {
            line.contains("is damaged")
                && line.contains("no state between entry 8 and the base at revision 20")
        };
        assert!(news.iter().any(told), "{news:?}");
    }
    source.last.set(22);
    test.copy(&source, NEVER, None).expect("it is copied");
    let mut damaged = 0;
    let spans = test.reader().check(&mut |_| {}, &mut |_| damaged += 1).expect("it is read");
    let ends: Vec<_> = spans.iter().map(|span| (span.base.index, span.last_index)).collect();
    assert_eq!((ends, damaged), (vec![(5, 8), (20, 22)], 1));
}

#[test]
fn a_state_that_is_older_than_the_archive_is_not_copied_without_a_pause() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    for last in [5, 8, 11] {
        source.last.set(last);
        test.copy(&source, NEVER, None).expect("it is copied");
    }
    std::fs::write(test.dir.path().join("log").join(format!("{:020}", 9)), "x").expect("it is damaged");
    source.last.set(20);
    source.old_bases.borrow_mut().extend([7, 6]);
    let news = test.copy(&source, NEVER, None).expect("it is copied");
    // The same line comes once.
    assert!(
        news.iter().any(|line| line.contains("older than the archive's end; it is tried again")),
        "{news:?}"
    );
    assert!(news.iter().any(|line| line.contains("the base at revision 20")), "{news:?}");
}

/// Copies a source that is written to, with bases at an interval, until the copy is done.
fn copied_while_written(
    test: &TestArchive,
    source: &MadeUp,
    base_interval: Duration,
    is_done: impl Fn(&FollowStatus) -> bool,
) -> FollowStatus {
    let archive = Archive::open(&test.url(), None, true).expect("it is open");
    let settings =
        FollowSettings { interval: Duration::from_millis(1), base_interval, keep: None, once: false };
    let status = FollowStatus::default();
    let follower = BackupFollower::new(&archive, source, settings, &status);
    let writing = async {
        while !is_done(&status) {
            source.last.set(source.last.get() + 1);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    test.runtime.block_on(async {
        tokio::select! {
            end = follower.run() => panic!("it ends: {end:?}"),
            () = writing => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it is not done: {status:?}"),
        }
    });
    status
}

#[test]
fn a_time_in_the_future_stops_no_bases_and_is_not_shown() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    source.time_ms.set(u64::MAX / 2);
    test.copy(&source, NEVER, None).expect("it is copied");
    let status =
        copied_while_written(&test, &source, Duration::from_millis(10), |status| status.bases() >= 2);
    assert!((1..=wall_clock_ms()).contains(&status.covered_ms()), "{}", status.covered_ms());
}

#[test]
fn a_member_with_another_clock_is_not_copied_again_and_again() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    // The member's clock says 1970.
    let status =
        copied_while_written(&test, &source, Duration::from_secs(3600), |status| status.log_objects() >= 10);
    assert_eq!(status.bases(), 1);
}

#[test]
fn a_failure_that_ends_a_copy_is_not_tried_again() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    source.failures.borrow_mut().push(SourceError::Final("permission denied".to_owned()));
    let archive = Archive::open(&test.url(), None, true).expect("it is open");
    let settings =
        FollowSettings { interval: Duration::from_millis(1), base_interval: NEVER, keep: None, once: true };
    let status = FollowStatus::default();
    let follower = BackupFollower::new(&archive, &source, settings, &status);
    assert!(test.runtime.block_on(follower.run()).is_err());
    assert_eq!((status.failures(), status.take_news()), (1, Vec::new()));
}

#[test]
fn an_object_has_a_bounded_number_of_bytes_of_entries() {
    let (test, source) = (TestArchive::new(), MadeUp::with_entries(5));
    test.copy(&source, NEVER, None).expect("it is copied");
    source.last.set(35);
    source.entry_bytes.set(1 << 20);
    test.copy(&source, NEVER, None).expect("it is copied");
    let reader = test.reader();
    let objects = reader.logs(reader.logs_from(6).expect("they are listed"));
    let entries: Vec<usize> = objects
        .map(|(_, log)| log.expect("it is whole").answers.iter().map(|answer| answer.entries.len()).sum())
        .collect();
    assert_eq!(entries, [18, 12], "16 MiB, and what is left of the last answer");
}
