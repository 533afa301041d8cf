//! What the log says of one request, in the fields of etcd's `request stats`: sizes, and its content without values.
//!
//! A value is replaced by its size: it may be a secret. A content is cut off, because a key may be long.

use std::fmt::{self, Write};

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use prost::Message as _;

use crate::auth::Source;
use crate::grpc::EncodedMessage;

/// Bytes of a content in the log.
const MAX_CONTENT_BYTES: usize = 1_024;

/// Bytes of a response in which the keys are counted: decoding a larger one would take longer than the line is worth,
/// and lines are wanted when a member is slow.
const MAX_COUNTED_BYTES: usize = 16 << 10;

/// What was asked, and what was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestStats {
    /// Operations asked for; -1 for methods that are not described.
    pub(super) request_count: i64,
    /// Bytes of the request, or -1.
    pub(super) request_size: i64,
    /// Keys of the answer, or -1.
    pub(super) response_count: i64,
    /// Bytes of the answer, or -1.
    pub(super) response_size: i64,
    /// The request without values.
    pub(super) content: String,
}

/// A request whose end may be logged.
pub(super) struct ObservedRequest {
    asked: Asked,
    source: Source,
    answer: Option<(usize, i64)>,
}

/// What a request asked for.
enum Asked {
    /// As it was received.
    Body(Bytes),
    /// Its size and description, as [`describe`] returns it.
    Described { bytes: usize, content: Option<(i64, String)> },
}

impl ObservedRequest {
    /// A request as it was received.
    pub(super) fn new(body: Bytes, source: Source) -> ObservedRequest {
        ObservedRequest { asked: Asked::Body(body), source, answer: None }
    }

    /// Where it came from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// It was answered with this message.
    pub(super) fn answered(&mut self, path: &str, answer: &EncodedMessage) {
        self.answer = Some((answer.len(), response_count(path, answer)));
    }

    /// It is answered with so many bytes, which nothing keeps. A client may read them slowly, so only the description
    /// of its request is kept until then.
    pub(super) fn answered_bytes(&mut self, path: &str, bytes: usize) {
        self.answer = Some((bytes, -1));
        if let Asked::Body(body) = &self.asked {
            self.asked = Asked::Described { bytes: body.len(), content: describe(path, body.clone()) };
        }
    }

    /// What the log says of it, as a request of the method `path`.
    pub(super) fn stats(&self, path: &str) -> RequestStats {
        let (response_size, response_count) = match self.answer {
            Some((bytes, count)) => (bytes as i64, count),
            None => (0, 0),
        };
        let (bytes, content) = match &self.asked {
            Asked::Body(body) => (body.len(), describe(path, body.clone())),
            Asked::Described { bytes, content } => (*bytes, content.clone()),
        };
        content.map_or_else(RequestStats::unknown, |(request_count, content)| {
            let request_size = bytes as i64;
            RequestStats { request_count, request_size, response_count, response_size, content }
        })
    }
}

impl RequestStats {
    /// Those of a method whose messages are not described, as in etcd.
    fn unknown() -> RequestStats {
        let content = String::new();
        RequestStats { request_count: -1, request_size: -1, response_count: -1, response_size: -1, content }
    }
}

/// The number of operations in a request, and its content. `None` if its method is not described, or it is malformed.
fn describe(path: &str, body: Bytes) -> Option<(i64, String)> {
    let mut text = ContentText(String::new());
    // It fails when the content is full.
    let (count, _) = match path {
        methods::KV_RANGE => (0, text.range(&pb::RangeRequest::decode(body).ok()?)),
        methods::KV_PUT => (1, text.put(&pb::PutRequest::decode(body).ok()?)),
        methods::KV_DELETE_RANGE => (0, text.delete_range(&pb::DeleteRangeRequest::decode(body).ok()?)),
        methods::KV_TXN => {
            let request = pb::TxnRequest::decode(body).ok()?;
            (request.success.len().max(request.failure.len()) as i64, text.txn(&request))
        }
        _ => return None,
    };
    Some((count, text.0.trim_end().to_owned()))
}

