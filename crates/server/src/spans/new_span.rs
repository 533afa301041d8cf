//! What all spans have in common: their trace, an id, and times of the day.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::otlp::{KIND_INTERNAL, Span};
use super::trace_context::{TraceContext, new_span_id};

/// Flags of a span: it is sampled; it is known whether its parent is of another process; it is.
const SAMPLED: u32 = 1;
const KNOWN_WHETHER_REMOTE: u32 = 0x100;
pub(super) const IS_REMOTE: u32 = 0x200;

/// A new span of a trace, without what is its own.
pub(super) fn span(
    context: &TraceContext,
    parent: Option<u64>,
    clock: &WallClock,
    from: Instant,
    to: Instant,
) -> Span {
    Span {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: new_span_id().to_be_bytes().to_vec(),
        trace_state: context.state.clone(),
        parent_span_id: parent.map(|parent| parent.to_be_bytes().to_vec()).unwrap_or_default(),
        kind: KIND_INTERNAL,
        start_ns: clock.ns(from),
        end_ns: clock.ns(to),
        flags: SAMPLED | KNOWN_WHETHER_REMOTE,
        ..Span::default()
    }
}

/// Both clocks at one time, so that the times of a call become times of the day.
pub(super) struct WallClock {
    pub(super) instant: Instant,
    pub(super) since_1970_ns: u64,
}

impl WallClock {
    pub(super) fn now() -> WallClock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallClock { instant: Instant::now(), since_1970_ns: since.as_nanos() as u64 }
    }

    /// A time before this one, in nanoseconds since 1970.
    pub(super) fn ns(&self, time: Instant) -> u64 {
        self.since_1970_ns.saturating_sub(self.instant.saturating_duration_since(time).as_nanos() as u64)
    }
}
