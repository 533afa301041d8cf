//! Heads of requests: whether a request is gRPC, and whether it can be served at all. Heads and trailers of answers.
//!
//! The order of the checks, the codes and the texts are grpc-go's.

mod timeout;

use std::time::Duration;

use api::Code;
use http::StatusCode;
use http2::{ErrorCode, Field, RequestHead, UsualAnswer};

use super::failure::Failure;

pub(crate) use timeout::decode as decode_timeout;

const CONTENT: &str = "application/grpc";

/// What a request is.
pub(in crate::grpc) enum RequestKind {
    /// A call, to be answered in this format, within this time if it says so. Its messages may be encoded in a way that
    /// is not served.
    Call(AnswerFormat, Option<Duration>, Option<Failure>),
    /// Not gRPC.
    Plain,
    /// A call that is answered with this at once.
    Refused(AnswerFormat, StatusCode, Failure),
    /// Malformed: the stream is reset.
    Malformed(ErrorCode),
}

/// How a call is answered.
#[derive(Debug, Default)]
pub(in crate::grpc) struct AnswerFormat {
    /// What followed `application/grpc` in the request, which is repeated.
    subtype: Option<Box<str>>,
    /// The messages of the call may be compressed, so ours are.
    pub(in crate::grpc) is_gzip: bool,
}

/// What grpc-go says of a request's head.
pub(in crate::grpc) fn kind(head: &RequestHead) -> RequestKind {
    // Of several types the last that is right counts.
    let subtype = head.all("content-type").filter_map(subtype).last();
    let is_grpc = head.all("content-type").any(|content| content.starts_with(CONTENT.as_bytes()));
    let hosts = head.all("host").count();
    if is_grpc && hosts > 1 {
        let authorities = usize::from(head.pseudo(":authority").is_some());
        let text = format!(
            "num values of :authority: {authorities}, num values of host: {hosts}, both must only have 1 value as per \
             HTTP/2 spec"
        );
        let format = AnswerFormat { subtype: subtype.flatten(), is_gzip: false };
        return RequestKind::Refused(format, StatusCode::BAD_REQUEST, Failure::new(Code::Internal, text));
    }
    if head.get("connection").is_some() {
        return RequestKind::Malformed(ErrorCode::Protocol);
    }
    if !is_grpc {
        return RequestKind::Plain;
    }
    let Some(subtype) = subtype else { return not_grpc(head) };
    let format = AnswerFormat { subtype, is_gzip: false };
    match check_call(head, hosts) {
        Ok(time) => {
            let (is_gzip, refusal) = encoding(head);
            RequestKind::Call(AnswerFormat { is_gzip, ..format }, time, refusal)
        }
        Err((status, failure)) => RequestKind::Refused(format, status, failure),
    }
}

/// Longest part of a type that is repeated in the answer.
const MAX_SUBTYPE_BYTES: usize = 256;

/// Most bytes of a failure's text in the answer: clients' requests are repeated there.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// What follows `application/grpc` in a type, `Some(None)` if that is nothing; `None` if it is another type.
fn subtype(content: &[u8]) -> Option<Option<Box<str>>> {
    match content.strip_prefix(CONTENT.as_bytes())?.split_first() {
        None => Some(None),
        Some((b'+' | b';', [])) => Some(None),
        Some((b'+' | b';', subtype)) if subtype.len() > MAX_SUBTYPE_BYTES => Some(None),
        Some((b'+' | b';', subtype)) => Some(Some(String::from_utf8_lossy(subtype).into())),
        Some(_) => None,
    }
}

/// Whether messages may be gzip; and why they cannot be read, if they are something else.
fn encoding(head: &RequestHead) -> (bool, Option<Failure>) {
    match head.all("grpc-encoding").last().unwrap_or_default() {
        b"" | b"identity" => (false, None),
        b"gzip" => (true, None),
        other => {
            let encoding = String::from_utf8_lossy(other);
            let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
            (false, Some(Failure::new(Code::Unimplemented, text)))
        }
    }
}

/// What a request is where only gRPC is served, if it is not that.
pub(in crate::grpc) fn not_grpc(head: &RequestHead) -> RequestKind {
    let content = String::from_utf8_lossy(head.all("content-type").last().unwrap_or_default());
    let failure =
        Failure::new(Code::InvalidArgument, format!("invalid gRPC request content-type {content:?}"));
    RequestKind::Refused(AnswerFormat::default(), StatusCode::UNSUPPORTED_MEDIA_TYPE, failure)
}

