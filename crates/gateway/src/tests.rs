//! The routes are the contract's; JSON becomes messages and messages JSON as etcd has them; a stream is cut where its
//! values end.

use std::collections::BTreeSet;

use api::etcdserverpb::compare::TargetUnion;
use api::etcdserverpb::response_op::Response;
use api::etcdserverpb::watch_request::RequestUnion;
use api::etcdserverpb::{
    AlarmMember, AlarmResponse, Member, MemberListResponse, RangeRequest, RangeResponse, ResponseHeader,
    ResponseOp, TxnRequest, TxnResponse, WatchRequest,
};
use api::mvccpb::KeyValue;
use proptest::prelude::*;
use prost::Message;

use super::*;

const CONTRACT: &str = include_str!("../tests/contract/routes.tsv");

fn message<M: Message + Default>(path: &str, json: &str) -> Result<M, String> {
    let gateway = Gateway::new();
    let encoded =
        gateway.route(path).expect(path).message(json.as_bytes()).map_err(|error| error.to_string())?;
    Ok(M::decode(encoded).expect("a message of the method"))
}

fn json(path: &str, message: &impl Message) -> String {
    let gateway = Gateway::new();
    let json = gateway.route(path).expect(path).json(&message.encode_to_vec()).expect("the method's answer");
    String::from_utf8(json).expect("JSON")
}

#[test]
fn the_routes_are_the_contract() {
    let contract: BTreeSet<_> = CONTRACT.lines().filter(|line| !line.starts_with('#')).collect();
    let gateway = Gateway::new();
    let ours: Vec<_> =
        gateway.routes.iter().map(|(path, route)| format!("POST {path}\t{}", route.method)).collect();
    assert_eq!(ours.iter().map(String::as_str).collect::<BTreeSet<_>>(), contract);
    let streams = |takes: bool, answers: bool| {
        let is = |route: &&Route| route.takes_stream == takes && route.answers_stream == answers;
        gateway.routes.values().filter(is).map(|route| route.method).collect::<BTreeSet<_>>()
    };
    assert_eq!(streams(true, true), [api::methods::LEASE_KEEP_ALIVE, api::methods::WATCH_WATCH].into());
    assert_eq!(
        streams(false, true),
        [api::methods::ELECTION_OBSERVE, api::methods::MAINTENANCE_SNAPSHOT].into()
    );
    assert!(streams(true, false).is_empty());
}

