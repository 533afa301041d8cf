//! The rules that every configuration must satisfy, in etcd's words where users know them.

use std::net::IpAddr;
use std::time::Duration;

use super::diagnostics::UsageError;
use super::settings::ServerConfig;
use super::types::url::{self, Url};

/// Longest election timeout: beyond it a cluster is without a leader for too long.
const MAX_ELECTION_TIMEOUT: Duration = Duration::from_secs(50);

/// Largest value of `--max-request-bytes`. A request travels between members in one frame, with its envelope, and two
/// of them must fit into the queue of a peer. A leader could never send a larger one, nor anything after it.
const MAX_REQUEST_BYTES: u64 = 32 << 20;
const _: () = assert!(2 * MAX_REQUEST_BYTES <= transport::MAX_FRAME_BYTES as u64);

/// Smallest value of `--memory-limit-bytes` but 0. What is kept up to a fixed size (recent entries, the value cache,
/// recent events) counts too, some 40 MiB of it, and no delete frees it.
pub(crate) const MIN_MEMORY_LIMIT_BYTES: u64 = 64 << 20;

/// An election timeout must span several heartbeats, or one lost packet starts an election.
const HEARTBEATS_PER_ELECTION: u32 = 5;

impl ServerConfig {
    /// Checks everything that can be decided from the configuration alone.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), UsageError> {
        self.check_urls()
            .and_then(|()| self.check_timing())
            .and_then(|()| self.check_rest())
            .map_err(UsageError::config)
    }

    fn check_urls(&self) -> Result<(), String> {
        let urls = &self.urls;
        for (flag, listen) in [
            ("listen-peer-urls", &urls.listen_peer),
            ("listen-client-urls", &urls.listen_client),
            ("listen-client-http-urls", &urls.listen_client_http),
            ("listen-metrics-urls", &urls.listen_metrics),
        ] {
            listen.iter().try_for_each(|url| check_bindable(flag, url))?;
        }
        let peers = &urls.initial_advertise_peer;
        check_hosts(peers).map_err(|why| {
            format!("--initial-advertise-peer-urls {:?} must be \"host:port\" ({why})", url::join(peers))
        })?;
        let clients = &urls.advertise_client;
        check_hosts(clients).map_err(|why| {
            format!(
                "--advertise-client-urls {:?} must be in the format \"host:port\", \"unix:/path/to/socket\" or \
                 \"unixs:/path/to/socket\" ({why})",
                url::join(clients)
            )
        })?;
        self.check_secure_urls()
    }

    fn check_timing(&self) -> Result<(), String> {
        let (heartbeat, election) = (self.cluster.heartbeat_interval, self.cluster.election_timeout);
        let (heartbeat_ms, election_ms) = (heartbeat.as_millis(), election.as_millis());
        if heartbeat.is_zero() {
            return Err(format!("--heartbeat-interval must be >0 (set to {heartbeat_ms}ms)"));
        }
        if election.is_zero() {
            return Err(format!("--election-timeout must be >0 (set to {election_ms}ms)"));
        }
        if heartbeat.saturating_mul(HEARTBEATS_PER_ELECTION) > election {
            return Err(format!(
                "--election-timeout[{election_ms}ms] should be at least as {HEARTBEATS_PER_ELECTION} times as \
                 --heartbeat-interval[{heartbeat_ms}ms]"
            ));
        }
        if election > MAX_ELECTION_TIMEOUT {
            return Err(format!(
                "--election-timeout[{election_ms}ms] is too long, and should be set less than {}ms",
                MAX_ELECTION_TIMEOUT.as_millis()
            ));
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), String> {
        if !self.urls.listen_client.is_empty() && self.urls.advertise_client.is_empty() {
            return Err(
                "--advertise-client-urls is required when --listen-client-urls is set explicitly".to_owned()
            );
        }
        let gates = &self.feature_gates;
        if gates.enabled("LeaseCheckpointPersist") && !gates.enabled("LeaseCheckpoint") {
            return Err(
                "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint"
                    .to_owned(),
            );
        }
        for (flag, value) in
            [("max-request-bytes", self.limits.max_request_bytes), ("max-txn-ops", self.limits.max_txn_ops)]
        {
            if value == 0 {
                return Err(format!("--{flag} must be >0 (set to {value})"));
            }
        }
        if let Some(bytes @ 1..MIN_MEMORY_LIMIT_BYTES) = self.limits.memory_limit_bytes {
            return Err(format!(
                "--memory-limit-bytes must be 0 (no limit) or at least {MIN_MEMORY_LIMIT_BYTES} (set to {bytes}): \
                 what a member keeps in memory at any rate takes some 40 MiB"
            ));
        }
        if self.limits.max_request_bytes > MAX_REQUEST_BYTES {
            return Err(format!(
                "--max-request-bytes must be at most {MAX_REQUEST_BYTES} (set to {}): members cannot send each other \
                 a larger request",
                self.limits.max_request_bytes
            ));
        }
        if self.name.is_empty() {
            return Err("--name must not be empty (set to \"\")".to_owned());
        }
        Ok(())
    }
}

/// A listener needs an address, not a host name that may resolve to another machine.
fn check_bindable(flag: &str, url: &Url) -> Result<(), String> {
    let host = url.host();
    if url.scheme().is_unix() || host == "localhost" || host.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    Err(format!("expected IP in URL for binding ({url}) (--{flag})"))
}

fn check_hosts(urls: &[Url]) -> Result<(), String> {
    match urls.iter().find(|url| !url.scheme().is_unix() && url.host().is_empty()) {
        Some(url) => Err(format!("unexpected empty host ({url})")),
        None => Ok(()),
    }
}
