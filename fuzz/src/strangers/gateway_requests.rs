//! A request of the JSON gateway for any of its methods, and any answer of that method.
//!
//! - The messages that a body says do not depend on how it is cut.
//! - A message that was read is written as JSON by the library alone, and read again: it is the same.
//! - The JSON of an answer is what the library makes of the whole message, although it is written part by part; bytes
//!   that are no message are an error.
//!
//! The first two bytes name the path and say how the body is cut; a byte string is the body, and what is left is the
//! answer.

use std::sync::OnceLock;

use api::etcdserverpb::response_op;
use api::{etcdserverpb as pb, mvccpb};
use gateway::{Gateway, JsonValues, Route, error_line, result_line};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

use crate::input::script::{Script, put_bytes};

/// What is needed of a path: its route, and the messages of its method.
struct Path {
    route: Route,
    input: MessageDescriptor,
    output: MessageDescriptor,
}

/// Takes the script.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    static PATHS: OnceLock<Vec<Path>> = OnceLock::new();
    let paths = PATHS.get_or_init(paths);
    let mut script = Script::new(data);
    let (Some(path), Some(cut), Some(body)) = (script.byte(), script.byte(), script.bytes()) else { return };
    let path = &paths[usize::from(path) % paths.len()];
    let messages = messages(path, body, body.len().max(1));
    assert_eq!(messages, self::messages(path, body, usize::from(cut).max(1)), "cutting does not matter");
    messages.iter().for_each(|message| read_again(path, message));
    answer(path, script.bytes().unwrap_or_default());
}

/// The paths in the order of their names.
fn paths() -> Vec<Path> {
    let (gateway, pool) = (Gateway::new(), DescriptorPool::decode(api::DESCRIPTORS).expect("they are whole"));
    let path = |(path, method): (&str, &str)| {
        let route = gateway.route(path).expect("all are served").clone();
        let (service, name) = method.trim_start_matches('/').split_once('/').expect("a method");
        let service = pool.get_service_by_name(service).expect("it is described");
        let method = service.methods().find(|method| method.name() == name).expect("it is described");
        Path { route, input: method.input(), output: method.output() }
    };
    let mut all = api::routes::ALL.to_vec();
    all.sort_unstable();
    all.into_iter().map(path).collect()
}

/// The number of a path.
fn number(path: &str) -> u8 {
    let mut all = api::routes::ALL.to_vec();
    all.sort_unstable();
    all.iter().position(|(known, _)| *known == path).expect("a path") as u8
}

/// The messages of a body that arrives in parts of this size, up to the first value that says none.
fn messages(path: &Path, body: &[u8], cut: usize) -> Vec<Vec<u8>> {
    let (mut values, mut messages) = (JsonValues::default(), Vec::new());
    for part in body.chunks(cut) {
        values.push(part);
        loop {
            let Ok(value) = values.next_value() else { return messages };
            let Some(json) = value else { break };
            match path.route.message(&json) {
                Ok(message) => messages.push(message.to_vec()),
                Err(error) => {
                    let line = error_line(api::Code::InvalidArgument, &error.to_string());
                    serde_json::from_slice::<Value>(&line).expect("why it is none is JSON");
                    return messages;
                }
            }
        }
    }
    messages
}

/// Writes a message as JSON and reads it again.
fn read_again(path: &Path, message: &[u8]) {
    let dynamic = DynamicMessage::decode(path.input.clone(), message).expect("what was encoded is a message");
    let json = json(&dynamic);
    let again = path.route.message(&json).expect("what the library writes is read");
    let again = DynamicMessage::decode(path.input.clone(), again).expect("a message");
    assert_eq!(again, dynamic, "{}", String::from_utf8_lossy(&json));
}

/// Writes an answer, as it came and as the server would encode it.
fn answer(path: &Path, bytes: &[u8]) {
    if let Ok(json) = path.route.json(bytes) {
        serde_json::from_slice::<Value>(&json).expect("JSON");
    }
    let Ok(whole) = DynamicMessage::decode(path.output.clone(), bytes) else { return };
    let line = result_line(path.route.json(&whole.encode_to_vec()).expect("a message"));
    let parts: Value = serde_json::from_slice(&line).expect("JSON");
    let whole: Value = serde_json::from_slice(&json(&whole)).expect("JSON");
    assert_eq!(parts["result"], whole);
}

