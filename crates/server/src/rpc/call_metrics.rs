//! Metrics of each method, and a warning for calls that took long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::methods;

use crate::grpc::Failure;
use crate::metrics::{MethodMetrics, Metrics, OutcomeTimes};

/// Kinds of request whose duration etcd shows as `etcd_server_request_duration_seconds`, by method.
const TIMED: [(&str, &str); 8] = [
    (methods::KV_RANGE, "Range"),
    (methods::KV_PUT, "Put"),
    (methods::KV_DELETE_RANGE, "DeleteRange"),
    (methods::KV_TXN, "Txn"),
    (methods::KV_COMPACT, "Compaction"),
    (methods::LEASE_GRANT, "LeaseGrant"),
    (methods::LEASE_REVOKE, "LeaseRevoke"),
    (methods::MAINTENANCE_ALARM, "Alarm"),
];

/// The metrics of one method.
#[derive(Clone)]
pub(super) struct CallMetrics(Arc<CallMetricsInner>);

struct CallMetricsInner {
    path: &'static str,
    is_stream: bool,
    grpc: MethodMetrics,
    durations: Option<OutcomeTimes>,
    slow: Duration,
}

/// A call that runs. It is counted as ended when this is dropped, as canceled unless [`RunningCall::ended`] was called.
pub(super) struct RunningCall {
    metrics: CallMetrics,
    started: Instant,
    code: i32,
    warns: bool,
}

impl CallMetrics {
    /// The metrics of a method, resolved once. `is_stream`: either side streams. From then on they are shown, with
    /// zeros.
    pub(super) fn new(path: &'static str, is_stream: bool, metrics: &Metrics, slow: Duration) -> CallMetrics {
        let kind = TIMED.iter().find(|(timed, _)| *timed == path);
        let durations = kind.map(|(_, kind)| metrics.events.requests(kind));
        let grpc = metrics.grpc.method(path);
        CallMetrics(Arc::new(CallMetricsInner { path, is_stream, grpc, durations, slow }))
    }

    /// Whether either side streams.
    pub(super) fn is_stream(&self) -> bool {
        self.0.is_stream
    }

    /// A message was received.
    pub(super) fn received(&self) {
        self.0.grpc.received();
    }

    /// A call begins.
    pub(super) fn begin(&self) -> RunningCall {
        self.0.grpc.started();
        let canceled = api::Code::Canceled.number();
        RunningCall {
            metrics: self.clone(),
            started: Instant::now(),
            code: canceled,
            warns: !self.is_stream(),
        }
    }
}

impl RunningCall {
    /// A message was sent.
    pub(super) fn sent(&self) {
        self.metrics.0.grpc.sent();
    }

    /// How the call ended.
    pub(super) fn ended(&mut self, result: Result<(), &Failure>) {
        self.code = result.map_or_else(|failure| failure.code.number(), |()| 0);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.metrics.0.grpc.handled(self.code, took.as_secs_f64());
        if let Some(durations) = &self.metrics.0.durations {
            durations.observe(self.code == 0, took.as_secs_f64());
        }
        if self.warns && took > self.metrics.0.slow {
            tracing::warn!(
                time_spent = format!("{took:?}"),
                response_type = self.metrics.0.path,
                code = self.code,
                "request stats"
            );
        }
    }
}
