//! The JSON gateway without I/O: which path calls which method, and JSON to messages and back.
//!
//! It knows no method and no message by name. `api` has a table of paths and the descriptors of all messages, both made
//! from `proto/`; a [`Gateway`] is these two, looked up. Example: a client puts `b` under `a`.
//!
//! ```text
//!   POST /v3/kv/put  {"key":"YQ==","value":"Yg=="}
//!     Gateway::route(path)       the Route of /etcdserverpb.KV/Put: PutRequest in, PutResponse out
//!     JsonValues::next_value()   the bytes of one whole JSON value, however the body was cut
//!     Route::message(json)       0a 01 61 12 01 62: what a gRPC client would have sent
//!   ... the caller has the method served ...
//!     Route::json(message)       {"header":{"cluster_id":"123","revision":"2",...}}
//! ```
//!
//! The mapping is that of protobuf's JSON, as etcd sets up grpc-gateway: fields have the names of the .proto files, and
//! also their camelCase names in requests; fields with their default are left out; `bytes` are base64 (with `-_` for
//! `+/` and without padding in requests too); 64-bit numbers are strings, and numbers in requests too; enums are names,
//! and numbers in requests too. Unknown fields are ignored. The library prost-reflect does it; `tests/go/gateway`
//! compares it with etcd.
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | paths, routes, the mapping of messages |
//! | `json_values.rs` | cutting a stream of bytes into JSON values |
//! | `message_json.rs` | the JSON of encoded messages |
//! | `answers.rs` | the JSON and the HTTP status of errors, the lines of streams |
//!
//! It must not know sockets, HTTP requests, or what a message means. Limits on bytes are its caller's;
//! that of the values in a request is here, because the memory of a message grows with them.

mod answers;
mod json_values;
mod message_json;

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};

pub use answers::{error_body, error_line, http_status, result_line};
pub use json_values::{JsonValues, MAX_JSON_VALUES, TooManyValues};
pub use message_json::TranscodeError;

/// The table of paths.
#[derive(Debug)]
pub struct Gateway {
    routes: BTreeMap<&'static str, Route>,
}

/// A path and its method.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method, such as `/etcdserverpb.KV/Put`.
    pub method: &'static str,
    /// Whether the client may send several messages: one JSON value each, one after the other.
    pub takes_stream: bool,
    /// Whether the answer is a stream of messages.
    pub answers_stream: bool,
    input: MessageDescriptor,
    output: MessageDescriptor,
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway::new()
    }
}

impl Gateway {
    /// The gateway of all paths in `api`.
    pub fn new() -> Gateway {
        // They are part of the build, and a test decodes them.
        let pool = DescriptorPool::decode(api::DESCRIPTORS).expect("the generated descriptors are whole");
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let methods: BTreeMap<String, _> = methods
            .map(|method| (format!("/{}/{}", method.parent_service().full_name(), method.name()), method))
            .collect();
        let route = |(path, name): (&'static str, &'static str)| {
            let method = methods.get(name)?;
            let route = Route {
                method: name,
                takes_stream: method.is_client_streaming(),
                answers_stream: method.is_server_streaming(),
                input: method.input(),
                output: method.output(),
            };
            Some((path, route))
        };
        Gateway { routes: api::routes::ALL.into_iter().filter_map(route).collect() }
    }

    /// What is served at a path, such as `/v3/kv/put`.
    pub fn route(&self, path: &str) -> Option<&Route> {
        self.routes.get(path)
    }
}

impl Route {
    /// The message that one JSON value says, encoded.
    ///
    /// # Errors
    /// When `json` is not an object with the fields of the method's input.
    pub fn message(&self, json: &[u8]) -> Result<Bytes, TranscodeError> {
        if let Some(&first) = json.first()
            && !matches!(first, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
        {
            return Err(TranscodeError::NoValue(char::from(first)));
        }
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let mut json = serde_json::Deserializer::from_slice(json);
        let message = DynamicMessage::deserialize_with_options(self.input.clone(), &mut json, &options)?;
        json.end()?;
        Ok(message.encode_to_vec().into())
    }

    /// The JSON of an encoded answer.
    ///
    /// # Errors
    /// When the bytes are not the method's output.
    pub fn json(&self, message: &[u8]) -> Result<Vec<u8>, TranscodeError> {
        let mut json = Vec::new();
        message_json::write(&self.output, message, &mut json)?;
        Ok(json)
    }
}

#[cfg(test)]
mod tests;
