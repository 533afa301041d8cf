//! Headers become metadata; bodies become messages within their limits; WebSockets bring tokens.

use api::Code;
use api::etcdserverpb::{PutRequest, WatchRequest};
use axum::http::{HeaderMap, Method, Request, request};
use bytes::Bytes;
use futures_util::stream;
use gateway::Gateway;
use http2::RequestHead;
use prost::Message;

use super::json_requests::{JSON_PER_MESSAGE, JsonRequests};
use super::transcoder::{MAX_INLINE_BYTES, Transcoder};
use super::{metadata, websocket};
use crate::grpc::Failure;

fn head(method: &str, headers: &[(&str, &str)]) -> request::Parts {
    let builder = Request::builder().method(method).uri("/v3/kv/put");
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.body(()).expect("a request").into_parts().0
}

fn headers(headers: &[(&str, &str)]) -> HeaderMap {
    head("POST", headers).headers
}

#[test]
fn a_form_may_mean_another_method() {
    let form = ("content-type", "application/x-www-form-urlencoded");
    let other = ("x-http-method-override", "get");
    assert_eq!(metadata::method(&head("POST", &[form, other])), Method::GET);
    assert_eq!(metadata::method(&head("POST", &[other])), Method::POST);
    assert_eq!(metadata::method(&head("PUT", &[form, other])), Method::PUT);
    assert_eq!(metadata::method(&head("POST", &[form])), Method::POST);
}

#[test]
fn some_headers_are_metadata() {
    let headers = headers(&[
        ("authorization", "secret"),
        ("Grpc-Metadata-HasLeader", "true"),
        ("grpc-metadata-raw-bin", "AAAA"),
        ("user-agent", "curl"),
    ]);
    let expected = [("authorization", &b"secret"[..]), ("hasleader", &b"true"[..])];
    let found = metadata::call_head("/a/b", &headers);
    assert_eq!(found, RequestHead::of_call("/a/b", expected));
    assert_eq!(found.path(), b"/a/b");
}

#[test]
fn a_timeout_is_one_of_grpc() {
    let timeout = |text| metadata::timeout(&headers(&[("grpc-timeout", text)]));
    assert_eq!(timeout("150m").map(|time| time.map(|time| time.as_millis())), Ok(Some(150)));
    assert_eq!(timeout("1x"), Err(Failure::new(Code::InvalidArgument, "invalid grpc-timeout: 1x")));
    assert_eq!(metadata::timeout(&HeaderMap::new()), Ok(None));
}

#[test]
fn a_websocket_brings_its_token_as_protocol_or_cookie() {
    assert_eq!(websocket::token(&headers(&[])), None);
    let protocol = ("sec-websocket-protocol", "Bearer, abc.1");
    assert_eq!(websocket::token(&headers(&[protocol])).as_deref(), Some("Bearer abc.1"));
    let cookie = ("cookie", "a=b; token=def.2");
    assert_eq!(websocket::token(&headers(&[protocol, cookie])).as_deref(), Some("Bearer def.2"));
    assert_eq!(websocket::token(&headers(&[("sec-websocket-protocol", "other")])), None);
    assert!(websocket::is_wanted(&headers(&[
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket")
    ])));
    assert!(!websocket::is_wanted(&headers(&[("upgrade", "websocket")])));
}

fn requests(path: &str, parts: &[&[u8]], max_message_bytes: usize) -> JsonRequests {
    let route = Gateway::new().route(path).expect(path).clone();
    let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    JsonRequests::new(route, Box::pin(stream::iter(parts)), max_message_bytes, Transcoder::at_once(1), None)
}

#[tokio::test]
async fn a_body_is_read_value_by_value() {
    let parts: [&[u8]; 3] = [b"{\"create_request\":{}", b"} {\"cancel_req", b"uest\":{}}nonsense"];
    let mut requests = requests("/v3/watch", &parts, 100);
    for _ in 0..2 {
        let message = requests.next().await.expect("good").expect("another");
        assert!(WatchRequest::decode(message).expect("a request").request_union.is_some());
    }
    let failure = requests.next().await.expect_err("nonsense");

    assert_eq!(failure.code, Code::InvalidArgument);
    assert!(failure.message.starts_with("Failed to decode request: "), "{failure:?}");
}

