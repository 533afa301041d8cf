//! What the disk alone can do while a load runs: a file of our own that is written and synced at a steady rate, and
//! reads of files that memory does not hold.
//!
//! Some disks stand still now and then, for all processes at once. A member that is measured on one seems slow, and a
//! faster one would be as slow. The probe tells the two apart: it waits for nothing but the disk.
//!
//! ```text
//! probe due at    0     20     40     60  ...  500    520 ms
//! its sync ends   1     21    [ the disk stands still ]     521
//! took            1      1    466    446  ...    6      1        each counts from when it was due
//! ```
//!
//! Probes that come late count from when they were due, as requests do that clients send at a rate: so the p99 of the
//! probe can be compared with theirs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From one probe to the next: rare enough that what is measured hardly waits for them.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// What a probe writes, and the unit of direct reads.
const PAGE_BYTES: u64 = 4096;

/// The pages of the file that is written, one after the other: its blocks are there, so a sync writes no metadata.
const PAGES: u64 = 256;

/// Bytes of a read: those of a value of 10 KB that begins anywhere in a page.
const READ_BYTES: u64 = 3 * PAGE_BYTES;

/// Files that are read; more would only take descriptors.
const MAX_READ_FILES: usize = 200;

/// Linux's flag for reads past the page cache.
const O_DIRECT: i32 =
    if cfg!(any(target_arch = "arm", target_arch = "aarch64")) { 0o200_000 } else { 0o40_000 };

/// A sync that takes longer shows that the disk is not calm.
const CALM_SYNC: Duration = Duration::from_millis(20);

/// So long without such a sync, and it is.
const CALM_FOR: Duration = Duration::from_secs(5);

/// The longest wait for that.
const MAX_CALM_WAIT: Duration = Duration::from_secs(300);

/// What a probe does.
enum ProbeWork {
    /// Writes a page of this file and syncs it.
    Write(File),
    /// Reads from anywhere in one of these files, past the page cache.
    Read(Vec<(File, u64)>),
}

/// A probe that runs.
pub(crate) struct DiskProbe {
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Duration>, String>>,
}

/// What a probe has seen, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProbeTimes {
    pub(crate) p99_ms: f64,
    pub(crate) slowest_ms: f64,
}

impl DiskProbe {
    /// Writes and syncs in a file of its own in `folder`.
    pub(crate) fn of_writes(folder: &Path) -> Result<DiskProbe, String> {
        Ok(Self::start(ProbeWork::Write(probe_file(folder)?)))
    }

    /// Reads from the segments of a member's data, most of which memory does not hold.
    pub(crate) fn of_reads(data: &Path) -> Result<DiskProbe, String> {
        Ok(Self::start(ProbeWork::Read(segments(&data.join("member/wal"))?)))
    }

    fn start(mut work: ProbeWork) -> DiskProbe {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ends = has_ended.clone();
        let thread = thread::spawn(move || {
            let (begin, mut times) = (Instant::now(), Vec::new());
            while !ends.load(Ordering::Relaxed) {
                let due = PROBE_EVERY * times.len() as u32;
                thread::sleep(due.saturating_sub(begin.elapsed()));
                work.once(times.len() as u64)?;
                times.push(begin.elapsed().saturating_sub(due));
            }
            Ok(times)
        });
        DiskProbe { has_ended, thread }
    }

    /// Ends it; returns what it has seen.
    pub(crate) fn end(self) -> Result<ProbeTimes, String> {
        self.has_ended.store(true, Ordering::Relaxed);
        let times = self.thread.join().map_err(|_| "the probe of the disk panicked".to_owned())??;
        probe_times(times).ok_or_else(|| "the load was too short for the probe of the disk".to_owned())
    }
}

impl ProbeWork {
    /// The `number`th probe.
    fn once(&mut self, number: u64) -> Result<(), String> {
        let done = match self {
            ProbeWork::Write(file) => {
                let page = [number as u8; PAGE_BYTES as usize];
                file.write_all_at(&page, number % PAGES * PAGE_BYTES).and_then(|()| file.sync_data())
            }
            ProbeWork::Read(files) => {
                let drawn = scattered(number);
                let (file, bytes) = &files[(drawn % files.len() as u64) as usize];
                let pages = bytes.saturating_sub(READ_BYTES) / PAGE_BYTES + 1;
                let offset = (drawn >> 32) % pages * PAGE_BYTES;
                read_aligned(file, offset)
            }
        };
        done.map_err(|error| format!("the probe of the disk failed: {error}"))
    }
}

/// Reads past the page cache, for which memory and offset must lie on a page.
fn read_aligned(file: &File, offset: u64) -> std::io::Result<()> {
    let mut memory = vec![0_u8; (READ_BYTES + PAGE_BYTES) as usize];
    let skipped = memory.as_ptr().align_offset(PAGE_BYTES as usize);
    let wanted = &mut memory[skipped..skipped + READ_BYTES as usize];
    file.read_at(wanted, offset).map(drop)
}

