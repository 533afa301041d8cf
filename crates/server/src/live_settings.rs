//! Settings that change while the member runs: those flags of `config::changes::RELOADED` that other threads read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::config::{HttpAccess, ServerConfig};

/// The settings in force. Each is read for itself: nothing relies on two of them having changed together.
pub(crate) struct LiveSettings {
    max_txn_ops: AtomicUsize,
    quota_bytes: AtomicU64,
    slow_request_ns: AtomicU64,
    slow_apply_ns: AtomicU64,
    access: RwLock<Arc<HttpAccess>>,
}

impl LiveSettings {
    /// Those of a configuration.
    pub(crate) fn new(config: &ServerConfig) -> LiveSettings {
        let settings = LiveSettings {
            max_txn_ops: AtomicUsize::default(),
            quota_bytes: AtomicU64::default(),
            slow_request_ns: AtomicU64::default(),
            slow_apply_ns: AtomicU64::default(),
            access: RwLock::default(),
        };
        settings.apply(config);
        settings
    }

    /// Puts those of another configuration in force.
    pub(crate) fn apply(&self, config: &ServerConfig) {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let observing = &config.observing;
        self.max_txn_ops.store(config.limits.max_txn_ops as usize, Ordering::Relaxed);
        self.quota_bytes.store(quota_bytes(config), Ordering::Relaxed);
        self.slow_request_ns.store(nanoseconds(observing.warning_unary_request_duration), Ordering::Relaxed);
        self.slow_apply_ns.store(nanoseconds(observing.warning_apply_duration), Ordering::Relaxed);
        *self.access.write() = Arc::new(config.access.clone());
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

    /// `--cors` and `--host-whitelist`.
    pub(crate) fn access(&self) -> Arc<HttpAccess> {
        self.access.read().clone()
    }
}

/// The quota of a configuration; 0 for none.
pub(crate) fn quota_bytes(config: &ServerConfig) -> u64 {
    u64::try_from(config.limits.quota_backend_bytes).unwrap_or(0)
}
