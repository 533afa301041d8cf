//! Metrics of each method, and a line of the log for each call: a warning if it took long, else for debugging.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use api::methods;
use bytes::Bytes;
use parking_lot::Mutex;
use tracing::Level;

use super::request_stats::{ObservedRequest, RequestStats};
use crate::auth::Source;
use crate::call_times::{self, LoopTimes};
use crate::grpc::{EncodedMessage, Failure};
use crate::live_settings::LiveSettings;
use crate::logging::RateWindow;
use crate::metrics::{MethodMetrics, Metrics, OutcomeTimes, ShardedCounter};
use crate::overload::OpenCall;
use crate::spans::{CallEnd, CallSpan};

/// Kinds of request whose duration etcd shows as `etcd_server_request_duration_seconds`, by method.
/// Transactions are timed by their handler, which knows whether one only reads.
const TIMED: [(&str, &str); 24] = [
    (methods::KV_RANGE, "Range"),
    (methods::KV_PUT, "Put"),
    (methods::KV_DELETE_RANGE, "DeleteRange"),
    (methods::KV_COMPACT, "Compaction"),
    (methods::LEASE_GRANT, "LeaseGrant"),
    (methods::LEASE_REVOKE, "LeaseRevoke"),
    (methods::MAINTENANCE_ALARM, "Alarm"),
    (methods::AUTH_AUTHENTICATE, "Authenticate"),
    (methods::AUTH_ENABLE, "AuthEnable"),
    (methods::AUTH_DISABLE, "AuthDisable"),
    (methods::AUTH_STATUS, "AuthStatus"),
    (methods::AUTH_USER_ADD, "AuthUserAdd"),
    (methods::AUTH_USER_GET, "AuthUserGet"),
    (methods::AUTH_USER_LIST, "AuthUserList"),
    (methods::AUTH_USER_DELETE, "AuthUserDelete"),
    (methods::AUTH_USER_CHANGE_PASSWORD, "AuthUserChangePassword"),
    (methods::AUTH_USER_GRANT_ROLE, "AuthUserGrantRole"),
    (methods::AUTH_USER_REVOKE_ROLE, "AuthUserRevokeRole"),
    (methods::AUTH_ROLE_ADD, "AuthRoleAdd"),
    (methods::AUTH_ROLE_GET, "AuthRoleGet"),
    (methods::AUTH_ROLE_LIST, "AuthRoleList"),
    (methods::AUTH_ROLE_DELETE, "AuthRoleDelete"),
    (methods::AUTH_ROLE_GRANT_PERMISSION, "AuthRoleGrantPermission"),
    (methods::AUTH_ROLE_REVOKE_PERMISSION, "AuthRoleRevokePermission"),
];

/// Calls of a method within a second that the log tells, then each hundredth: those that took long, and the others.
/// Half of what the log takes of one message, so that it leaves out none of them by itself for one method.
const MAX_TOLD_CALLS: u64 = 50;