/// A number that looks like a random one: the finalizer of splitmix64.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The file that is written; its blocks are on the disk.
fn probe_file(folder: &Path) -> Result<File, String> {
    let path = folder.join("disk-probe");
    let open = || {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        file.write_all_at(&vec![0; (PAGES * PAGE_BYTES) as usize], 0)?;
        file.sync_all()?;
        Ok(file)
    };
    open().map_err(|error: std::io::Error| format!("cannot make {}: {error}", path.display()))
}

/// The files below `folder` that are long enough to be read, opened for direct reads.
fn segments(folder: &Path) -> Result<Vec<(File, u64)>, String> {
    let shown = |path: &Path, error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let entries = std::fs::read_dir(folder).map_err(|error| shown(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // The newest are being written.
    paths.sort();
    paths.truncate(paths.len() - paths.len() / 4);
    let mut files = Vec::new();
    for path in paths.iter().take(MAX_READ_FILES) {
        let opened = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path);
        let file = opened.map_err(|error| shown(path, error))?;
        let bytes = file.metadata().map_err(|error| shown(path, error))?.len();
        if bytes >= READ_BYTES {
            files.push((file, bytes));
        }
    }
    match files.is_empty() {
        true => Err(format!("there is nothing to read in {}", folder.display())),
        false => Ok(files),
    }
}

/// Waits until the disk below `folder` has synced quickly for a while, or until it was waited for long enough. Returns
/// how long that took.
pub(crate) fn wait_until_calm(folder: &Path) -> Result<Duration, String> {
    let mut work = ProbeWork::Write(probe_file(folder)?);
    let mut calm = CalmWait::default();
    let begin = Instant::now();
    while !calm.is_over(begin.elapsed()) {
        let before = Instant::now();
        work.once(calm.probes)?;
        calm.probed(begin.elapsed(), before.elapsed());
        thread::sleep(PROBE_EVERY);
    }
    Ok(begin.elapsed())
}

/// How long the disk has been calm.
#[derive(Default)]
struct CalmWait {
    probes: u64,
    /// When the last slow sync ended.
    slow_until: Duration,
}

impl CalmWait {
    /// At `now` a sync has ended that took so long.
    fn probed(&mut self, now: Duration, took: Duration) {
        self.probes += 1;
        if took > CALM_SYNC {
            self.slow_until = now;
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.slow_until + CALM_FOR || now >= MAX_CALM_WAIT
    }
}

/// The p99, by the nearest rank, and the slowest; `None` of nothing.
fn probe_times(mut times: Vec<Duration>) -> Option<ProbeTimes> {
    times.sort();
    let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
    let rank = (times.len() * 99).div_ceil(100).saturating_sub(1);
    Some(ProbeTimes { p99_ms: ms(times.get(rank)?), slowest_ms: ms(times.last()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_p99_leaves_out_one_in_a_hundred() {
        assert_eq!(probe_times(Vec::new()), None);
        let times: Vec<Duration> = (1..=200).rev().map(|ms| ms * MS).collect();
        assert_eq!(probe_times(times), Some(ProbeTimes { p99_ms: 198.0, slowest_ms: 200.0 }));
        assert_eq!(probe_times(vec![7 * MS]), Some(ProbeTimes { p99_ms: 7.0, slowest_ms: 7.0 }));
    }

    #[test]
    fn a_disk_is_calm_some_time_after_its_last_slow_sync() {
        let mut calm = CalmWait::default();
        calm.probed(MS, MS);
        assert!(!calm.is_over(CALM_FOR - MS) && calm.is_over(CALM_FOR));
        calm.probed(400 * MS, 21 * MS);
        assert!(!calm.is_over(CALM_FOR) && calm.is_over(CALM_FOR + 400 * MS));
        (0..300_u32).for_each(|second| calm.probed(second * 1000 * MS, 21 * MS));
        assert!(calm.is_over(MAX_CALM_WAIT), "it is not waited for longer");
    }

    #[test]
    fn probes_write_and_read_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let wal = folder.path().join("member/wal");
        std::fs::create_dir_all(&wal).expect("a folder");
        assert!(DiskProbe::of_reads(folder.path()).is_err(), "there is nothing to read");
        for name in ["1.seg", "2.seg", "3.seg", "4.seg"] {
            std::fs::write(wal.join(name), vec![1; 1 << 16]).expect("a file");
        }
        let mut work = ProbeWork::Write(probe_file(folder.path()).expect("a file"));
        (0..3).for_each(|number| work.once(number).expect("it is written"));
        // Not every file system, that of a test least of all, has direct reads.
        if let Ok(files) = segments(&wal) {
            assert_eq!(files.len(), 3, "the newest is being written");
            let mut work = ProbeWork::Read(files);
            (0..20).for_each(|number| work.once(number).expect("it is read"));
        }
    }
}
