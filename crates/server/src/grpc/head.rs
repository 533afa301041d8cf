//! Heads of requests: whether a request is gRPC, and whether it can be served at all. Heads and trailers of answers.

use api::Code;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, request};

use super::failure::Failure;

const CONTENT: &str = "application/grpc";
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Whether a request says it is gRPC, or something built on it.
pub(super) fn is_grpc(head: &request::Parts) -> bool {
    content_type(head).starts_with(CONTENT.as_bytes())
}

fn content_type(head: &request::Parts) -> &[u8] {
    head.headers.get(CONTENT_TYPE).map_or(b"", HeaderValue::as_bytes)
}

/// Checks what must be right before the first message. Codes and texts are those of grpc-go.
///
/// # Errors
/// The HTTP status and the failure to answer with.
pub(super) fn check(head: &request::Parts) -> Result<(), (StatusCode, Failure)> {
    let content = content_type(head);
    if !matches!(content.get(CONTENT.len()), None | Some(b'+' | b';')) {
        let text = format!("invalid gRPC request content-type {:?}", String::from_utf8_lossy(content));
        let failure = Failure::new(Code::InvalidArgument, text);
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, failure));
    }
    if head.method != Method::POST {
        let text =
            format!("Received a HEADERS frame with :method {:?} which should be POST", head.method.as_str());
        return Err((StatusCode::METHOD_NOT_ALLOWED, Failure::new(Code::Internal, text)));
    }
    match head.headers.get(ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
            Err((StatusCode::OK, Failure::new(Code::Unimplemented, text)))
        }
        _ => Ok(()),
    }
}

/// The head of an answer.
pub(super) fn answer(status: StatusCode) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    response
}

/// Writes how a call ended.
pub(super) fn end(into: &mut HeaderMap, result: Result<(), &Failure>) {
    let Err(failure) = result else {
        into.insert(STATUS, HeaderValue::from_static("0"));
        return;
    };
    into.insert(STATUS, HeaderValue::from(failure.code.number()));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&failure.message)) {
        into.insert(MESSAGE, message);
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
