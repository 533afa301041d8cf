//! The thread `stele-spans`, which sends spans to the collector over gRPC.
//!
//! Spans wait up to a second for others, so that a call to the collector carries many. A batch that the collector does
//! not take is tried once more over a new connection, then dropped and counted: a collector that is away must cost the
//! member neither memory nor time. What is dropped is logged, once and then each minute.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::otlp::{
    EXPORT, ExportRequest, ExportResponse, ResourceSpans, ScopeSpans, Span, SpanAttribute, SpanResource,
    SpanScope,
};
use super::span_queue::{SpanCounters, ToExport};
use crate::config::TracingSettings;
use crate::grpc_client::DialledServer;
use crate::logging::RepeatedFailures;

/// Spans in one call to the collector; as in OpenTelemetry's libraries.
const MAX_BATCH_SPANS: usize = 512;

/// Time that the first span of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Time for a connection to the collector, and for a call to it.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// What made the spans, for the collector.
const SCOPE: &str = "stele";

/// The thread.
pub(super) struct Exporter {
    pub(super) settings: TracingSettings,
    pub(super) queue: Receiver<ToExport>,
    pub(super) counters: SpanCounters,
    pub(super) failures: RepeatedFailures,
}

impl Exporter {
    /// Starts the thread; it ends when nothing can be exported any more.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(super) fn start(mut self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let mut connection = None;
            while let Ok(first) = self.queue.recv() {
                let (spans, flushed) = self.batch(first);
                if !spans.is_empty() {
                    runtime.block_on(self.send(spans, &mut connection));
                }
                // Who waits for it may have given up.
                if let Some(flushed) = flushed {
                    let _ = flushed.try_send(());
                }
            }
        };
        std::thread::Builder::new().name("stele-spans".to_owned()).spawn(run).map(drop)
    }

    /// Collects a batch.
    fn batch(&self, first: ToExport) -> (Vec<Span>, Option<SyncSender<()>>) {
        let until = Instant::now() + BATCH_DELAY;
        let mut batch = Vec::new();
        let mut next = Ok(first);
        loop {
            match next {
                Ok(ToExport::Spans(mut spans)) => batch.append(&mut spans),
                Ok(ToExport::Flush(flushed)) => return (batch, Some(flushed)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return (batch, None),
            }
            if batch.len() >= MAX_BATCH_SPANS {
                return (batch, None);
            }
            next = self.queue.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }

    async fn send(&mut self, spans: Vec<Span>, connection: &mut Option<DialledServer>) {
        let count = spans.len() as u64;
        let request = request(&self.settings, spans);
        // The collector may have closed a connection that was used before.
        let is_used = connection.is_some();
        let mut sent = export(&self.settings.address, &request, connection).await;
        if sent.is_err() && is_used {
            sent = export(&self.settings.address, &request, connection).await;
        }
        let (lost, why) = match sent {
            Ok((refused, why)) => (refused.min(count), why),
            Err(why) => (count, why),
        };
        self.counters.exported.inc_by(count - lost);
        self.counters.refused.inc_by(lost);
        if lost > 0
            && let Some(times) = self.failures.due(&why, Instant::now())
        {
            let collector = &self.settings.address;
            tracing::warn!(collector, spans = lost, times, error = why, "the collector did not take spans");
        }
    }
}

/// Exports once; returns how many spans were refused, and why. A connection that failed is not used again.
async fn export(
    address: &str,
    request: &ExportRequest,
    connection: &mut Option<DialledServer>,
) -> Result<(u64, String), String> {
    let open = match connection.take() {
        Some(open) => open,
        None => DialledServer::open(address, None, DIAL_TIMEOUT).await?,
    };
    let answer = tokio::time::timeout(EXPORT_TIMEOUT, open.call::<ExportResponse>(EXPORT, request)).await;
    let answer = answer.map_err(|_| "no answer in time".to_owned())??;
    *connection = Some(open);
    let partial = answer.partial_success.unwrap_or_default();
    Ok((u64::try_from(partial.rejected_spans).unwrap_or(0), partial.error_message))
}

fn request(settings: &TracingSettings, spans: Vec<Span>) -> ExportRequest {
    let mut attributes = vec![SpanAttribute::text("service.name", settings.service_name.as_str())];
    if !settings.instance_id.is_empty() {
        attributes.push(SpanAttribute::text("service.instance.id", settings.instance_id.as_str()));
    }
    let scope = SpanScope { name: SCOPE.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource = Some(SpanResource { attributes });
    ExportRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

#[cfg(test)]
mod tests {
    //! What a process says of itself. The thread is tested with a collector by `tests/go/tracing`.
    use super::*;

    #[test]
    fn an_instance_without_a_name_has_none() {
        let settings = |id: &str| TracingSettings {
            address: "localhost:4317".to_owned(),
            service_name: "etcd".to_owned(),
            instance_id: id.to_owned(),
            sampling_per_million: 0,
        };
        let attributes = |id| {
            let resource = request(&settings(id), Vec::new()).resource_spans.swap_remove(0).resource;
            resource.expect("a resource").attributes
        };
        let name = SpanAttribute::text("service.name", "etcd");
        assert_eq!(attributes(""), std::slice::from_ref(&name));
        assert_eq!(attributes("m1"), [name, SpanAttribute::text("service.instance.id", "m1")]);
    }
}