#[tokio::test]
async fn a_body_may_be_empty_and_must_be_whole() {
    assert_eq!(requests("/v3/kv/put", &[b" ", b"\n"], 100).next().await, Ok(None));
    let failure = Failure::new(Code::InvalidArgument, "unexpected EOF");
    assert_eq!(requests("/v3/kv/put", &[b"{\"key\":"], 100).next().await, Err(failure));
}

#[tokio::test]
async fn a_message_has_the_limit_of_grpc_and_its_json_is_bounded_too() {
    let put = |length: usize| format!("{{\"value\":\"{}\"}}", "A".repeat(length / 3 * 4)).into_bytes();
    let max = 2 * MAX_INLINE_BYTES;
    let fits = requests("/v3/kv/put", &[&put(max - 8)], max).next().await.expect("good").expect("one");
    assert_eq!(PutRequest::decode(fits).expect("a put").value.len(), (max - 8) / 3 * 3);
    let failure = requests("/v3/kv/put", &[&put(max)], max).next().await.expect_err("too large");
    assert!(failure.message.starts_with("grpc: received message larger than max ("), "{failure:?}");
    let endless = vec![b' '; 1 << 10];
    let parts: Vec<&[u8]> = std::iter::once(&b"{"[..]).chain(std::iter::repeat_n(&endless[..], 9)).collect();
    let failure = requests("/v3/kv/put", &parts, 4 << 10).next().await.expect_err("too much");
    let text = format!("received JSON larger than max ({} bytes)", JSON_PER_MESSAGE * (4 << 10));
    assert_eq!(failure, Failure::new(Code::ResourceExhausted, text));
}

#[tokio::test]
async fn the_values_in_a_message_are_bounded_whatever_its_size() {
    let txn = format!("{{\"compare\":[{}{{}}]}}", "{\"key\":\"\"},".repeat(gateway::MAX_JSON_VALUES));
    let failure = requests("/v3/kv/txn", &[txn.as_bytes()], 4 << 20).next().await.expect_err("too many");
    let text = format!("received JSON with more than max values ({})", gateway::MAX_JSON_VALUES);
    assert_eq!(failure, Failure::new(Code::ResourceExhausted, text));
}

#[tokio::test]
async fn a_body_is_read_to_its_end_and_its_end_must_come() {
    let mut whole = requests("/v3/kv/put", &[b"{} more", b" and more"], 100);
    assert_eq!(whole.next().await, Ok(Some(Bytes::new())));
    assert_eq!(whole.finish().await, Ok(()));
    let gone = Failure::new(Code::Canceled, "context canceled");
    let route = Gateway::new().route("/v3/kv/put").expect("a route").clone();
    let body = stream::iter([Ok(Bytes::from_static(b"{}")), Err(gone.clone())]);
    let mut cut = JsonRequests::new(route, Box::pin(body), 100, Transcoder::at_once(1), None);
    assert_eq!(cut.next().await, Ok(Some(Bytes::new())));
    assert_eq!(cut.finish().await, Err(gone));
}

#[tokio::test]
async fn large_values_are_read_a_few_at_a_time_and_count_without_their_caller() {
    let transcoder = Transcoder::at_once(1);
    let large = Bytes::from(vec![b' '; MAX_INLINE_BYTES + 1]);
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let mut first = Box::pin(transcoder.run(large.clone(), move |_| {
        let _ = finished.recv();
        Ok(())
    }));
    assert!(futures_util::poll!(&mut first).is_pending());
    drop(first);
    let mut second = Box::pin(transcoder.run(large, |value| Ok(value.len())));
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(transcoder.run(Bytes::new(), |value| Ok(value.len())).await, Ok(0), "small ones do not wait");
    drop(finish);
    assert_eq!(second.await, Ok(MAX_INLINE_BYTES + 1));
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_refused_body_is_read_within_limits() {
    let read = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let route = Gateway::new().route("/v3/kv/put").expect("a route").clone();
    let max = 1 << 10;
    let count = read.clone();
    let endless = stream::repeat_with(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Bytes::from_static(&[b' '; 1 << 10]))
    });
    let body = JsonRequests::new(route.clone(), Box::pin(endless), max, Transcoder::at_once(1), None);
    body.discard().await;
    assert_eq!(read.load(std::sync::atomic::Ordering::Relaxed), 16 * JSON_PER_MESSAGE, "parts of 1 KiB");
    let began = tokio::time::Instant::now();
    let silent = JsonRequests::new(route, Box::pin(stream::pending()), max, Transcoder::at_once(1), None);
    silent.discard().await;
    assert_eq!(began.elapsed().as_secs(), 5);
}
