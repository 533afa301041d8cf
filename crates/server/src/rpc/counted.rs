//! Counting calls: metrics of each method, and a warning for calls that took long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::methods;

use super::{Failure, health};
use crate::metrics::{GrpcMethod, Metrics, Outcomes};

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

/// Methods that stream. They live long by design, so nobody is warned about it.
const STREAMS: [&str; 5] = [
    methods::KV_RANGE_STREAM,
    methods::WATCH_WATCH,
    methods::LEASE_KEEP_ALIVE,
    methods::MAINTENANCE_SNAPSHOT,
    health::WATCH,
];

/// The counters of one method.
#[derive(Clone)]
pub(super) struct Counted(Arc<Counters>);

struct Counters {
    path: &'static str,
    is_stream: bool,
    grpc: GrpcMethod,
    durations: Option<Outcomes>,
    slow: Duration,
}

/// A call under way; it is counted as ended when this is dropped, as canceled unless somebody said otherwise.
pub(super) struct Underway {
    counted: Counted,
    started: Instant,
    code: i32,
    warns: bool,
}

impl Counted {
    /// The counters of a method, resolved once. From then on they are shown, with zeros.
    pub(super) fn new(path: &'static str, metrics: &Metrics, slow: Duration) -> Counted {
        let kind = TIMED.iter().find(|(timed, _)| *timed == path);
        let durations = kind.map(|(_, kind)| metrics.events.requests(kind));
        let grpc = metrics.grpc.method(path);
        Counted(Arc::new(Counters { path, is_stream: STREAMS.contains(&path), grpc, durations, slow }))
    }

    /// Whether either side streams.
    pub(super) fn is_stream(&self) -> bool {
        self.0.is_stream
    }

    /// A message came.
    pub(super) fn received(&self) {
        self.0.grpc.received();
    }

    /// A call begins.
    pub(super) fn begin(&self) -> Underway {
        self.0.grpc.started();
        let canceled = api::Code::Canceled.number();
        Underway { counted: self.clone(), started: Instant::now(), code: canceled, warns: !self.is_stream() }
    }
}

impl Underway {
    /// A message went.
    pub(super) fn sent(&self) {
        self.counted.0.grpc.sent();
    }

    /// How the call ended.
    pub(super) fn ended(&mut self, result: Result<(), &Failure>) {
        self.code = result.map_or_else(|failure| failure.code.number(), |()| 0);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        self.counted.0.grpc.handled(self.code, took.as_secs_f64());
        if let Some(durations) = &self.counted.0.durations {
            durations.observe(self.code == 0, took.as_secs_f64());
        }
        if self.warns && took > self.counted.0.slow {
            tracing::warn!(
                time_spent = format!("{took:?}"),
                response_type = self.counted.0.path,
                code = self.code,
                "request stats"
            );
        }
    }
}