fn response_count(path: &str, answer: &EncodedMessage) -> i64 {
    if answer.len() > MAX_COUNTED_BYTES {
        return -1;
    }
    let bytes = answer.0.concat();
    match path {
        methods::KV_RANGE => pb::RangeResponse::decode(&bytes[..]).map_or(-1, |response| response.count),
        methods::KV_DELETE_RANGE => {
            pb::DeleteRangeResponse::decode(&bytes[..]).map_or(-1, |response| response.deleted)
        }
        _ => 0,
    }
}

/// A content that is being written. Writing fails once it is full.
struct ContentText(String);

impl Write for ContentText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_CONTENT_BYTES.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        self.0.push('…');
        Err(fmt::Error)
    }
}

impl ContentText {
    fn bytes(&mut self, name: &str, bytes: &[u8]) -> fmt::Result {
        if bytes.is_empty() {
            return Ok(());
        }
        // Each byte has at least one character, so what is cut off here would not fit.
        let shown = &bytes[..bytes.len().min(MAX_CONTENT_BYTES)];
        write!(self, "{name}:\"{}\" ", shown.escape_ascii())
    }

    fn number(&mut self, name: &str, number: i64) -> fmt::Result {
        if number == 0 { Ok(()) } else { write!(self, "{name}:{number} ") }
    }

    fn truth(&mut self, name: &str, truth: bool) -> fmt::Result {
        if truth { write!(self, "{name}:true ") } else { Ok(()) }
    }

    fn range(&mut self, request: &pb::RangeRequest) -> fmt::Result {
        self.bytes("key", &request.key)?;
        self.bytes("range_end", &request.range_end)?;
        self.number("limit", request.limit)?;
        self.number("revision", request.revision)?;
        if request.sort_order != 0 {
            write!(self, "sort_order:{} ", request.sort_order().as_str_name())?;
        }
        if request.sort_target != 0 {
            write!(self, "sort_target:{} ", request.sort_target().as_str_name())?;
        }
        self.truth("serializable", request.serializable)?;
        self.truth("keys_only", request.keys_only)?;
        self.truth("count_only", request.count_only)?;
        self.number("min_mod_revision", request.min_mod_revision)?;
        self.number("max_mod_revision", request.max_mod_revision)?;
        self.number("min_create_revision", request.min_create_revision)?;
        self.number("max_create_revision", request.max_create_revision)
    }

    fn put(&mut self, request: &pb::PutRequest) -> fmt::Result {
        self.bytes("key", &request.key)?;
        self.number("value_size", request.value.len() as i64)?;
        self.number("lease", request.lease)?;
        self.truth("prev_kv", request.prev_kv)?;
        self.truth("ignore_value", request.ignore_value)?;
        self.truth("ignore_lease", request.ignore_lease)
    }

    fn delete_range(&mut self, request: &pb::DeleteRangeRequest) -> fmt::Result {
        self.bytes("key", &request.key)?;
        self.bytes("range_end", &request.range_end)?;
        self.truth("prev_kv", request.prev_kv)
    }

    fn txn(&mut self, request: &pb::TxnRequest) -> fmt::Result {
        self.write_str("compare:<")?;
        request.compare.iter().try_for_each(|compare| self.compare(compare))?;
        self.write_str("> success:<")?;
        request.success.iter().try_for_each(|operation| self.operation(operation))?;
        self.write_str("> failure:<")?;
        request.failure.iter().try_for_each(|operation| self.operation(operation))?;
        self.write_str("> ")
    }

    fn compare(&mut self, compare: &pb::Compare) -> fmt::Result {
        use pb::compare::TargetUnion;
        if compare.result != 0 {
            write!(self, "result:{} ", compare.result().as_str_name())?;
        }
        if compare.target != 0 {
            write!(self, "target:{} ", compare.target().as_str_name())?;
        }
        self.bytes("key", &compare.key)?;
        match &compare.target_union {
            Some(TargetUnion::Version(version)) => write!(self, "version:{version} ")?,
            Some(TargetUnion::CreateRevision(revision)) => write!(self, "create_revision:{revision} ")?,
            Some(TargetUnion::ModRevision(revision)) => write!(self, "mod_revision:{revision} ")?,
            Some(TargetUnion::Value(value)) => write!(self, "value_size:{} ", value.len())?,
            Some(TargetUnion::Lease(lease)) => write!(self, "lease:{lease} ")?,
            None => {}
        }
        self.bytes("range_end", &compare.range_end)
    }

