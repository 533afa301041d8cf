//! Settings that change while the member runs: those flags of `config::changes::RELOADED` that other threads read. And
//! how a service asks for a reload, which `startup` carries out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use crate::config::{FlagChanges, HttpAccess, ServerConfig};
use crate::overload::ClientLimits;

/// The settings in force. Each is read for itself: nothing relies on two of them having changed together.
pub(crate) struct LiveSettings {
    max_request_bytes: AtomicUsize,
    max_txn_ops: AtomicUsize,
    /// Connections look at it when they begin.
    max_concurrent_streams: Arc<AtomicU32>,
    quota_bytes: AtomicU64,
    slow_request_ns: AtomicU64,
    slow_apply_ns: AtomicU64,
    max_request_wait_ns: AtomicU64,
    /// Whether one of the limits of a client is set, so that a call looks at one number while none is.
    has_client_limits: AtomicBool,
    client_limits: RwLock<ClientLimits>,
    access: RwLock<Arc<HttpAccess>>,
}

impl LiveSettings {
    /// Those of a configuration.
    pub(crate) fn new(config: &ServerConfig) -> LiveSettings {
        let settings = LiveSettings {
            max_request_bytes: AtomicUsize::default(),
            max_txn_ops: AtomicUsize::default(),
            max_concurrent_streams: Arc::default(),
            quota_bytes: AtomicU64::default(),
            slow_request_ns: AtomicU64::default(),
            slow_apply_ns: AtomicU64::default(),
            max_request_wait_ns: AtomicU64::default(),
            has_client_limits: AtomicBool::default(),
            client_limits: RwLock::default(),
            access: RwLock::default(),
        };
        settings.apply(config);
        settings
    }

    /// Puts those of another configuration in force.
    pub(crate) fn apply(&self, config: &ServerConfig) {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let observing = &config.observing;
        let limits = &config.limits;
        self.max_request_bytes.store(limits.max_request_bytes as usize, Ordering::Relaxed);
        self.max_txn_ops.store(limits.max_txn_ops as usize, Ordering::Relaxed);
        self.max_concurrent_streams.store(limits.max_concurrent_streams, Ordering::Relaxed);
        self.quota_bytes.store(quota_bytes(config), Ordering::Relaxed);
        self.slow_request_ns.store(nanoseconds(observing.warning_unary_request_duration), Ordering::Relaxed);
        self.slow_apply_ns.store(nanoseconds(observing.warning_apply_duration), Ordering::Relaxed);
        self.max_request_wait_ns.store(nanoseconds(limits.max_request_wait), Ordering::Relaxed);
        let client = ClientLimits {
            request_rate: limits.client_request_rate,
            bytes_rate: limits.client_bytes_rate,
            streams: limits.client_streams,
        };
        *self.client_limits.write() = client;
        self.has_client_limits.store(client != ClientLimits::default(), Ordering::Relaxed);
        *self.access.write() = Arc::new(config.access.clone());
    }

    /// `--max-request-bytes`.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.load(Ordering::Relaxed)
    }

    /// `--max-concurrent-streams`, as it is in force for connections that begin.
    pub(crate) fn max_concurrent_streams(&self) -> Arc<AtomicU32> {
        self.max_concurrent_streams.clone()
    }

    /// `--max-txn-ops`.
    pub(crate) fn max_txn_ops(&self) -> usize {
        self.max_txn_ops.load(Ordering::Relaxed)
    }

    /// `--quota-backend-bytes`, as Status reports it.
    pub(crate) fn quota_bytes(&self) -> u64 {
        self.quota_bytes.load(Ordering::Relaxed)
    }

    /// `--warning-unary-request-duration`.
    pub(crate) fn slow_request(&self) -> Duration {
        Duration::from_nanos(self.slow_request_ns.load(Ordering::Relaxed))
    }

    /// `--warning-apply-duration`.
    pub(crate) fn slow_apply(&self) -> Duration {
        Duration::from_nanos(self.slow_apply_ns.load(Ordering::Relaxed))
    }

    /// `--max-request-wait`; `None` for no limit.
    pub(crate) fn max_request_wait(&self) -> Option<Duration> {
        let ns = self.max_request_wait_ns.load(Ordering::Relaxed);
        (ns > 0).then(|| Duration::from_nanos(ns))
    }

    /// The limits of one client, if there are any.
    pub(crate) fn client_limits(&self) -> Option<ClientLimits> {
        self.has_client_limits.load(Ordering::Relaxed).then(|| *self.client_limits.read())
    }

    /// `--cors` and `--host-whitelist`.
    pub(crate) fn access(&self) -> Arc<HttpAccess> {
        self.access.read().clone()
    }
}

