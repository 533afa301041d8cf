//! Measuring processes from outside, through `/proc`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Linux tells times to user space in hundredths of a second on every machine we run on (USER_HZ).
const TICK_MS: u64 = 10;

/// Where the times of a process stand in its `stat` file, counted from behind its name.
const OWN_TIMES: usize = 11;

/// Where the times of its children that were waited for stand.
const CHILDREN_TIMES: usize = 13;

/// Where the id of its parent stands.
const PARENT: usize = 1;

/// The kernel thread that is the parent of all others.
const KTHREADD: &str = "2";

/// What processes have used so far, added up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Bytes that they caused to be sent to the disk.
    pub(crate) written: u64,
    pub(crate) resident: u64,
    /// The sum of the peaks since [`forget_peak`].
    pub(crate) peak: u64,
}

/// Adds up what `pids` have used.
pub(crate) fn usage(pids: &[u32]) -> Result<Usage, String> {
    let mut total = Usage::default();
    for pid in pids {
        let status = read(*pid, "status")?;
        total.cpu += times(&read(*pid, "stat")?, OWN_TIMES)?;
        total.written += field(&read(*pid, "io")?, "write_bytes:")?;
        total.resident += field(&status, "VmRSS:")? * 1024;
        total.peak += field(&status, "VmHWM:")? * 1024;
    }
    Ok(total)
}

/// Makes the peak of each process what it holds now.
pub(crate) fn forget_peak(pids: &[u32]) -> Result<(), String> {
    for pid in pids {
        let path = format!("/proc/{pid}/clear_refs");
        fs::write(&path, "5").map_err(|error| format!("cannot write {path}: {error}"))?;
    }
    Ok(())
}

/// CPU time of the children of this process that have ended and were waited for.
pub(crate) fn ended_children() -> Result<Duration, String> {
    let stat = read(std::process::id(), "stat")?;
    times(&stat, CHILDREN_TIMES)
}

/// Bytes of the files under `folder`, as blocks on the disk.
pub(crate) fn disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The whole machine's CPUs over a time.
pub(crate) struct Busy {
    begin: Instant,
    used: Duration,
}

impl Busy {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self { begin: Instant::now(), used: processes_time()? })
    }

    /// The part of the machine that was used since the start by other processes than those of ours, so many, that used
    /// `ours`.
    pub(crate) fn foreign(&self, ours: Duration, processes: usize, cpus: usize) -> Result<f64, String> {
        let used = processes_time()?.saturating_sub(self.used);
        Ok(foreign_part(used, ours, processes, self.begin.elapsed() * cpus as u32))
    }
}

/// The part of `whole` that was used, but surely not by our processes.
///
/// Of each of them the kernel tells user and system time in whole ticks, so that up to two of them go missing: nothing
/// by the second, but more than everything of a row that takes some milliseconds.
pub(crate) fn foreign_part(used: Duration, ours: Duration, processes: usize, whole: Duration) -> f64 {
    let untold = Duration::from_millis(2 * TICK_MS * processes as u64);
    let others = used.saturating_sub(ours).saturating_sub(untold);
    if whole.is_zero() { 0.0 } else { others.as_secs_f64() / whole.as_secs_f64() }
}

/// Time that all CPUs spent on processes, and time that the hypervisor gave to other machines.
///
/// Interrupts and the kernel's own threads are left out: they carry the packets and the writes of what is
/// measured, and nothing tells on whose behalf.
fn processes_time() -> Result<Duration, String> {
    let text =
        fs::read_to_string("/proc/stat").map_err(|error| format!("cannot read /proc/stat: {error}"))?;
    let first = text.lines().next().unwrap_or("");
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, _irq, _softirq, steal, ..] = ticks[..] else {
        return Err(format!("not the first line of /proc/stat: {first:?}"));
    };
    Ok(Duration::from_millis(TICK_MS * (user + nice + system + steal)).saturating_sub(kernel_threads_time()?))
}

/// Time of the kernel's threads, which are the children of one of them.
fn kernel_threads_time() -> Result<Duration, String> {
    let entries = fs::read_dir("/proc").map_err(|error| format!("cannot list /proc: {error}"))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process that ends between the two steps is none of the kernel's: those stay.
    let stats = pids.filter_map(|pid| read(pid, "stat").ok());
    let threads = stats.filter(|stat| fields(stat).get(PARENT).is_some_and(|parent| *parent == KTHREADD));
    threads.map(|stat| times(&stat, OWN_TIMES)).sum()
}

fn read(pid: u32, file: &str) -> Result<String, String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}; has the process ended?"))
}

/// Two neighbouring times of a `stat` file, added; `index` counts the fields behind the name, whose blanks
/// and brackets may be anything.
pub(crate) fn times(stat: &str, index: usize) -> Result<Duration, String> {
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let both = ticks(index).zip(ticks(index + 1));
    let time = both.map(|(user, system)| Duration::from_millis(TICK_MS * (user + system)));
    time.ok_or_else(|| format!("not a stat file: {stat:?}"))
}

/// The fields of a `stat` file from behind the name on.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().collect()
}

fn field(text: &str, name: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("the kernel says nothing about {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_of_any_kind() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20";
        assert_eq!(times(stat, 11), Ok(Duration::from_secs(2)));
        assert_eq!(times(stat, 13), Ok(Duration::from_millis(100)));
        assert!(times("12 (a) S 1", 11).is_err());
    }

    #[test]
    fn ticks_that_went_missing_belong_to_no_other_process() {
        let ms = Duration::from_millis;
        let part = |used, ours, whole| foreign_part(ms(used), ms(ours), 4, ms(whole));
        assert_eq!(part(60, 30, 100), 0.0, "four processes may have lost 80 ms");
        assert_eq!(part(5_080, 4_000, 10_000), 0.1);
        assert_eq!(part(4_000, 5_000, 10_000), 0.0);
        assert_eq!(part(0, 0, 0), 0.0);
    }
}