/// The metrics of one method. They live as long as the process, as the registry that shows them does: calls of all
/// workers have them, and a count of references would be a cache line that each call fetches from another core.
#[derive(Clone, Copy)]
pub(super) struct CallMetrics(&'static CallMetricsInner);

struct CallMetricsInner {
    path: &'static str,
    is_stream: bool,
    grpc: MethodMetrics,
    durations: Option<OutcomeTimes>,
    received_bytes: ShardedCounter,
    sent_bytes: ShardedCounter,
    live: Arc<LiveSettings>,
    /// From here on the raft loop counts its times.
    epoch: Instant,
    slow_calls: Mutex<RateWindow>,
    other_calls: Mutex<RateWindow>,
}

/// A call that runs. It is counted as ended when this is dropped, as canceled unless [`RunningCall::ended`] was called.
pub(super) struct RunningCall {
    metrics: CallMetrics,
    started: Instant,
    code: i32,
    /// What the log tells of it; `None` for a call in which either side streams.
    observed: Option<ObservedRequest>,
    is_timed: bool,
    /// When its answer was made, if it has one.
    answered: Option<Instant>,
    /// If clients have limits.
    open: Option<OpenCall>,
    /// If it was asked and granted that the log tells of it: how many calls were left out before it.
    admitted: Option<u64>,
    times: LoopTimes,
    /// If the call is sampled.
    span: Option<Box<CallSpan>>,
}

impl CallMetrics {
    /// The metrics of a method, resolved once. `is_stream`: either side streams. From then on they are shown, with
    /// zeros. The raft loop counts its times from `epoch`.
    pub(super) fn new(
        path: &'static str,
        is_stream: bool,
        metrics: &Metrics,
        live: &Arc<LiveSettings>,
        epoch: Instant,
    ) -> CallMetrics {
        let kind = TIMED.iter().find(|(timed, _)| *timed == path);
        let durations = kind.map(|(_, kind)| metrics.events.requests(kind));
        let grpc = metrics.grpc.method(path);
        let received_bytes = metrics.events.client_received_bytes.clone();
        let sent_bytes = metrics.events.client_sent_bytes.clone();
        let live = live.clone();
        let window = || Mutex::new(RateWindow::new(MAX_TOLD_CALLS));
        CallMetrics(Box::leak(Box::new(CallMetricsInner {
            path,
            is_stream,
            grpc,
            durations,
            received_bytes,
            sent_bytes,
            live,
            epoch,
            slow_calls: window(),
            other_calls: window(),
        })))
    }

    /// The path of the method.
    pub(super) fn path(&self) -> &'static str {
        self.0.path
    }

    /// Whether either side streams.
    pub(super) fn is_stream(&self) -> bool {
        self.0.is_stream
    }

    /// A message of so many bytes was received.
    pub(super) fn received(&self, bytes: usize) {
        self.0.grpc.received();
        self.0.received_bytes.add(bytes as u64);
    }

    /// A call begins, which has this span if it is sampled.
    pub(super) fn begin(&self, span: Option<Box<CallSpan>>) -> RunningCall {
        self.0.grpc.started();
        let canceled = api::Code::Canceled.number();
        RunningCall {
            metrics: *self,
            started: Instant::now(),
            code: canceled,
            observed: None,
            is_timed: true,
            answered: None,
            open: None,
            admitted: None,
            times: LoopTimes::default(),
            span,
        }
    }

    /// A call of one request begins, which the log may tell.
    pub(super) fn begin_unary(
        &self,
        body: &Bytes,
        source: Source,
        span: Option<Box<CallSpan>>,
    ) -> RunningCall {
        let mut running = self.begin(span);
        if let Some(span) = &mut running.span {
            span.asked(body.clone());
        }
        running.observed = Some(ObservedRequest::new(body.clone(), source));
        running
    }

    /// Counts a call that was refused before it began. It has no duration: `success="false"` would look fast.
    pub(super) fn refused(&self, failure: &Failure, span: Option<Box<CallSpan>>) {
        let mut call = self.begin(span);
        call.is_timed = false;
        call.ended(Err(failure));
    }
}

impl RunningCall {
    /// A message was received, of so many bytes.
    pub(super) fn received(&self, bytes: usize) {
        self.metrics.received(bytes);
        self.charge(bytes);
    }

    /// Messages were sent, of so many bytes together.
    pub(super) fn sent(&self, messages: usize, bytes: usize) {
        self.charge(bytes);
        self.metrics.0.grpc.sent(messages as u64);
        self.metrics.0.sent_bytes.add(bytes as u64);
    }

    /// What the call has waited for.
    pub(super) fn timed(&mut self, times: LoopTimes) {
        self.times = times;
    }

    /// The call counts as open until it ends, and its bytes as those of its client.
    pub(super) fn counts_as(&mut self, open: Option<OpenCall>) {
        self.open = open;
    }

    fn charge(&self, bytes: usize) {
        if let Some(open) = &self.open {
            open.account().charge(bytes);
        }
    }

    /// The answer, before it is sent.
    pub(super) fn answered(&mut self, answer: &EncodedMessage) {
        if let Some(span) = &mut self.span {
            span.answered(self.metrics.0.path, &answer.0);
        }
        let now = Instant::now();
        self.answered = Some(now);
        if self.is_told(now)
            && let Some(observed) = &mut self.observed
        {
            observed.answered(self.metrics.0.path, answer);
        }
    }

    /// The bytes of an answer that is sent while it is made.
    pub(super) fn answered_bytes(&mut self, bytes: usize) {
        if let Some(observed) = &mut self.observed {
            observed.answered_bytes(self.metrics.0.path, bytes);
        }
    }

    /// How the call ended.
    pub(super) fn ended(&mut self, result: Result<(), &Failure>) {
        self.code = result.map_or_else(|failure| failure.code.number(), |()| 0);
        if let (Some(span), Err(failure)) = (&mut self.span, result) {
            span.failed(&failure.message);
        }
    }