/// The quota of a configuration; 0 for none.
pub(crate) fn quota_bytes(config: &ServerConfig) -> u64 {
    u64::try_from(config.limits.quota_backend_bytes).unwrap_or(0)
}

/// Reloads that may wait for the one before: each reads the same files.
const MAX_WAITING_RELOADS: usize = 16;

/// Why a configuration was not reloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReloadError {
    /// It is wrong.
    Refused(String),
    /// Too many reloads were asked for.
    Busy,
    /// The member stops.
    Stopping,
}

/// Where the result of a reload goes.
pub(crate) type ReloadAnswer = oneshot::Sender<Result<FlagChanges, String>>;

/// Asks for reloads.
#[derive(Clone)]
pub(crate) struct ReloadRequests(mpsc::Sender<ReloadAnswer>);

impl ReloadRequests {
    /// This end, and that of who reloads.
    pub(crate) fn new() -> (ReloadRequests, mpsc::Receiver<ReloadAnswer>) {
        let (asked, asks) = mpsc::channel(MAX_WAITING_RELOADS);
        (ReloadRequests(asked), asks)
    }

    /// Has the configuration read again, and waits until what can change is in force.
    ///
    /// # Errors
    /// Why nothing changed.
    pub(crate) async fn ask(&self) -> Result<FlagChanges, ReloadError> {
        let (answer, result) = oneshot::channel();
        self.0.try_send(answer).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ReloadError::Busy,
            mpsc::error::TrySendError::Closed(_) => ReloadError::Stopping,
        })?;
        result.await.map_err(|_| ReloadError::Stopping)?.map_err(ReloadError::Refused)
    }
}

#[cfg(test)]
mod tests {
    //! What who asks for a reload receives; limits that are put in force and taken away.
    use super::*;
    use crate::config::{Parsed, parse};

    #[tokio::test]
    async fn a_reload_is_answered_and_a_flood_of_them_is_refused() {
        let (requests, mut asks) = ReloadRequests::new();
        let reloading = tokio::spawn({
            let requests = requests.clone();
            async move { requests.ask().await }
        });
        let answer = asks.recv().await.expect("a request");
        answer.send(Err("a bad flag".to_owned())).expect("it waits");
        assert_eq!(reloading.await.expect("no panic"), Err(ReloadError::Refused("a bad flag".to_owned())));
        let waiting: Vec<_> = (0..MAX_WAITING_RELOADS)
            .map(|_| {
                tokio::spawn({
                    let requests = requests.clone();
                    async move { requests.ask().await }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(requests.ask().await, Err(ReloadError::Busy));
        drop(asks);
        for reload in waiting {
            assert_eq!(reload.await.expect("no panic"), Err(ReloadError::Stopping));
        }
    }

    fn config(flags: &[&str]) -> ServerConfig {
        let line = std::iter::once("stele").chain(flags.iter().copied()).map(Into::into);
        match parse(line, std::iter::empty()) {
            Ok(Parsed::Run(config)) => *config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_of_overload_change_while_the_member_runs() {
        let live = LiveSettings::new(&config(&[]));
        assert_eq!((live.max_request_wait(), live.client_limits()), (Some(Duration::from_secs(2)), None));
        live.apply(&config(&["--max-request-wait=0", "--client-max-bytes-rate=7"]));
        let limits = ClientLimits { bytes_rate: 7, ..ClientLimits::default() };
        assert_eq!((live.max_request_wait(), live.client_limits()), (None, Some(limits)));
        live.apply(&config(&["--client-max-request-rate=1", "--client-max-streams=2"]));
        let limits = ClientLimits { request_rate: 1, streams: 2, bytes_rate: 0 };
        assert_eq!(live.client_limits(), Some(limits));
        live.apply(&config(&[]));
        assert_eq!(live.client_limits(), None);
    }
}
