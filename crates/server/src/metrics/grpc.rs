//! Counters of gRPC calls, as go-grpc-prometheus names them.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Result};

use super::register::MetricRegister;

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

/// Counters of all methods.
pub struct GrpcMetrics {
    started: IntCounterVec,
    handled: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    seconds: Option<HistogramVec>,
}

/// Counters of one method. Resolve once, count often.
#[derive(Clone)]
pub struct MethodMetrics {
    started: IntCounter,
    handled: [IntCounter; CODES.len()],
    received: IntCounter,
    sent: IntCounter,
    seconds: Option<Histogram>,
}

impl GrpcMetrics {
    pub(super) fn new(register: &MetricRegister<'_>, extensive: bool) -> Result<GrpcMetrics> {
        let with_code = [&LABELS[..], &["grpc_code"]].concat();
        let seconds =
            || register.default_histograms("grpc_server_handling_seconds", "Time of gRPC calls", &LABELS);
        Ok(GrpcMetrics {
            started: register.counters("grpc_server_started_total", "gRPC calls begun", &LABELS)?,
            handled: register.counters(
                "grpc_server_handled_total",
                "gRPC calls ended, by code",
                &with_code,
            )?,
            received: register.counters(
                "grpc_server_msg_received_total",
                "Messages received in gRPC calls",
                &LABELS,
            )?,
            sent: register.counters("grpc_server_msg_sent_total", "Messages sent in gRPC calls", &LABELS)?,
            seconds: extensive.then(seconds).transpose()?,
        })
    }

    /// The counters of the method with this path, such as [`api::methods::KV_PUT`]. From then on it is shown, with
    /// zeros.
    pub fn method(&self, path: &str) -> MethodMetrics {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or(("unknown", path));
        let labels = [kind(method), service, method];
        let handled =
            CODES.map(|code| self.handled.with_label_values(&[labels[0], labels[1], labels[2], code]));
        MethodMetrics {
            started: self.started.with_label_values(&labels),
            handled,
            received: self.received.with_label_values(&labels),
            sent: self.sent.with_label_values(&labels),
            seconds: self.seconds.as_ref().map(|seconds| seconds.with_label_values(&labels)),
        }
    }
}

impl MethodMetrics {
    /// A call begins.
    pub fn started(&self) {
        self.started.inc();
    }

    /// A message was received.
    pub fn received(&self) {
        self.received.inc();
    }

    /// A message was sent.
    pub fn sent(&self) {
        self.sent.inc();
    }

    /// A call ended with this status code, after this time.
    pub fn handled(&self, code: i32, seconds: f64) {
        let code = usize::try_from(code).ok().filter(|&code| code < CODES.len()).unwrap_or(UNKNOWN);
        self.handled[code].inc();
        if let Some(histogram) = &self.seconds {
            histogram.observe(seconds);
        }
    }
}

/// Which side of a method streams, by its name without the service.
fn kind(method: &str) -> &'static str {
    match method {
        "Watch" | "LeaseKeepAlive" => "bidi_stream",
        "RangeStream" | "Snapshot" | "Observe" => "server_stream",
        _ => "unary",
    }
}
