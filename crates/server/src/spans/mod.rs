//! Distributed tracing: sampled calls as spans of OpenTelemetry, exported to a collector
//! (`--enable-distributed-tracing`).
//!
//! A call is sampled when it begins, or not: [`Tracer::begin`]. One that is not costs a look at one header; without the
//! flag there is no tracer, and a call costs a branch. Spans are made when the call ends, of what the call knows
//! anyway, and go into a bounded queue. A thread sends them; when the queue is full, the spans of a call are dropped
//! and counted.
//!
//! ```text
//! begin(head)      traceparent, sampling rate   -> CallSpan, 1 in N
//! end of the call  request, status, phases      -> spans -> queue -> stele-spans -> collector
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `trace_context` | of which trace a call is a part, and whether it is sampled |
//! | `call_span` | the spans of a call |
//! | `inner_span` | spans of single watches, renewals and streamed ranges, below that of their call |
//! | `new_span` | what all spans have in common |
//! | `request_attributes` | what they say of the request |
//! | `otlp` | the messages of the protocol |
//! | `span_queue` | what waits for the thread |
//! | `exporter` | the thread |
//!
//! Nothing here knows what a method does; etcd's names of spans and attributes are the contract (RFC 0034).

mod call_span;
mod exporter;
mod inner_span;
mod new_span;
mod otlp;
mod request_attributes;
mod span_queue;
mod trace_context;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use http2::RequestHead;

use crate::config::TracingSettings;
use crate::logging::RepeatedFailures;
use crate::metrics::OwnMetrics;

pub(crate) use call_span::{CallEnd, CallSpan};
pub(crate) use inner_span::{InnerSpans, OpenSpan};
pub(crate) use request_attributes::InnerOperation;

use exporter::Exporter;
use span_queue::{SpanCounters, SpanQueue};
use trace_context::Sampler;

/// Begins spans.
pub(crate) struct Tracer {
    sampler: Sampler,
    queue: Arc<SpanQueue>,
    /// From here on the raft loop counts its times.
    epoch: Instant,
}

impl Tracer {
    /// Starts to export as the settings say. The raft loop counts its times from `epoch`.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(crate) fn start(
        settings: TracingSettings,
        epoch: Instant,
        metrics: &OwnMetrics,
    ) -> std::io::Result<Tracer> {
        let counters = SpanCounters::new(metrics);
        let (queue, taken) = SpanQueue::new(counters.clone());
        let sampler = Sampler::per_million(settings.sampling_per_million);
        Exporter { settings, queue: taken, counters, failures: RepeatedFailures::default() }.start()?;
        Ok(Tracer { sampler, queue: Arc::new(queue), epoch })
    }

    /// A call begins with this head, from this source. `None` if its spans are not exported.
    pub(crate) fn begin(&self, head: &RequestHead, source: &impl Display) -> Option<Box<CallSpan>> {
        let [parent, state] = head.get_each(["traceparent", "tracestate"]);
        let context = self.sampler.decide(parent, state)?;
        Some(Box::new(CallSpan::new(self.queue.clone(), self.epoch, context, source.to_string())))
    }

    /// Waits, for a moment, until all that was exported has left: the process ends.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }
}