/// The library's JSON, as the gateway's options are.
fn json(message: &DynamicMessage) -> Vec<u8> {
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(true);
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut json);
    message.serialize_with_options(&mut serializer, &options).expect("every message has a JSON");
    json
}

/// The seed corpus: bodies that are one message, several, and none; answers with messages in messages.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    let mut seed = |name: &'static str, path: &str, cut: u8, body: &str, answer: Vec<u8>| {
        let mut script = vec![number(path), cut];
        put_bytes(&mut script, body.as_bytes());
        put_bytes(&mut script, &answer);
        seeds.push((name, script));
    };
    let header = Some(pb::ResponseHeader { cluster_id: u64::MAX, revision: 7, ..Default::default() });
    let kv =
        mvccpb::KeyValue { key: "a".into(), value: vec![0, 255].into(), version: 3, ..Default::default() };
    let range = pb::RangeResponse { header, kvs: vec![kv.clone(), kv.clone()], more: true, count: 9 };
    let body =
        r#"{"key":"YQ==","rangeEnd":"_w","limit":"5","sort_order":"DESCEND","keys_only":true,"x":[1]}"#;
    seed("range", "/v3/kv/range", 3, body, range.encode_to_vec());
    let put = r#"{"key":"YQ==","value":"AP8=","lease":"-9223372036854775808","prev_kv":true}"#;
    let answer = pb::PutResponse { header, prev_kv: Some(kv.clone()) };
    seed("put", "/v3/kv/put", 1, put, answer.encode_to_vec());
    let compare = r#"{"key":"YQ==","target":"VERSION","result":"GREATER","version":"0"}"#;
    let inner = r#"{"request_txn":{"failure":[{"request_delete_range":{"key":"YQ==","range_end":"AA=="}}]}}"#;
    let txn = format!(r#"{{"compare":[{compare}],"success":[{{"request_put":{put}}},{inner}]}}"#);
    let range = response_op::Response::ResponseRange(range);
    let inner = pb::TxnResponse { header, succeeded: true, responses: vec![] };
    let inner = response_op::Response::ResponseTxn(inner);
    let responses = [range, inner].map(|response| pb::ResponseOp { response: Some(response) }).to_vec();
    let answer = pb::TxnResponse { header, succeeded: false, responses };
    seed("txn", "/v3/kv/txn", 7, &txn, answer.encode_to_vec());
    let watch = r#" {"create_request":{"key":"YQ==","filters":["NOPUT",1],"start_revision":2}}{"progress_request":{}}
        {"cancel_request":{"watch_id":"1"}} null"#;
    let event = mvccpb::Event { r#type: 1, kv: Some(kv), prev_kv: None };
    let answer = pb::WatchResponse { header, events: vec![event], canceled: true, ..Default::default() };
    seed("watch", "/v3/watch", 5, watch, answer.encode_to_vec());
    let member =
        pb::Member { id: 5, peer_urls: vec!["http://a".into()], is_learner: true, ..Default::default() };
    let answer = pb::MemberAddResponse { header, member: Some(member.clone()), members: vec![member] };
    let add = r#"{"peerURLs":["http://a",""],"isLearner":true}"#;
    seed("member", "/v3/cluster/member/add", 2, add, answer.encode_to_vec());
    let answer = pb::AlarmResponse { header, alarms: vec![pb::AlarmMember { member_id: 1, alarm: 77 }] };
    let alarm = r#"{"action":"ACTIVATE","memberID":"18446744073709551615","alarm":2}"#;
    seed("alarm", "/v3/maintenance/alarm", 255, alarm, answer.encode_to_vec());
    let grant = r#"{"name":"r","perm":{"permType":"READWRITE","key":"YQ==","range_end":"Yg=="}}"#;
    seed("grant", "/v3/auth/role/grant", 4, grant, b"\x0a\x02\x18\x07\x12\x05\0".to_vec());
    seed("none", "/v3/lease/keepalive", 1, "[]5 bad {\"ID\":", vec![0xff; 11]);
    seeds
}