#[test]
fn requests_are_read_leniently() {
    let expected = RangeRequest {
        key: "\u{fb}\u{ff}?".into(),
        limit: 7,
        sort_order: 2,
        keys_only: true,
        ..RangeRequest::default()
    };
    for text in [
        r#"{"key":"w7vDvz8=","limit":"7","sort_order":"DESCEND","keys_only":true}"#,
        r#"{"key":"w7vDvz8","limit":7,"sortOrder":2,"keysOnly":true,"range_end":null}"#,
        r#"{"key":"w7vDvz8=","limit":7.0,"sort_order":"DESCEND","sort_target":"NONE_OF_THEM","keys_only":true,
            "x":{"y":[1]}}"#,
    ] {
        assert_eq!(message("/v3/kv/range", text).as_ref(), Ok(&expected), "{text}");
    }
    let url_safe: RangeRequest = message("/v3/kv/range", r#"{"key":"-_8="}"#).expect("the alphabet of URLs");
    assert_eq!(&url_safe.key[..], [0xfb, 0xff]);
    let watch: WatchRequest = message("/v3/watch", r#"{"create_request":{"key":"YQ=="}}"#).expect("a watch");
    assert!(
        matches!(watch.request_union, Some(RequestUnion::CreateRequest(create)) if &create.key[..] == b"a")
    );
    let compare = r#"{"compare":[{"key":"YQ==","target":"VERSION","result":"GREATER","version":"0"}]}"#;
    let txn: TxnRequest = message("/v3/kv/txn", compare).expect("a transaction");
    assert_eq!(txn.compare[0].target_union, Some(TargetUnion::Version(0)), "a default in a oneof is there");
}

#[test]
fn what_is_no_message_is_refused() {
    for (text, why) in [
        ("bad", "invalid character 'b' looking for beginning of value"),
        ("}", "invalid character '}' looking for beginning of value"),
        ("null", ""),
        ("[]", ""),
        ("{\"key\":", ""),
        (r#"{"key":5}"#, ""),
        (r#"{"key":"!"}"#, ""),
        (r#"{"limit":"x"}"#, ""),
        (r#"{"limit":1.5}"#, ""),
        (r#"{"limit":9223372036854775808}"#, ""),
        (r#"{"keys_only":"true"}"#, ""),
    ] {
        let refusal = message::<RangeRequest>("/v3/kv/range", text).expect_err(text);
        assert!(refusal.contains(why), "{refusal}");
    }
    let both = r#"{"create_request":{},"cancel_request":{}}"#;
    assert!(message::<WatchRequest>("/v3/watch", both).is_err(), "two of one oneof");
    // 42 transactions take 126 braces and brackets.
    let deep =
        |inner: &str| format!("{}{inner}{}", "{\"success\":[{\"request_txn\":".repeat(42), "}]}".repeat(42));
    assert!(message::<TxnRequest>("/v3/kv/txn", &deep("{}")).is_ok());
    let refusal = message::<TxnRequest>("/v3/kv/txn", &deep("{\"success\":[]}")).expect_err("too deep");
    assert!(refusal.contains("recursion limit"), "{refusal}");
}

#[test]
fn answers_are_written_as_etcd_writes_them() {
    let range = RangeResponse {
        header: Some(ResponseHeader { cluster_id: u64::MAX, revision: -1, ..ResponseHeader::default() }),
        kvs: vec![KeyValue { key: "\u{fb}\u{ff}?".into(), lease: 0, version: 2, ..KeyValue::default() }],
        more: false,
        count: 1,
    };
    let expected = concat!(
        r#"{"header":{"cluster_id":"18446744073709551615","revision":"-1"},"#,
        r#""kvs":[{"key":"w7vDvz8=","version":"2"}],"count":"1"}"#
    );
    assert_eq!(json("/v3/kv/range", &range), expected);
    let member =
        Member { id: 5, peer_urls: vec!["http://a".to_owned()], is_learner: true, ..Member::default() };
    let members = MemberListResponse { header: None, members: vec![member] };
    let expected = r#"{"members":[{"ID":"5","peerURLs":["http://a"],"isLearner":true}]}"#;
    assert_eq!(json("/v3/cluster/member/list", &members), expected);
    let alarm = |alarm| AlarmMember { member_id: 1, alarm };
    let alarms = AlarmResponse { header: None, alarms: vec![alarm(1), alarm(77)] };
    let expected = r#"{"alarms":[{"memberID":"1","alarm":"NOSPACE"},{"memberID":"1","alarm":77}]}"#;
    assert_eq!(json("/v3/maintenance/alarm", &alarms), expected);
    assert_eq!(json("/v3/kv/range", &RangeResponse::default()), "{}");
}

#[test]
fn messages_in_messages_are_written_at_any_depth() {
    let mut innermost = TxnResponse { succeeded: true, ..TxnResponse::default() };
    let mut expected = r#"{"succeeded":true}"#.to_owned();
    for level in 0..20 {
        let inner = ResponseOp { response: Some(Response::ResponseTxn(innermost)) };
        let range = RangeResponse { count: level, ..RangeResponse::default() };
        let range = ResponseOp { response: Some(Response::ResponseRange(range)) };
        innermost = TxnResponse {
            header: Some(ResponseHeader::default()),
            succeeded: true,
            responses: vec![inner, range],
        };
        let count = if level == 0 { String::new() } else { format!("\"count\":\"{level}\"") };
        let responses = format!(r#"{{"response_txn":{expected}}},{{"response_range":{{{count}}}}}"#);
        expected = format!(r#"{{"header":{{}},"succeeded":true,"responses":[{responses}]}}"#);
    }
    assert_eq!(json("/v3/kv/txn", &innermost), expected);
    let gateway = Gateway::new();
    let route = gateway.route("/v3/kv/range").expect("a route");
    for broken in [&[0x12, 5, 0][..], &[0x12], &[0x0a, 2, 0xff, 0xff], &[0x07], &[0xff; 11]] {
        assert!(route.json(broken).is_err(), "{broken:?}");
    }
}

#[test]
fn the_values_in_a_message_are_bounded() {
    let of = |keys: usize| format!("{{\"compare\":[{}{{}}]}}", "{\"key\":\",{\"},".repeat(keys)).into_bytes();
    let next = |text: &[u8]| {
        let mut values = JsonValues::default();
        values.push(text);
        values.next_value().map(|value| value.map(|value| value.len()))
    };
    // Two of an object and a list, one of the last object, two of each of the others; those in strings do not count.
    let most = of((MAX_JSON_VALUES - 3) / 2);
    assert_eq!(next(&most), Ok(Some(most.len())));
    assert_eq!(next(&of((MAX_JSON_VALUES - 3) / 2 + 1)), Err(TooManyValues));
    let mut values = JsonValues::default();
    for _ in 0..3 {
        values.push(&most);
        assert!(values.next_value().is_ok_and(|value| value.is_some()), "each message has its own count");
    }
}

#[test]
fn errors_and_lines_have_the_forms_of_grpc_gateway() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("JSON");
    let error = r#"{"code":5,"message":"a \"b\""}"#;
    assert_eq!(text(error_body(api::Code::NotFound, "a \"b\"")), error);
    assert_eq!(text(error_line(api::Code::NotFound, "a \"b\"")), format!("{{\"error\":{error}}}\n"));
    assert_eq!(text(result_line(b"{}".to_vec())), "{\"result\":{}}\n");
}

#[test]
fn values_end_where_they_end() {
    let found = |parts: &[&str]| {
        let mut values = JsonValues::default();
        let mut found = Vec::new();
        for part in parts {
            values.push(part.as_bytes());
            while let Some(value) = values.next_value().expect("few values") {
                found.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
        (found, values.is_empty())
    };
    let two = vec![r#"{"a":"}"}"#.to_owned(), r#"{"b":1}"#.to_owned()];
    assert_eq!(found(&["{\"a\":\"}", "\"}{\"b\"", ":1}"]), (two.clone(), true));
    assert_eq!(found(&[" {\"a\":\"}\"}\r\n\t", "\n", "{\"b\":1} "]), (two, true));
    assert_eq!(found(&[r#"{"a":"\"}"#]), (vec![], false));
    assert_eq!(found(&["bad more"]), (vec!["bad".to_owned(), "more".to_owned()], true));
    assert_eq!(found(&["", " "]), (vec![], true));
}

/// The values of a stream that arrives so many bytes at a time.
fn cut_into_values(stream: &str, bytes: usize) -> Vec<String> {
    let mut values = JsonValues::default();
    let mut found = Vec::new();
    for part in stream.as_bytes().chunks(bytes) {
        values.push(part);
        found.extend(std::iter::from_fn(|| values.next_value().expect("few values")));
    }
    found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

proptest! {
    #[test]
    fn a_stream_is_cut_alike_however_it_arrives(
        values in prop::collection::vec("\\{\"[a-z{}\\[\\]]{0,5}(\\\\\\\\|\\\\\")?\":[0-9]\\}", 0..5),
        space in "[ \n]{0,2}",
        cut in 1_usize..9,
    ) {
        let stream = values.join(&space);
        prop_assert_eq!(cut_into_values(&stream, cut), values);
    }
    #[test]
    fn long_strings_end_at_their_quote(
        strings in prop::collection::vec("([a-z{}]{0,150}(\\\\\\\\|\\\\\"|))+", 1..4),
        before in 0_usize..70,
        cut in 1_usize..400,
    ) {
        let mut stream = " ".repeat(before);
        strings.iter().for_each(|string| stream += &format!("[\"{string}\"]"));
        let whole: Vec<_> = strings.iter().map(|string| format!("[\"{string}\"]")).collect();
        prop_assert_eq!(cut_into_values(&stream, cut), whole);
    }
}
