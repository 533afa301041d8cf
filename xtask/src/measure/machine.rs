//! The machine a run was made on.

use std::fmt;
use std::fs;

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) model: String,
    pub(crate) memory_mb: u64,
    pub(crate) kernel: String,
}

impl Machine {
    /// Reads what the kernel says; what it does not say is empty.
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory = after(&text("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            cpus: cpus(),
            model: after(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_mb: kilobytes / 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// How many CPUs this process may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPUs ({}), {} MB, Linux {}", self.cpus, self.model, self.memory_mb, self.kernel)
    }
}
