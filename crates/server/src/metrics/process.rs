//! What the system reports about this process, read at each scrape.

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};
use prometheus::{Counter, Gauge, IntCounter, Result};

use super::register::MetricRegister;

/// Metrics of the process. One that cannot be read (another system, no permission) keeps its last value.
pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    received_bytes: IntCounter,
    sent_bytes: IntCounter,
    open_fds: [Gauge; 2],
    max_fds: [Gauge; 2],
    resident_bytes: Gauge,
    virtual_bytes: Gauge,
    max_virtual_bytes: Gauge,
    start_time: Gauge,
    /// Threads, in the place of Go's threads and goroutines.
    threads: [Gauge; 2],
}

impl ProcessMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &MetricRegister<'_>) -> Result<ProcessMetrics> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        r.gauge("go_sched_gomaxprocs_threads", "Cores that this process may use")?.set(cores as f64);
        Ok(ProcessMetrics {
            cpu_seconds: r.seconds_counter("process_cpu_seconds_total", "CPU time used, user and system")?,
            received_bytes: r.counter("process_network_receive_bytes_total", "Bytes received in this network namespace")?,
            sent_bytes: r.counter("process_network_transmit_bytes_total", "Bytes sent in this network namespace")?,
            open_fds: [r.gauge("process_open_fds", "Open file descriptors")?, r.gauge("os_fd_used", "Open file descriptors")?],
            max_fds: [r.gauge("process_max_fds", "Most file descriptors allowed")?, r.gauge("os_fd_limit", "Most file descriptors allowed")?],
            resident_bytes: r.gauge("process_resident_memory_bytes", "Memory resident")?,
            virtual_bytes: r.gauge("process_virtual_memory_bytes", "Memory addressed")?,
            max_virtual_bytes: r.gauge("process_virtual_memory_max_bytes", "Most memory that may be addressed, -1 when unlimited")?,
            start_time: r.gauge("process_start_time_seconds", "When the process started, in seconds since 1970")?,
            threads: [r.gauge("go_threads", "Threads of this process")?, r.gauge("go_goroutines", "Threads of this process")?],
        })
    }

    pub(super) fn refresh(&self) {
        // A metric that cannot be read must not hide the others.
        let _ = Process::myself().and_then(|process| self.read(&process));
    }

    fn read(&self, process: &Process) -> ProcResult<()> {
        let ticks = procfs::ticks_per_second() as f64;
        let stat = process.stat()?;
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        self.cpu_seconds.inc_by((cpu - self.cpu_seconds.get()).max(0.0));
        self.virtual_bytes.set(stat.vsize as f64);
        self.resident_bytes.set(stat.rss_bytes().get() as f64);
        self.threads.iter().for_each(|gauge| gauge.set(stat.num_threads as f64));
        if self.start_time.get() == 0.0 {
            self.start_time.set(procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks);
        }
        let open = open_fds(process)? as f64;
        self.open_fds.iter().for_each(|gauge| gauge.set(open));
        let limits = process.limits()?;
        self.max_fds.iter().for_each(|gauge| gauge.set(limit(limits.max_open_files.soft_limit)));
        self.max_virtual_bytes.set(limit(limits.max_address_space.soft_limit));
        let devices = process.dev_status()?;
        let (received, sent) = devices.values().fold((0, 0), |(received, sent), device| {
            (received + device.recv_bytes, sent + device.sent_bytes)
        });
        self.received_bytes.inc_by(u64::saturating_sub(received, self.received_bytes.get()));
        self.sent_bytes.inc_by(u64::saturating_sub(sent, self.sent_bytes.get()));
        Ok(())
    }
}

/// The number of open descriptors. Linux 6.2 and later tells it as the length of the directory; before, they are counted
/// one by one, which takes milliseconds with ten thousand connections.
fn open_fds(process: &Process) -> ProcResult<usize> {
    match std::fs::metadata("/proc/self/fd").map(|fds| fds.len() as usize) {
        Ok(count) if count > 0 => Ok(count),
        _ => process.fd_count(),
    }
}

fn limit(value: LimitValue) -> f64 {
    match value {
        LimitValue::Unlimited => -1.0,
        LimitValue::Value(value) => value as f64,
    }
}
