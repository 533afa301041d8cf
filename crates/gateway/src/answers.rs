//! What is answered besides messages: errors, the lines of a stream, and HTTP statuses. The forms are grpc-gateway's.

use api::Code;
use serde_json::json;

/// The body of an error: `{"code":5,"message":"..."}`.
pub fn error_body(code: Code, message: &str) -> Vec<u8> {
    json!({ "code": code.number(), "message": message }).to_string().into_bytes()
}

/// The line with which a stream fails: `{"error":{"code":5,"message":"..."}}`.
pub fn error_line(code: Code, message: &str) -> Vec<u8> {
    wrapped(b"{\"error\":", error_body(code, message))
}

/// The line of a stream that holds one message: `{"result":...}` around its JSON.
pub fn result_line(json: Vec<u8>) -> Vec<u8> {
    wrapped(b"{\"result\":", json)
}

fn wrapped(before: &[u8], json: Vec<u8>) -> Vec<u8> {
    [before, &json, b"}\n"].concat()
}

/// The HTTP status of a gRPC code.
pub fn http_status(code: Code) -> u16 {
    match code {
        Code::Canceled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}
