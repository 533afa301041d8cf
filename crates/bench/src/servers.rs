//! What processes of local servers use: found by the ports that they listen on.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ctl::{Address, Endpoint};
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};

use crate::report::{Phase, ServerUse};

/// How often the processes are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The unit of figures that end in `_mb`.
const MEGABYTE: f64 = 1e6;

/// Processes that are watched from a time on, and this one.
pub(crate) struct Watched {
    pids: Vec<i32>,
    begin: Instant,
    cpu_at_begin: f64,
    own_cpu_at_begin: f64,
    seen: Rc<RefCell<Vec<(f64, f64, f64)>>>,
    looking: Option<tokio::task::JoinHandle<()>>,
}

/// CPU seconds and resident bytes of some processes.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu: f64,
    resident: u64,
}

impl Watched {
    /// Finds the processes that listen at these endpoints, as far as they are on this machine and may be looked at.
    pub(crate) fn start(endpoints: &[Endpoint]) -> Self {
        let pids = listeners(endpoints);
        let (begin, seen) = (Instant::now(), Rc::new(RefCell::new(Vec::new())));
        let at_begin = used(&pids);
        let looking = (!pids.is_empty()).then(|| {
            let (pids, seen) = (pids.clone(), Rc::clone(&seen));
            tokio::task::spawn_local(async move {
                let mut last = (begin, at_begin);
                loop {
                    tokio::time::sleep(INTERVAL).await;
                    let (now, current) = (Instant::now(), used(&pids));
                    let cpus = (current.cpu - last.1.cpu).max(0.0) / (now - last.0).as_secs_f64();
                    let moment = ((now - begin).as_secs_f64(), cpus, current.resident as f64 / MEGABYTE);
                    seen.borrow_mut().push(moment);
                    last = (now, current);
                }
            })
        });
        Self { pids, begin, cpu_at_begin: at_begin.cpu, own_cpu_at_begin: own_cpu(), seen, looking }
    }

    /// Adds what was used to the phases that ended now: to each for a request of all of them.
    pub(crate) fn finish(self, phases: &mut [Phase]) {
        if let Some(looking) = &self.looking {
            looking.abort();
        }
        let requests: u64 = phases.iter().map(|phase| phase.requests).sum();
        if requests == 0 {
            return;
        }
        let each = |seconds: f64| seconds.max(0.0) * 1e6 / requests as f64;
        let own = each(own_cpu() - self.own_cpu_at_begin);
        let current = used(&self.pids);
        let resident_mb = current.resident as f64 / MEGABYTE;
        let mut moments = self.seen.take();
        let peak_mb = moments.iter().map(|(_, _, mb)| *mb).fold(resident_mb, f64::max);
        if moments.is_empty() {
            let seconds = self.begin.elapsed().as_secs_f64();
            moments.push((seconds, (current.cpu - self.cpu_at_begin) / seconds.max(1e-9), resident_mb));
        }
        for phase in phases {
            phase.client_cpu_us = Some(own);
            phase.servers = (!self.pids.is_empty()).then(|| ServerUse {
                processes: self.pids.iter().map(|pid| pid.unsigned_abs()).collect(),
                cpu_us: each(current.cpu - self.cpu_at_begin),
                resident_mb,
                peak_mb,
                moments: moments.clone(),
            });
        }
    }
}

fn cpu_seconds(process: &Process) -> f64 {
    let ticks = process.stat().map_or(0, |stat| stat.utime + stat.stime);
    ticks as f64 / procfs::ticks_per_second() as f64
}

fn own_cpu() -> f64 {
    Process::myself().map_or(0.0, |process| cpu_seconds(&process))
}

fn used(pids: &[i32]) -> Used {
    pids.iter().fold(Used::default(), |sum, pid| match Process::new(*pid) {
        Ok(process) => {
            let resident = process.status().ok().and_then(|status| status.vmrss).unwrap_or(0) * 1024;
            Used { cpu: sum.cpu + cpu_seconds(&process), resident: sum.resident + resident }
        }
        // A server that ended used nothing since.
        Err(_) => sum,
    })
}

fn listeners(endpoints: &[Endpoint]) -> Vec<i32> {
    let addresses: Vec<SocketAddr> = endpoints.iter().filter_map(local_address).collect();
    if addresses.is_empty() {
        return Vec::new();
    }
    let tables = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let listens = |at: SocketAddr| {
        let fits = |address: &SocketAddr| {
            address.port() == at.port()
                && (at.ip().is_unspecified() || at.ip().to_canonical() == address.ip())
        };
        addresses.iter().any(fits)
    };
    let sockets: BTreeSet<u64> = tables
        .filter(|entry| entry.state == TcpState::Listen && listens(entry.local_address))
        .map(|entry| entry.inode)
        .collect();
    let holds = |process: &Process| {
        let descriptors = process.fd().into_iter().flatten().flatten();
        let mut targets = descriptors.map(|descriptor| descriptor.target);
        targets.any(|target| matches!(target, FDTarget::Socket(inode) if sockets.contains(&inode)))
    };
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    let mut pids: Vec<i32> = processes.filter(holds).map(|process| process.pid()).collect();
    pids.sort_unstable();
    pids
}

/// The address of an endpoint of this machine.
fn local_address(endpoint: &Endpoint) -> Option<SocketAddr> {
    let Address::Tcp(address) = &endpoint.address else { return None };
    let mut found = address.to_socket_addrs().ok()?;
    found.find_map(|address| {
        let ip = address.ip().to_canonical();
        // An address is ours if it can be bound.
        let is_ours = ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok();
        is_ours.then(|| SocketAddr::new(IpAddr::to_canonical(&ip), address.port()))
    })
}
