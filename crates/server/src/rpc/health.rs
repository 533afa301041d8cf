//! gRPC's own health service, for probes. As in etcd it knows one service, the empty name, which is serving whenever
//! clients are accepted; `/health` and `/readyz` say more.

use std::collections::HashMap;
use std::sync::Arc;

use api::Code;
use bytes::Bytes;

use super::call::{Call, decode, decode_in_stream};
use super::streaming_call::{CountedRequests, Responses};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// The status now.
pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
/// The status of every service.
pub(super) const LIST: &str = "/grpc.health.v1.Health/List";
/// The status now, and every change.
pub(super) const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// All methods of the service.
pub(super) const ALL: [&str; 3] = [CHECK, LIST, WATCH];

/// The service that is asked for; empty for the whole server. From grpc/health/v1/health.proto, as all messages here.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthListRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthListResponse {
    #[prost(map = "string, message", tag = "1")]
    statuses: HashMap<String, HealthCheckResponse>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    /// Of an unknown service; in streams only.
    ServiceUnknown = 3,
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

pub(super) async fn check(_: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: HealthCheckRequest = decode(body)?;
    if !request.service.is_empty() {
        return Err(Failure::new(Code::NotFound, "unknown service"));
    }
    Ok(EncodedMessage::message(&response(ServingStatus::Serving)))
}

pub(super) async fn list(_: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<HealthListRequest>(body)?;
    let statuses = HashMap::from([(String::new(), response(ServingStatus::Serving))]);
    Ok(EncodedMessage::message(&HealthListResponse { statuses }))
}

/// Sends the status once: it does not change before the stream ends.
pub(super) async fn watch(
    _: Arc<Node>,
    _: Call,
    mut requests: CountedRequests,
) -> Result<Responses, Failure> {
    let request: HealthCheckRequest = decode_in_stream(requests.only().await?)?;
    let known = request.service.is_empty();
    let status = if known { ServingStatus::Serving } else { ServingStatus::ServiceUnknown };
    Ok(Responses::of(|sink| async move {
        sink.send(EncodedMessage::message(&response(status))).await;
        std::future::pending().await
    }))
}
