//! How much memory the data of a member may take, unless the flag says so.
//!
//! The process may take what the machine has, or what its cgroup allows, of which version 2 and version 1 are known.
//! Each group limits those inside it, too, so the least on the way to the root counts. Example, version 2:
//!
//! ```text
//! /proc/meminfo                               MemTotal 16384000 kB
//! /proc/self/cgroup                           0::/pods/stele
//! /sys/fs/cgroup/pods/stele/memory.max        max
//! /sys/fs/cgroup/pods/stele/memory.high       3221225472       here the system begins to slow the process down
//! /sys/fs/cgroup/pods/memory.max              4294967296
//! allowed 3221225472 (by the cgroup), the limit is half of it
//! ```

use std::path::Path;

use crate::config::MIN_MEMORY_LIMIT_BYTES;

/// The share of what the process may take that its data may take, in percent. The rest is for what is not accounted:
/// a snapshot that is installed is built beside the state that it replaces; requests, responses and connections; what
/// the allocator cannot reuse.
const LIMIT_PERCENT: u64 = 50;

/// A limit of version 1 from here on is none: the system shows the largest number that it can count.
const MIN_UNLIMITED_BYTES: u64 = 1 << 60;

/// The memory limit, and where it comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChosenLimit {
    /// 0 for none.
    pub(crate) bytes: u64,
    /// For the operator.
    pub(crate) reason: String,
}

/// The limit of the flag, or the share of what `read` says of this system: it returns the text of a file, if there is
/// one.
pub(crate) fn limit(flag: Option<u64>, read: &dyn Fn(&Path) -> Option<String>) -> ChosenLimit {
    if let Some(bytes) = flag {
        return ChosenLimit { bytes, reason: "--memory-limit-bytes is set".to_owned() };
    }
    match allowed(read) {
        Some((allowed, by)) => {
            let share = allowed / 100 * LIMIT_PERCENT;
            let bytes = share.max(MIN_MEMORY_LIMIT_BYTES);
            let what = if bytes > share { "the least limit, which is more than " } else { "" };
            let reason = format!("{what}{LIMIT_PERCENT} % of the {allowed} bytes that {by}");
            ChosenLimit { bytes, reason }
        }
        None => {
            ChosenLimit { bytes: 0, reason: "the system does not say how much memory there is".to_owned() }
        }
    }
}

/// The text of a file, if it can be read.
pub(crate) fn read_file(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// What the process may take, and by what.
fn allowed(read: &dyn Fn(&Path) -> Option<String>) -> Option<(u64, &'static str)> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    let machine = machine.map(|bytes| (bytes, "the machine has"));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let group = groups.lines().filter_map(|line| group_limit(line, read)).min();
    let group = group.map(|bytes| (bytes, "the cgroup allows"));
    machine.into_iter().chain(group).min()
}

/// The memory of the machine, from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The least limit on the way from the group of a line of `/proc/self/cgroup` to the root. In a container the path may
/// be that outside, of which only the root is to be seen.
fn group_limit(line: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, files): (_, &[&str]) = match controllers {
        "" => ("/sys/fs/cgroup", &["memory.max", "memory.high"]),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
        }
        _ => return None,
    };
    let dirs =
        Path::new(path).ancestors().map(|dir| Path::new(mount).join(dir.strip_prefix("/").unwrap_or(dir)));
    let texts = dirs.flat_map(|dir| files.iter().filter_map(move |file| read(&dir.join(file))));
    texts.filter_map(|text| text.trim().parse().ok()).filter(|bytes| *bytes < MIN_UNLIMITED_BYTES).min()
}

#[cfg(test)]
mod tests {
    //! Systems as their files describe them.
    use super::*;

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:       16384000 kB\nMemFree:         1234 kB\n");
    const MACHINE: u64 = 16_384_000 * 1024;

    /// What the process may take in a system with these files.
    fn allowed_in(files: &[(&str, &str)]) -> Option<(u64, &'static str)> {
        allowed(&|path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn a_machine_without_groups_allows_what_it_has() {
        assert_eq!(allowed_in(&[MEMINFO]), Some((MACHINE, "the machine has")));
        let unlimited = ("/sys/fs/cgroup/user/memory.max", "max\n");
        assert_eq!(
            allowed_in(&[MEMINFO, ("/proc/self/cgroup", "0::/user\n"), unlimited]).map(|a| a.0),
            Some(MACHINE)
        );
        assert_eq!(allowed_in(&[]), None);
        for strange in ["", "MemTotal: many kB", "MemTotal: 12 MB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(allowed_in(&[("/proc/meminfo", strange)]), None, "{strange}");
        }
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let mut files = vec![
            MEMINFO,
            ("/proc/self/cgroup", "0::/pods/stele\n"),
            ("/sys/fs/cgroup/pods/stele/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/memory.max", "4294967296\n"),
        ];
        assert_eq!(allowed_in(&files), Some((4 << 30, "the cgroup allows")));
        files.push(("/sys/fs/cgroup/pods/stele/memory.high", "3221225472\n"));
        assert_eq!(allowed_in(&files), Some((3 << 30, "the cgroup allows")));
        files.push(("/sys/fs/cgroup/memory.max", "1073741824\n"));
        assert_eq!(allowed_in(&files), Some((1 << 30, "the cgroup allows")), "that of a container");
    }

    #[test]
    fn version_1_is_known_and_its_largest_number_is_no_limit() {
        let groups =
            ("/proc/self/cgroup", "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/docker/1\n");
        let outside = ("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "2147483648\n");
        let inside = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        let none = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(allowed_in(&[MEMINFO, groups, outside, none]), Some((2 << 30, "the cgroup allows")));
        assert_eq!(allowed_in(&[MEMINFO, groups, inside]), Some((1 << 30, "the cgroup allows")));
        assert_eq!(allowed_in(&[MEMINFO, groups, none]), Some((MACHINE, "the machine has")));
        assert_eq!(allowed_in(&[groups, none]), None);
    }

    #[test]
    fn a_flag_outranks_the_share_and_may_be_zero() {
        let read = |_: &Path| Some("MemTotal: 1000000 kB".to_owned());
        assert_eq!(limit(Some(0), &read).bytes, 0);
        assert_eq!(limit(Some(7), &read).bytes, 7);
        let share = limit(None, &read);
        assert_eq!(share.bytes, 512_000_000);
        assert_eq!(share.reason, "50 % of the 1024000000 bytes that the machine has");
        let little = |_: &Path| Some("MemTotal: 1000 kB".to_owned());
        assert_eq!(limit(None, &little).bytes, MIN_MEMORY_LIMIT_BYTES);
        assert_eq!(limit(None, &|_| None).bytes, 0);
    }
}
