//! The messages of OTLP, the protocol of OpenTelemetry, as far as spans need them: `opentelemetry/proto/trace/v1` and
//! what it uses, with the fields that are sent. The numbers are that protocol's, and never change.
//!
//! They are written here and not generated: the protocol's files name a service, and what `proto/` names is served
//! (RFC 0034).

/// The method that takes spans.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Kinds of spans: work within a process, and the serving side of a call.
pub(super) const KIND_INTERNAL: i32 = 1;
pub(super) const KIND_SERVER: i32 = 2;

/// The status of a span whose work failed; none is sent for others.
pub(super) const STATUS_ERROR: i32 = 2;

/// Spans of a process.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

/// What a collector says to them.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

/// Some spans were not taken.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

/// A process and its spans.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<SpanResource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

/// A process.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanResource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<SpanAttribute>,
}

/// Spans that one part of a program made.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<SpanScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

/// A part of a program.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanScope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// A piece of work: what it was, of which trace it is a part, and when it was done. Times are nanoseconds since 1970.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start_ns: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end_ns: u64,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<SpanAttribute>,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<SpanEvent>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<SpanStatus>,
    #[prost(fixed32, tag = "16")]
    pub(super) flags: u32,
}

/// Something that happened within a span.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanEvent {
    #[prost(fixed64, tag = "1")]
    pub(super) time_ns: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

/// How the work ended.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanStatus {
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

/// A name and what it is for this span.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanAttribute {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AttributeValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AttributeValue {
    #[prost(oneof = "AnyValue", tags = "1, 2, 3")]
    pub(super) value: Option<AnyValue>,
}

/// What a value can be.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum AnyValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
}

impl SpanAttribute {
    fn new(key: &str, value: AnyValue) -> SpanAttribute {
        SpanAttribute { key: key.to_owned(), value: Some(AttributeValue { value: Some(value) }) }
    }

    /// A text.
    pub(super) fn text(key: &str, text: impl Into<String>) -> SpanAttribute {
        SpanAttribute::new(key, AnyValue::Text(text.into()))
    }

    /// A number.
    pub(super) fn number(key: &str, number: i64) -> SpanAttribute {
        SpanAttribute::new(key, AnyValue::Number(number))
    }

    /// A truth.
    pub(super) fn truth(key: &str, truth: bool) -> SpanAttribute {
        SpanAttribute::new(key, AnyValue::Truth(truth))
    }
}