/// The time of the call.
fn check_call(head: &RequestHead, hosts: usize) -> Result<Option<Duration>, (StatusCode, Failure)> {
    let internal = |status, text: String| Err((status, Failure::new(Code::Internal, text)));
    // Of several times the last that is right counts, and the last that is wrong is reported.
    let times = || head.all("grpc-timeout").map(timeout::decode);
    if let Some(why) = times().filter_map(Result::err).last() {
        return internal(StatusCode::BAD_REQUEST, format!("malformed grpc-timeout: {why}"));
    }
    if head.pseudo(":authority").is_none() && hosts == 0 {
        return internal(StatusCode::BAD_REQUEST, "no host or :authority header present".to_owned());
    }
    if head.method() != b"POST" {
        let method = String::from_utf8_lossy(head.method());
        let text = format!("Received a HEADERS frame with :method {method:?} which should be POST");
        return internal(StatusCode::METHOD_NOT_ALLOWED, text);
    }
    let time = times().filter_map(Result::ok).last();
    if time.is_some_and(|time| time.is_zero()) {
        return Err((StatusCode::OK, Failure::new(Code::DeadlineExceeded, "context deadline exceeded")));
    }
    Ok(time)
}

/// A header that every answer has.
const fn usual<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
    Field { name, value, is_usual: true }
}

/// The head and the trailers of a call that succeeds, if its format is the usual one.
pub(in crate::grpc) const USUAL_ANSWER: UsualAnswer = UsualAnswer {
    head: &[once(":status", b"200"), usual("content-type", CONTENT.as_bytes())],
    trailers: &[usual("grpc-status", b"0")],
};

const fn once<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
    Field { name, value, is_usual: false }
}

impl AnswerFormat {
    /// Whether an answer that succeeds is [`USUAL_ANSWER`] around its message.
    pub(in crate::grpc) fn is_usual(&self) -> bool {
        self.subtype.is_none() && !self.is_gzip
    }

    /// The head of an answer that succeeds.
    pub(in crate::grpc) fn with_head<R>(&self, send: impl FnOnce(&[Field<'_>]) -> R) -> R {
        let content = self.content_type();
        let fields = [self.status(b"200"), content.field(), once("grpc-encoding", b"gzip")];
        if self.is_usual() {
            return send(USUAL_ANSWER.head);
        }
        send(&fields[..if self.is_gzip { 3 } else { 2 }])
    }

    /// The head of an answer that is its end.
    pub(in crate::grpc) fn with_end<R>(
        &self,
        status: StatusCode,
        trailers: &Trailers,
        send: impl FnOnce(&[Field<'_>]) -> R,
    ) -> R {
        let content = self.content_type();
        let head = [self.status(status.as_str().as_bytes()), content.field()];
        trailers.with(|trailers| send(&[&head, trailers].concat()))
    }

    fn status<'a>(&self, status: &'a [u8]) -> Field<'a> {
        once(":status", status)
    }

    fn content_type(&self) -> ContentType {
        match &self.subtype {
            None => ContentType::Usual,
            Some(subtype) => ContentType::Other(format!("{CONTENT}+{subtype}")),
        }
    }
}

/// The type of an answer.
enum ContentType {
    Usual,
    Other(String),
}

impl ContentType {
    fn field(&self) -> Field<'_> {
        match self {
            ContentType::Usual => usual("content-type", CONTENT.as_bytes()),
            ContentType::Other(text) => once("content-type", text.as_bytes()),
        }
    }
}

/// After how many milliseconds a client may retry; gRPC libraries that retry keep to it.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// How a call ended, as headers.
pub(in crate::grpc) enum Trailers {
    Success,
    Failure { code: String, message: String, pushback: Option<String> },
}

impl Trailers {
    pub(in crate::grpc) fn of(result: Result<(), &Failure>) -> Trailers {
        match result {
            Ok(()) => Trailers::Success,
            Err(failure) => Trailers::Failure {
                code: failure.code.number().to_string(),
                message: percent_encoded(&failure.message),
                pushback: failure.retry_after.map(|after| after.as_millis().to_string()),
            },
        }
    }

    /// The fields; one if the call succeeded.
    pub(in crate::grpc) fn with<R>(&self, send: impl FnOnce(&[Field<'_>]) -> R) -> R {
        match self {
            Trailers::Success => send(USUAL_ANSWER.trailers),
            Trailers::Failure { code, message, pushback } => {
                let status = once("grpc-status", code.as_bytes());
                let message = once("grpc-message", message.as_bytes());
                match pushback {
                    None => send(&[status, message]),
                    Some(after) => send(&[status, message, once(PUSHBACK, after.as_bytes())]),
                }
            }
        }
    }
}

/// The beginning of a message as headers can hold it: whatever is not printable ASCII, and the percent sign, as `%` and
/// two digits.
pub(in crate::grpc) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len().min(MAX_MESSAGE_BYTES));
    let hex = |digit: u8| char::from(b"0123456789ABCDEF"[usize::from(digit & 15)]);
    for byte in text.bytes().take(MAX_MESSAGE_BYTES) {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.extend(['%', hex(byte >> 4), hex(byte)]),
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}