    fn operation(&mut self, operation: &pb::RequestOp) -> fmt::Result {
        use pb::request_op::Request;
        match &operation.request {
            Some(Request::RequestRange(request)) => {
                self.write_str("request_range:<")?;
                self.range(request)?;
            }
            Some(Request::RequestPut(request)) => {
                self.write_str("request_put:<")?;
                self.put(request)?;
            }
            Some(Request::RequestDeleteRange(request)) => {
                self.write_str("request_delete_range:<")?;
                self.delete_range(request)?;
            }
            Some(Request::RequestTxn(request)) => {
                self.write_str("request_txn:<")?;
                self.txn(request)?;
            }
            None => return Ok(()),
        }
        self.write_str("> ")
    }
}

#[cfg(test)]
mod tests {
    //! Contents show no value, and stay short.
    use super::*;

    fn content(path: &str, request: &impl prost::Message) -> (i64, String) {
        describe(path, request.encode_to_vec().into()).expect("a method that is described")
    }

    #[test]
    fn a_content_has_sizes_in_place_of_values() {
        let put = pb::PutRequest {
            key: Bytes::from_static(b"a\xff"),
            value: Bytes::from_static(b"secret"),
            lease: 7,
            ..Default::default()
        };
        assert_eq!(content(methods::KV_PUT, &put), (1, r#"key:"a\xff" value_size:6 lease:7"#.to_owned()));
        let compare = pb::Compare {
            result: pb::compare::CompareResult::Greater as i32,
            target: pb::compare::CompareTarget::Value as i32,
            key: Bytes::from_static(b"k"),
            target_union: Some(pb::compare::TargetUnion::Value(Bytes::from_static(b"secret"))),
            ..Default::default()
        };
        let operation = pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) };
        let inner = pb::TxnRequest { success: vec![operation.clone()], ..Default::default() };
        let nested = pb::RequestOp { request: Some(pb::request_op::Request::RequestTxn(inner)) };
        let txn =
            pb::TxnRequest { compare: vec![compare], success: vec![operation, nested], failure: vec![] };
        let (count, text) = content(methods::KV_TXN, &txn);
        assert_eq!(count, 2);
        assert!(
            text.starts_with("compare:<result:GREATER target:VALUE key:\"k\" value_size:6 > success:<"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn a_content_is_cut_off() {
        let range = pb::RangeRequest { key: vec![0; 1 << 20].into(), limit: 5, ..Default::default() };
        let (_, text) = content(methods::KV_RANGE, &range);
        assert!(text.len() <= MAX_CONTENT_BYTES + '…'.len_utf8() && text.ends_with('…'), "{}", text.len());
    }

    #[test]
    fn a_streamed_answer_keeps_the_description_alone() {
        let range = pb::RangeRequest { key: Bytes::from_static(b"k"), ..Default::default() };
        let body = Bytes::from(range.encode_to_vec());
        let size = body.len() as i64;
        let mut request = ObservedRequest::new(body.clone(), Source::default());
        assert!(!body.is_unique());
        request.answered_bytes(methods::KV_RANGE, 7);
        assert!(body.is_unique(), "the body is kept no longer");
        let stats = request.stats(methods::KV_RANGE);
        assert_eq!((stats.request_size, stats.response_size, stats.response_count), (size, 7, -1));
        assert_eq!(stats.content, "key:\"k\"");
    }

    #[test]
    fn keys_of_large_answers_are_not_counted() {
        let count = |bytes: usize| {
            let kvs = vec![api::mvccpb::KeyValue { value: vec![0; bytes].into(), ..Default::default() }];
            let range = pb::RangeResponse { kvs, count: 1, ..Default::default() };
            response_count(methods::KV_RANGE, &EncodedMessage(vec![range.encode_to_vec().into()]))
        };
        assert_eq!((count(10), count(MAX_COUNTED_BYTES)), (1, -1));
    }

    #[test]
    fn other_methods_have_no_numbers() {
        let request = ObservedRequest::new(Bytes::new(), Source::default());
        assert_eq!(request.stats(methods::AUTH_AUTHENTICATE), RequestStats::unknown());
    }
}
