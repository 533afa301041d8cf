//! The spans of one call: that of the call, that of the operation in it, and those of its phases.
//!
//! ```text
//! etcdserverpb.KV/Put     server      child of the caller's span, if the caller has one
//!   put                   internal    with what was asked for; events of the way through raft
//!     queue
//!     commit
//!       sync              of this member's own log
//!     apply
//!     answer
//! ```
//!
//! Names, attributes and events but the phases are etcd's, so that queries for etcd's spans find these.

use std::sync::Arc;
use std::time::Instant;

use api::etcdserverpb as pb;
use api::{Code, methods};
use bytes::Bytes;
use prost::Message;

use super::inner_span::InnerSpans;
use super::new_span::{IS_REMOTE, WallClock, span};
use super::otlp::{KIND_SERVER, STATUS_ERROR, Span, SpanAttribute, SpanEvent, SpanStatus};
use super::request_attributes::operation;
use super::span_queue::SpanQueue;
use super::trace_context::{TraceContext, new_span_id};
use crate::call_times::{LoopTimes, Phase};

/// A sampled call. Boxed, so that the others carry one pointer.
pub(crate) struct CallSpan {
    queue: Arc<SpanQueue>,
    /// From here on the raft loop counts its times.
    epoch: Instant,
    context: TraceContext,
    /// The id of the span of the call.
    id: u64,
    source: String,
    /// The request, of a call that has one.
    body: Option<Bytes>,
    granted: Option<i64>,
    message: String,
}

/// When a call ran and how it ended.
pub(crate) struct CallEnd {
    /// The path of its method.
    pub(crate) path: &'static str,
    /// The number of its status.
    pub(crate) code: i32,
    /// When it began.
    pub(crate) began: Instant,
    /// When it ended.
    pub(crate) ended: Instant,
    /// What it waited for.
    pub(crate) times: LoopTimes,
}

impl CallSpan {
    pub(super) fn new(
        queue: Arc<SpanQueue>,
        epoch: Instant,
        context: TraceContext,
        source: String,
    ) -> CallSpan {
        let id = new_span_id();
        CallSpan { queue, epoch, context, id, source, body: None, granted: None, message: String::new() }
    }

    /// Spans below that of the call, for what its messages ask for.
    pub(crate) fn inner(&self) -> InnerSpans {
        InnerSpans::new(self.queue.clone(), self.context.clone(), self.id)
    }

    /// The call's one request.
    pub(crate) fn asked(&mut self, body: Bytes) {
        self.body = Some(body);
    }

    /// Its answer.
    pub(crate) fn answered(&mut self, path: &str, answer: &[Bytes]) {
        if path == methods::LEASE_GRANT {
            let answer = pb::LeaseGrantResponse::decode(&answer.concat()[..]);
            self.granted = answer.ok().map(|answer| answer.id);
        }
    }

    /// Why it failed.
    pub(crate) fn failed(&mut self, message: &str) {
        message.clone_into(&mut self.message);
    }

    /// Exports the spans of the call.
    pub(crate) fn finish(self, end: &CallEnd) {
        let queue = self.queue.clone();
        let phases = end.times.phases(self.epoch, end.began, end.ended);
        queue.export(self.spans(end, &phases, &WallClock::now()));
    }

    fn spans(self, end: &CallEnd, phases: &[Phase], clock: &WallClock) -> Vec<Span> {
        let call = Span {
            name: end.path.trim_start_matches('/').to_owned(),
            span_id: self.id.to_be_bytes().to_vec(),
            kind: KIND_SERVER,
            attributes: call_attributes(end, &self.source),
            status: is_error(end.code).then_some(SpanStatus { message: self.message, code: STATUS_ERROR }),
            ..span(&self.context, self.context.parent, clock, end.began, end.ended)
        };
        let call = match self.context.parent {
            Some(_) => Span { flags: call.flags | IS_REMOTE, ..call },
            None => call,
        };
        let mut spans = vec![call];
        let mut owner = spans[0].span_id.clone();
        if let Some((name, attributes)) = self.body.and_then(|body| operation(end.path, &body, self.granted))
        {
            let whole = span(&self.context, None, clock, end.began, end.ended);
            let operation = Span { name: name.to_owned(), attributes, parent_span_id: owner, ..whole };
            owner = operation.span_id.clone();
            spans.push(operation);
        }
        if let Some(last) = spans.last_mut() {
            last.events = events(phases, clock);
        }
        for phase in phases {
            let outer = if phase.is_within { spans.last().map(|span| &span.span_id) } else { None };
            spans.push(Span {
                name: phase.name.to_owned(),
                parent_span_id: outer.unwrap_or(&owner).clone(),
                ..span(&self.context, None, clock, phase.from, phase.to)
            });
        }
        spans
    }
}

