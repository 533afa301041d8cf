//! Counters of gRPC calls, as go-grpc-prometheus names them.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Result;

use super::register::MetricRegister;
use super::sharded::{ShardedCells, ShardedCounter, ShardedFamily, ShardedHistogram};

/// Names of the status codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Number of the code `Unknown`, for numbers that are no code.
const UNKNOWN: usize = 2;

const LABELS: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];

/// Indexes of a method's counters in its row. The codes follow.
const STARTED: usize = 0;
const RECEIVED: usize = 1;
const SENT: usize = 2;
const HANDLED: usize = 3;

/// Counters of all methods.
pub struct GrpcMetrics {
    started: ShardedFamily,
    handled: ShardedFamily,
    received: ShardedFamily,
    sent: ShardedFamily,
    seconds: Option<ShardedFamily>,
}

/// Counters of one method. Resolve once, count often.
#[derive(Clone)]
pub struct MethodMetrics {
    cells: Arc<ShardedCells>,
    seconds: Option<ShardedHistogram>,
}

impl GrpcMetrics {
    pub(super) fn new(register: &MetricRegister<'_>, extensive: bool) -> Result<GrpcMetrics> {
        let with_code = [&LABELS[..], &["grpc_code"]].concat();
        let seconds =
            || register.default_histograms("grpc_server_handling_seconds", "Time of gRPC calls", &LABELS);
        Ok(GrpcMetrics {
            started: register.sharded_counters("grpc_server_started_total", "gRPC calls begun", &LABELS)?,
            handled: register.sharded_counters(
                "grpc_server_handled_total",
                "gRPC calls ended, by code",
                &with_code,
            )?,
            received: register.sharded_counters(
                "grpc_server_msg_received_total",
                "Messages received in gRPC calls",
                &LABELS,
            )?,
            sent: register.sharded_counters(
                "grpc_server_msg_sent_total",
                "Messages sent in gRPC calls",
                &LABELS,
            )?,
            seconds: extensive.then(seconds).transpose()?,
        })
    }

    /// The counters of the method with this path, such as [`api::methods::KV_PUT`]. From then on it is shown, with
    /// zeros.
    ///
    /// # Panics
    /// When the method has counters already: two series would have the same labels.
    pub fn method(&self, path: &str) -> MethodMetrics {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or(("unknown", path));
        let [kind, service, method] = [kind(service, method), service, method];
        let cells = Arc::new(ShardedCells::new(HANDLED + CODES.len()));
        for (family, index) in [(&self.started, STARTED), (&self.received, RECEIVED), (&self.sent, SENT)] {
            family.show(&[kind, service, method], ShardedCounter::at(&cells, index));
        }
        for (number, code) in CODES.into_iter().enumerate() {
            self.handled.show(&[kind, service, method, code], ShardedCounter::at(&cells, HANDLED + number));
        }
        let seconds = self.seconds.as_ref().map(|seconds| seconds.histogram(&[kind, service, method]));
        MethodMetrics { cells, seconds }
    }
}

impl MethodMetrics {
    /// A call begins.
    pub fn started(&self) {
        self.cells.add(STARTED, 1);
    }

    /// A message was received.
    pub fn received(&self) {
        self.cells.add(RECEIVED, 1);
    }

    /// Messages were sent.
    pub fn sent(&self, messages: u64) {
        self.cells.add(SENT, messages);
    }

    /// A call ended with this status code, after this time.
    pub fn handled(&self, code: i32, time: Duration) {
        let code = usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(UNKNOWN);
        self.cells.add(HANDLED + code, 1);
        if let Some(histogram) = &self.seconds {
            histogram.observe(time);
        }
    }
}

/// Which side of a method streams.
fn kind(service: &str, method: &str) -> &'static str {
    match method {
        "Watch" if service == "grpc.health.v1.Health" => "server_stream",
        "Watch" | "LeaseKeepAlive" => "bidi_stream",
        "RangeStream" | "Snapshot" | "Observe" => "server_stream",
        _ => "unary",
    }
}
