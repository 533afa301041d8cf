//! From an event to the queues of all outputs, on the thread that logs. Nothing here waits for an output.

use std::sync::Arc;
use std::time::Instant;

use prometheus::IntCounter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Context, Layer};

use super::line::LineForm;
use super::queue::{LineQueue, QueuedLine};
use super::record::LogRecord;
use super::throttle::{MessageKey, Throttle};

/// An output as the layer sees it.
#[derive(Clone)]
pub(super) struct Destination {
    /// Form of its lines.
    pub(super) form: LineForm,
    /// What its thread takes lines from.
    pub(super) queue: Arc<LineQueue>,
}

/// Hands each event to all outputs.
pub(super) struct LogLayer<T> {
    destinations: Vec<Destination>,
    throttle: Throttle,
    clock: T,
    now: fn() -> Instant,
    dropped: IntCounter,
}

impl<T: FormatTime> LogLayer<T> {
    /// Lines for `destinations`, with the time by `clock`, thinned out by `now`; what finds no room is counted in
    /// `dropped`.
    pub(super) fn new(
        destinations: Vec<Destination>,
        clock: T,
        now: fn() -> Instant,
        dropped: IntCounter,
    ) -> LogLayer<T> {
        LogLayer { destinations, throttle: Throttle::default(), clock, now, dropped }
    }

    fn queue(&self, record: &LogRecord) {
        let caller: Arc<str> = record.caller.as_str().into();
        let mut lines: Vec<(LineForm, Arc<str>)> = Vec::new();
        for destination in &self.destinations {
            let form = destination.form;
            let known = lines.iter().find(|(known, _)| *known == form).map(|(_, text)| text.clone());
            let text = known.unwrap_or_else(|| {
                let text: Arc<str> = form.line(record).into();
                lines.push((form, text.clone()));
                text
            });
            let line = QueuedLine { level: record.level, caller: caller.clone(), text };
            if !destination.queue.push(line) {
                self.dropped.inc();
            }
        }
    }
}

impl<S: Subscriber, T: FormatTime + 'static> Layer<S> for LogLayer<T> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(suppressed) = self.throttle.admit(MessageKey::of(event), (self.now)()) else {
            return;
        };
        let mut record = LogRecord::of(event, &self.clock);
        if suppressed > 0 {
            record.fields.push(("suppressed".to_owned(), suppressed.into()));
        }
        self.queue(&record);
    }
}
