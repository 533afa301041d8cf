//! The queue between calls that end and the exporter: bounded, and what does not fit is counted.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::IntCounter;

use super::otlp::Span;
use crate::logging::RateWindow;
use crate::metrics::OwnMetrics;

/// Calls whose spans may wait for the exporter: a few megabytes at most, as keys are cut off.
const MAX_WAITING_CALLS: usize = 1_024;

/// Time that spans have to leave when the member stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What the exporter is asked.
pub(super) enum ToExport {
    /// To send the spans of a call.
    Spans(Vec<Span>),
    /// To send what waits at once, and then to say so.
    Flush(SyncSender<()>),
}

/// What became of spans.
#[derive(Clone)]
pub(super) struct SpanCounters {
    pub(super) exported: IntCounter,
    /// The collector did not take them.
    pub(super) refused: IntCounter,
    /// The queue was full.
    pub(super) dropped: IntCounter,
}

/// The end of the queue where spans come in.
pub(super) struct SpanQueue {
    waiting: SyncSender<ToExport>,
    pub(super) counters: SpanCounters,
    /// One line a second says that the queue is full.
    told: Mutex<RateWindow>,
}

impl SpanCounters {
    pub(super) fn new(metrics: &OwnMetrics) -> SpanCounters {
        SpanCounters {
            exported: metrics.spans_exported.clone(),
            refused: metrics.spans_dropped.with_label_values(&["not taken"]),
            dropped: metrics.spans_dropped.with_label_values(&["queue full"]),
        }
    }

    #[cfg(test)]
    pub(super) fn for_test() -> SpanCounters {
        let counter = || IntCounter::new("spans", "for a test").expect("a name");
        SpanCounters { exported: counter(), refused: counter(), dropped: counter() }
    }
}

impl SpanQueue {
    /// Both ends.
    pub(super) fn new(counters: SpanCounters) -> (SpanQueue, Receiver<ToExport>) {
        SpanQueue::bounded(counters, MAX_WAITING_CALLS)
    }

    fn bounded(counters: SpanCounters, calls: usize) -> (SpanQueue, Receiver<ToExport>) {
        let (waiting, taken) = sync_channel(calls);
        (SpanQueue { waiting, counters, told: Mutex::new(RateWindow::new(1)) }, taken)
    }

    /// Leaves the spans of a call to the exporter, or drops them if too many wait.
    pub(super) fn export(&self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        if self.waiting.try_send(ToExport::Spans(spans)).is_err() {
            self.counters.dropped.inc_by(count);
            if let Some(left_out) = self.told.lock().admit(Instant::now()) {
                let dropped = self.counters.dropped.get();
                tracing::warn!(dropped, left_out, "span queue full: dropping spans");
            }
        }
    }

    /// Waits, for a moment, until all that was exported has left.
    pub(super) fn flush(&self) {
        let (flushed, done) = sync_channel(1);
        if self.waiting.try_send(ToExport::Flush(flushed)).is_ok() {
            // What has not left by then is lost.
            let _ = done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    //! The queue has an end.
    use super::*;

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let (queue, taken) = SpanQueue::new(SpanCounters::for_test());
        (0..1_024).for_each(|_| queue.export(vec![Span::default()]));
        assert_eq!(queue.counters.dropped.get(), 0);
        queue.export(vec![Span::default(); 3]);
        assert_eq!(queue.counters.dropped.get(), 3);
        assert!(matches!(taken.try_recv(), Ok(ToExport::Spans(spans)) if spans.len() == 1));
        queue.export(vec![Span::default()]);
        assert_eq!(queue.counters.dropped.get(), 3, "what was taken makes room");
    }
}
