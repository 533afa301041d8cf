//! How the files and sockets that this process may have open are divided.
//!
//! Value files are opened when they are read, and client connections when clients want them: each could take everything
//! the process has, and then no segment could be made and no peer accepted. So the limit is raised as far as it goes,
//! and each part gets a share that it cannot exceed. Example: a limit of 1,024 on a machine with two cores.
//!
//! ```text
//!   1 024 = 88 process (threads, listeners, files being written, checkpoints being merged)
//!         + 117 peers: 26 connections to peer URLs until it is known what they are, 13 of HTTP there, 19 to metrics
//!           URLs, the rest is for streams
//!         + 204 value files that stay open
//!         + 615 client connections
//! ```

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The runtimes of main and stele-raft, the log of the process, listeners, the files being written, prepared,
/// checkpointed, relocated and sent: some twenty. A merge of checkpoints has up to 49 more. The rest is in reserve.
const PROCESS_FILES: usize = 80;

/// The runtime of an RPC worker has three; one more is the value file that a read on it has in use.
const FILES_PER_WORKER: usize = 4;

/// Two peers need some thirty, six some eighty; the rest is for connections that are being replaced.
const MIN_PEER_FILES: usize = 32;
/// The most connections that peers may have at a time, and as many files for those to them.
const MAX_PEER_FILES: usize = 512;
/// A part of this size of what the process itself leaves is for peers.
const PEER_PART: usize = 8;

/// Parts of the peers' share for what is accepted: half of it, so that the other half is left for streams.
const ACCEPTED_PART: usize = 3;
/// See [`ACCEPTED_PART`].
const OBSERVERS_PART: usize = 6;
/// A part of this size of what is accepted on the peer URLs is for HTTP.
const PEER_HTTP_PART: usize = 3;

/// Fewer would be opened and closed again for nearly each read.
const MIN_VALUE_FILES: usize = 8;
/// 256 GiB of values. A data directory is hardly read all over at once, and each open file costs kernel memory.
const MAX_VALUE_FILES: usize = 4096;
/// A part of this size of what is left is for value files: a connection more is worth more than a file that need not
/// be opened again, which takes a few microseconds.
const VALUE_FILES_PART: usize = 4;

/// With fewer a member would be of no use.
const MIN_CLIENTS: usize = 16;

/// The limit where the system has none.
const UNLIMITED: u64 = 1 << 20;

/// What each part of the process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorShares {
    /// The limit of the process.
    pub(crate) limit: usize,
    /// Value files that stay open for reading.
    pub(crate) value_files: usize,
    /// Connections of clients, of whatever protocol.
    pub(crate) clients: usize,
    /// Connections that are accepted on the peer URLs and have not shown yet what they are.
    pub(crate) peers: usize,
    /// Connections of HTTP on the peer URLs: as many as are open keep no member out.
    pub(crate) peer_http: usize,
    /// Connections on the metrics URLs. They have a share of their own, the smaller one: a monitoring system that
    /// leaves connections open keeps no member out.
    pub(crate) observers: usize,
}

/// The limit is too low to run a member.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process may open {limit} files at most, a member needs {needed}: raise the limit (`ulimit -n`, or \
     LimitNOFILE= of systemd); 65536 is a good value"
)]
pub(crate) struct TooFewDescriptors {
    limit: usize,
    needed: usize,
}

impl DescriptorShares {
    /// Divides a limit; `workers` is the number of RPC workers.
    ///
    /// # Errors
    /// If not even the least shares fit.
    pub(crate) fn of(limit: u64, workers: usize) -> Result<DescriptorShares, TooFewDescriptors> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let process = PROCESS_FILES + FILES_PER_WORKER * workers;
        let needed = process + MIN_PEER_FILES + MIN_VALUE_FILES + MIN_CLIENTS;
        if limit < needed {
            return Err(TooFewDescriptors { limit, needed });
        }
        let peers = ((limit - process) / PEER_PART).clamp(MIN_PEER_FILES, MAX_PEER_FILES);
        let rest = limit - process - peers;
        let value_files = (rest / VALUE_FILES_PART).clamp(MIN_VALUE_FILES, MAX_VALUE_FILES);
        let clients = rest - value_files;
        let (accepted, observers) = (peers / ACCEPTED_PART, peers / OBSERVERS_PART);
        let peer_http = accepted / PEER_HTTP_PART;
        let peers = accepted - peer_http;
        Ok(DescriptorShares { limit, value_files, clients, peers, peer_http, observers })
    }
}

/// Raises the limit of open files as far as this process may, and divides it among `workers` RPC workers and the rest.
/// Must come before anything that opens many.
///
/// # Errors
/// If not even the least shares fit.
pub(crate) fn share(workers: usize) -> Result<DescriptorShares, TooFewDescriptors> {
    let (limit, raised) = raise_limit();
    if let Err(error) = raised {
        tracing::warn!(%error, limit, "cannot raise the limit of open files");
    }
    let shares = DescriptorShares::of(limit, workers)?;
    tracing::info!(
        limit = shares.limit,
        value_files = shares.value_files,
        client_connections = shares.clients,
        "divided the files that this process may open"
    );
    Ok(shares)
}

/// Raises the limit of open files as far as this process may, and returns it.
///
/// # Errors
/// When the system refuses: the limit before is in force, and returned with the error.
pub(crate) fn raise_limit() -> (u64, io::Result<()>) {
    let before = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    let now = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
    (now, raised.map_err(io::Error::from))
}

#[cfg(test)]
mod tests {
    //! What each part gets, and that the parts are no more than the whole.
    use super::*;

    #[test]
    fn the_shares_of_usual_limits() {
        let shares = |limit| {
            let shares = DescriptorShares::of(limit, 2).expect("enough");
            (shares.value_files, shares.clients, shares.peers, shares.peer_http, shares.observers)
        };
        assert_eq!(shares(160), (10, 30, 7, 3, 5));
        assert_eq!(shares(1_024), (204, 615, 26, 13, 19));
        assert_eq!(shares(65_536), (4_096, 60_840, 114, 56, 85));
    }

    #[test]
    fn no_limit_is_exceeded_and_no_share_is_too_small() {
        for limit in (0..4_096).chain([1 << 16, 1 << 20, u64::MAX]) {
            for workers in [1, 2, 64, 255] {
                let process = PROCESS_FILES + FILES_PER_WORKER * workers;
                let Ok(shares) = DescriptorShares::of(limit, workers) else {
                    assert!((limit as usize) < process + 56, "{limit} is enough");
                    continue;
                };
                assert!(shares.clients >= MIN_CLIENTS && shares.value_files >= MIN_VALUE_FILES, "{shares:?}");
                let used =
                    process + 2 * (shares.peers + shares.peer_http + shares.observers) + shares.value_files;
                assert!(shares.clients <= shares.limit - used, "{shares:?}");
            }
        }
    }

    #[test]
    fn too_low_a_limit_is_told_with_what_is_needed() {
        let error = DescriptorShares::of(64, 2).expect_err("too few").to_string();
        assert!(error.contains("may open 64 files at most, a member needs 144"), "{error}");
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let (now, raised) = raise_limit();
        raised.expect("a process may raise its own limit");
        assert_eq!(getrlimit(Resource::Nofile).maximum.unwrap_or(UNLIMITED), now);
    }
}
