//! Spans of what single messages of a call ask for: a watch, the renewal of a lease, a streamed range.
//!
//! ```text
//! etcdserverpb.Watch/Watch      server      until the stream ends
//!   watch                       internal    from the request that creates it until it is canceled, or the stream ends
//!   watch
//! ```
//!
//! They exist only within a call that is sampled: any other has no [`InnerSpans`]. Each is exported by itself when it
//! ends, so the queue bounds how many wait.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::new_span::{WallClock, span};
use super::otlp::Span;
use super::request_attributes::{InnerOperation, inner_operation};
use super::span_queue::SpanQueue;
use super::trace_context::TraceContext;

/// Begins spans below that of one call. Clones share them.
#[derive(Clone)]
pub(crate) struct InnerSpans(Arc<InnerSpansOf>);

struct InnerSpansOf {
    queue: Arc<SpanQueue>,
    context: TraceContext,
    /// The id of the span of the call.
    parent: u64,
}

/// A span that has begun. It ends when this is dropped.
pub(crate) struct OpenSpan(Box<OpenSpanOf>);

struct OpenSpanOf {
    spans: InnerSpans,
    operation: InnerOperation,
    began: Instant,
}

impl InnerSpans {
    pub(super) fn new(queue: Arc<SpanQueue>, context: TraceContext, parent: u64) -> InnerSpans {
        InnerSpans(Arc::new(InnerSpansOf { queue, context, parent }))
    }

    /// Begins a span now.
    pub(crate) fn begin(&self, operation: InnerOperation) -> OpenSpan {
        OpenSpan(Box::new(OpenSpanOf { spans: self.clone(), operation, began: Instant::now() }))
    }
}

impl fmt::Debug for InnerSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InnerSpans({:x})", self.0.parent)
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let OpenSpanOf { spans: InnerSpans(of), operation, began } = &*self.0;
        let (name, attributes) = inner_operation(operation);
        let whole = span(&of.context, Some(of.parent), &WallClock::now(), *began, Instant::now());
        of.queue.export(vec![Span { name: name.to_owned(), attributes, ..whole }]);
    }
}

#[cfg(test)]
mod tests {
    //! When spans end, and whose they are. Names and attributes are compared with etcd's by `tests/go/tracing`.
    use super::*;
    use crate::spans::span_queue::{SpanCounters, ToExport};

    #[test]
    fn a_span_is_exported_when_it_ends() {
        let (queue, taken) = SpanQueue::new(SpanCounters::for_test());
        let context = TraceContext { trace_id: 5, parent: Some(9), state: "a=1".to_owned() };
        let spans = InnerSpans::new(Arc::new(queue), context, 7);
        let (first, second) =
            (spans.begin(InnerOperation::Renewal(1)), spans.begin(InnerOperation::Renewal(2)));
        assert!(taken.try_recv().is_err(), "none has ended");
        drop(second);
        let Ok(ToExport::Spans(exported)) = taken.try_recv() else { panic!("a span") };
        let [span] = &exported[..] else { panic!("one span: {exported:?}") };
        assert_eq!((span.name.as_str(), span.attributes.len()), ("lease_renew", 1));
        assert_eq!((&span.parent_span_id[..], span.trace_state.as_str()), (&7u64.to_be_bytes()[..], "a=1"));
        assert_eq!(span.trace_id, 5u128.to_be_bytes());
        assert!(span.start_ns <= span.end_ns && span.flags == 0x101, "within this process");
        drop(first);
        assert!(matches!(taken.try_recv(), Ok(ToExport::Spans(_))));
    }
}
