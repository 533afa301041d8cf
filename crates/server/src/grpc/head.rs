//! Heads of requests: whether a request is gRPC, and whether it can be served at all. Heads and trailers of answers.
//!
//! The order of the checks, the codes and the texts are grpc-go's.

use std::time::Duration;

use api::Code;
use http::StatusCode;
use http2::{ErrorCode, Field, RequestHead};

use super::failure::Failure;
use super::timeout;

const CONTENT: &str = "application/grpc";

/// What a request is.
pub(super) enum RequestKind {
    /// A call, to be answered in this format, within this time if it says so.
    Call(AnswerFormat, Option<Duration>),
    /// Not gRPC.
    Plain,
    /// A call that is answered with this at once.
    Refused(AnswerFormat, StatusCode, Failure),
    /// Malformed: the stream is reset.
    Malformed(ErrorCode),
}

/// How a call is answered.
#[derive(Debug, Default)]
pub(super) struct AnswerFormat {
    /// What followed `application/grpc` in the request, which is repeated.
    subtype: Option<Box<str>>,
    /// The messages of the call may be compressed, so ours are.
    pub(super) is_gzip: bool,
}

/// What grpc-go says of a request's head.
pub(super) fn kind(head: &RequestHead) -> RequestKind {
    let content = head.get("content-type").unwrap_or_default();
    let is_grpc = content.starts_with(CONTENT.as_bytes());
    let hosts = head.all("host").count();
    if is_grpc && hosts > 1 {
        let authorities = usize::from(head.pseudo(":authority").is_some());
        let text = format!(
            "num values of :authority: {authorities}, num values of host: {hosts}, both must only have 1 value as per \
             HTTP/2 spec"
        );
        return RequestKind::Refused(
            AnswerFormat::default(),
            StatusCode::BAD_REQUEST,
            Failure::new(Code::Internal, text),
        );
    }
    if head.get("connection").is_some() {
        return RequestKind::Malformed(ErrorCode::Protocol);
    }
    if !is_grpc {
        return RequestKind::Plain;
    }
    let subtype = match content.get(CONTENT.len()) {
        None => "".into(),
        Some(b'+' | b';') => String::from_utf8_lossy(&content[CONTENT.len() + 1..]),
        Some(_) => return not_grpc(head),
    };
    let subtype = (!subtype.is_empty()).then(|| subtype.into());
    let format = AnswerFormat { subtype, is_gzip: false };
    match check_call(head, hosts) {
        Ok((is_gzip, time)) => RequestKind::Call(AnswerFormat { is_gzip, ..format }, time),
        Err((status, failure)) => RequestKind::Refused(format, status, failure),
    }
}

/// What a request is where only gRPC is served, if it is not that.
pub(super) fn not_grpc(head: &RequestHead) -> RequestKind {
    let content = String::from_utf8_lossy(head.get("content-type").unwrap_or_default());
    let failure =
        Failure::new(Code::InvalidArgument, format!("invalid gRPC request content-type {content:?}"));
    RequestKind::Refused(AnswerFormat::default(), StatusCode::UNSUPPORTED_MEDIA_TYPE, failure)
}

/// Whether messages may be compressed, and the time of the call.
fn check_call(head: &RequestHead, hosts: usize) -> Result<(bool, Option<Duration>), (StatusCode, Failure)> {
    let internal = |status, text: String| Err((status, Failure::new(Code::Internal, text)));
    let time = match head.get("grpc-timeout").map(timeout::decode).transpose() {
        Ok(time) => time,
        Err(why) => return internal(StatusCode::BAD_REQUEST, format!("malformed grpc-timeout: {why}")),
    };
    if head.pseudo(":authority").is_none() && hosts == 0 {
        return internal(StatusCode::BAD_REQUEST, "no host or :authority header present".to_owned());
    }
    if head.method() != b"POST" {
        let method = String::from_utf8_lossy(head.method());
        let text = format!("Received a HEADERS frame with :method {method:?} which should be POST");
        return internal(StatusCode::METHOD_NOT_ALLOWED, text);
    }
    if time.is_some_and(|time| time.is_zero()) {
        let failure = Failure::new(Code::DeadlineExceeded, "context deadline exceeded");
        return Err((StatusCode::OK, failure));
    }
    match head.get("grpc-encoding").unwrap_or_default() {
        b"" | b"identity" => Ok((false, time)),
        b"gzip" => Ok((true, time)),
        other => {
            let encoding = String::from_utf8_lossy(other);
            let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
            Err((StatusCode::OK, Failure::new(Code::Unimplemented, text)))
        }
    }
}

/// A header that every answer has.
const fn usual<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
    Field { name, value, is_usual: true }
}

const fn once<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
    Field { name, value, is_usual: false }
}

impl AnswerFormat {
    /// The head of an answer that succeeds.
    pub(super) fn with_head<R>(&self, send: impl FnOnce(&[Field<'_>]) -> R) -> R {
        let content = self.content_type();
        let fields = [self.status(b"200"), content.field(), once("grpc-encoding", b"gzip")];
        send(&fields[..if self.is_gzip { 3 } else { 2 }])
    }

    /// The head of an answer that is its end.
    pub(super) fn with_end<R>(
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

/// How a call ended, as headers.
pub(super) enum Trailers {
    Success,
    Failure { code: String, message: String },
}

impl Trailers {
    pub(super) fn of(result: Result<(), &Failure>) -> Trailers {
        match result {
            Ok(()) => Trailers::Success,
            Err(failure) => Trailers::Failure {
                code: failure.code.number().to_string(),
                message: percent_encoded(&failure.message),
            },
        }
    }

    /// The fields; one if the call succeeded.
    pub(super) fn with<R>(&self, send: impl FnOnce(&[Field<'_>]) -> R) -> R {
        match self {
            Trailers::Success => send(&[usual("grpc-status", b"0")]),
            Trailers::Failure { code, message } => {
                send(&[once("grpc-status", code.as_bytes()), once("grpc-message", message.as_bytes())])
            }
        }
    }
}

/// A message as headers can hold it: whatever is not printable ASCII, and the percent sign, as `%` and two digits.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | ..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            _ => encoded.push(char::from(byte)),
        }
    }
    encoded
}