/// etcd's events of a command: it was given to raft, and raft has answered.
fn events(phases: &[Phase], clock: &WallClock) -> Vec<SpanEvent> {
    let at = |name: &str, told: &str| {
        let phase = phases.iter().find(|phase| phase.name == name)?;
        Some(SpanEvent { time_ns: clock.ns(phase.from), name: told.to_owned() })
    };
    [at("commit", "Send raft proposal"), at("answer", "Receive raft result")].into_iter().flatten().collect()
}

/// What OpenTelemetry's interceptor of grpc-go says of a call.
fn call_attributes(end: &CallEnd, source: &str) -> Vec<SpanAttribute> {
    vec![
        SpanAttribute::text("rpc.method", end.path.trim_start_matches('/')),
        SpanAttribute::text("rpc.system.name", "grpc"),
        SpanAttribute::text("server.address", source),
        SpanAttribute::text("rpc.response.status_code", code_name(end.code)),
    ]
}

/// Whether a status is the server's fault, by OpenTelemetry's conventions.
fn is_error(code: i32) -> bool {
    // One more, data loss, is in no error of ours.
    let faults =
        [Code::Unknown, Code::DeadlineExceeded, Code::Unimplemented, Code::Internal, Code::Unavailable];
    faults.iter().any(|fault| fault.number() == code)
}

/// The name of a status, as OpenTelemetry writes it.
fn code_name(code: i32) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    //! Parents, phases, and how a call ended. What a collector receives is compared with etcd's by `tests/go/tracing`.
    use std::time::Duration;

    use member::OwnSync;

    use super::*;
    use crate::call_times::CallTimes;
    use crate::raft_loop::AnswerTimes;
    use crate::spans::span_queue::SpanCounters;

    fn spans_of(parent: Option<u64>, code: i32) -> Vec<Span> {
        let context = TraceContext { trace_id: 5, parent, state: "a=1".to_owned() };
        let (queue, _taken) = SpanQueue::new(SpanCounters::for_test());
        let epoch = Instant::now();
        let began = epoch + Duration::from_micros(10);
        let times = CallTimes::default();
        let own_sync = OwnSync { began_us: 7, ended_us: 2 };
        let answer = AnswerTimes { asked_ns: 12_000, decided_ns: 20_000, answered_ns: 25_000, own_sync };
        times.answered(answer, true);
        let ended = began + Duration::from_micros(20);
        let end = CallEnd { path: methods::KV_PUT, code, began, ended, times: times.get() };
        let mut call = CallSpan::new(Arc::new(queue), epoch, context, "127.0.0.1".to_owned());
        call.asked(pb::PutRequest { key: "k".into(), ..pb::PutRequest::default() }.encode_to_vec().into());
        call.failed("why");
        let phases = end.times.phases(epoch, end.began, end.ended);
        call.spans(&end, &phases, &WallClock { instant: ended, since_1970_ns: 1_000_000 })
    }

    #[test]
    fn each_span_has_its_parent_and_its_time() {
        let spans = spans_of(Some(9), 0);
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["etcdserverpb.KV/Put", "put", "queue", "commit", "sync", "apply", "answer"]);
        assert_eq!(spans[0].parent_span_id, 9u64.to_be_bytes());
        assert_eq!((spans[0].flags, spans[1].flags), (0x301, 0x101));
        assert_eq!(spans[1].parent_span_id, spans[0].span_id);
        let parents = [1, 1, 3, 1, 1].map(|number: usize| &spans[number].span_id);
        assert!(spans[2..].iter().map(|phase| &phase.parent_span_id).eq(parents));
        assert!(spans.iter().all(|span| span.trace_id == 5u128.to_be_bytes() && span.trace_state == "a=1"));
        let times: Vec<_> = spans.iter().map(|span| (span.start_ns, span.end_ns)).collect();
        let whole = (980_000, 1_000_000);
        let phases = [
            (980_000, 982_000),
            (982_000, 990_000),
            (983_000, 988_000),
            (990_000, 995_000),
            (995_000, 1_000_000),
        ];
        assert_eq!((times[0], times[1], &times[2..]), (whole, whole, &phases[..]));
        let events: Vec<_> =
            spans[1].events.iter().map(|event| (event.time_ns, event.name.as_str())).collect();
        assert_eq!(events, [(982_000, "Send raft proposal"), (995_000, "Receive raft result")]);
    }

    #[test]
    fn only_what_the_server_failed_at_is_an_error() {
        let status = |code: Code| spans_of(None, code.number()).swap_remove(0).status;
        assert_eq!(status(Code::InvalidArgument), None);
        let failed = status(Code::Unavailable).expect("an error");
        assert_eq!((failed.message.as_str(), failed.code), ("why", STATUS_ERROR));
        let root = spans_of(None, 0).swap_remove(0);
        assert!(root.parent_span_id.is_empty());
        assert_eq!(root.flags, 0x101);
        assert_eq!(code_name(16), "UNAUTHENTICATED");
        assert_eq!(code_name(99), "99");
    }
}