    /// Whether the log tells of the call if it ends at `now`. It is asked before anything is decoded for that: when
    /// many calls are slow, most lines would be left out afterwards.
    fn is_told(&mut self, now: Instant) -> bool {
        let metrics = self.metrics.0;
        let is_slow = now.saturating_duration_since(self.started) > metrics.live.slow_request();
        if self.observed.is_none() || !(is_slow || tracing::enabled!(Level::DEBUG)) {
            return false;
        }
        if self.admitted.is_none() {
            let window = if is_slow { &metrics.slow_calls } else { &metrics.other_calls };
            self.admitted = window.lock().admit(now);
            if self.admitted.is_none() {
                self.observed = None;
            }
        }
        self.admitted.is_some()
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // The answer is sent within a microsecond of being made: the clock is read once for both.
        let now = self.answered.unwrap_or_else(Instant::now);
        let took = now.saturating_duration_since(self.started);
        self.metrics.0.grpc.handled(self.code, took);
        if let Some(durations) = self.metrics.0.durations.as_ref().filter(|_| self.is_timed) {
            durations.observe(self.code == 0, took);
        }
        if self.is_told(now)
            && let Some(observed) = &self.observed
        {
            self.tell(observed, now);
        }
        if let Some(span) = self.span.take() {
            let (path, began) = (self.metrics.0.path, self.started);
            span.finish(&CallEnd { path, code: self.code, began, ended: now, times: self.times });
        }
    }
}

impl RunningCall {
    /// Logs etcd's `request stats`: a warning if it took long. One macro for each severity, as that is fixed in it.
    fn tell(&self, observed: &ObservedRequest, ended: Instant) {
        let path = self.metrics.0.path;
        let took = ended.saturating_duration_since(self.started);
        let phases = self.times.phases(self.metrics.0.epoch, self.started, ended);
        let phases = (!phases.is_empty()).then(|| call_times::describe(&phases));
        let RequestStats { request_count, request_size, response_count, response_size, content } =
            observed.stats(path);
        let suppressed = self.admitted.filter(|suppressed| *suppressed > 0);
        macro_rules! stats {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    "start time" = began(took),
                    "time spent" = format!("{took:?}"),
                    remote = observed.source().to_string(),
                    "response type" = path,
                    "request count" = request_count,
                    "request size" = request_size,
                    "response count" = response_count,
                    "response size" = response_size,
                    "request content" = content,
                    code = self.code,
                    phases = phases.as_deref(),
                    left_out = suppressed,
                    "request stats"
                )
            };
        }
        if took > self.metrics.0.live.slow_request() { stats!(Level::WARN) } else { stats!(Level::DEBUG) }
    }
}

/// When something began that took so long, as the log shows it.
fn began(took: Duration) -> String {
    let time = SystemTime::now().checked_sub(took).and_then(|time| jiff::Timestamp::try_from(time).ok());
    time.map_or_else(String::new, |time| format!("{time:.6}"))
}

#[cfg(test)]
mod tests {
    //! What has a duration.
    use super::*;
    use crate::config::{FeatureGates, Parsed, parse};
    use crate::metrics::{GaugeSource, Gauges};

    struct NoState;

    impl GaugeSource for NoState {
        fn gauges(&self) -> Gauges {
            Gauges::default()
        }
    }

    /// Those of puts, and where they are shown.
    fn of_puts() -> (CallMetrics, Metrics) {
        let metrics = Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("metrics");
        let Ok(Parsed::Run(config)) = parse(["stele".into()].into_iter(), std::iter::empty()) else {
            panic!("good flags");
        };
        let live = Arc::new(LiveSettings::new(&config));
        (CallMetrics::new(methods::KV_PUT, false, &metrics, &live, Instant::now()), metrics)
    }

    #[test]
    fn the_log_tells_of_some_slow_calls_of_a_second_and_says_what_it_left_out() {
        let (put, _) = of_puts();
        // All of them end at the same time, an hour after they began.
        let end = Instant::now() + Duration::from_secs(3_600);
        let mut told = (0..250).map(|_| {
            let mut call = put.begin_unary(&Bytes::new(), Source::default(), None);
            let is_told = call.is_told(end);
            let left_out = call.admitted.take();
            call.observed = None;
            assert_eq!(left_out.is_some(), is_told);
            left_out
        });
        assert!(told.by_ref().take(50).all(|left_out| left_out == Some(0)), "the first 50");
        let later: Vec<(usize, u64)> =
            told.enumerate().filter_map(|(number, left_out)| Some((51 + number, left_out?))).collect();
        assert_eq!(later, [(100, 49), (200, 99)]);
    }

    #[test]
    fn a_refused_call_is_counted_and_has_no_duration() {
        let (put, metrics) = of_puts();
        put.refused(&api::Error::NoLeader.into(), None);
        put.begin(None).ended(Err(&api::Error::Timeout.into()));
        let text = metrics.render(&NoState).expect("text");
        let value = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).expect(start);
            line.rsplit(' ').next().expect("a value").to_owned()
        };
        let put = "grpc_server_started_total{grpc_method=\"Put\"";
        assert_eq!(value(put), "2");
        let put = "etcd_server_request_duration_seconds_count{success=\"false\",type=\"Put\"}";
        assert_eq!(value(put), "1");
    }
}
