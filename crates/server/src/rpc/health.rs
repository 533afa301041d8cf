//! gRPC's own health service, which probes ask. As with etcd it knows one service, the empty name, and that one serves
//! for as long as anybody is let in; `/health` and `/readyz` say more.

use std::collections::HashMap;
use std::sync::Arc;

use api::Code;
use bytes::Bytes;

use super::stream::{Requests, Responses};
use super::{Call, Encoded, Failure, decode};
use crate::node::Node;

/// Asks once.
pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";
/// Asks for every service there is.
pub(super) const LIST: &str = "/grpc.health.v1.Health/List";
/// Asks for now and for every change.
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
    /// Of a service that nobody knows; in streams only.
    ServiceUnknown = 3,
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

pub(super) async fn check(_: &Node, body: Bytes) -> Result<Encoded, Failure> {
    let request: HealthCheckRequest = decode(body)?;
    if !request.service.is_empty() {
        return Err(Failure::new(Code::NotFound, "unknown service"));
    }
    Ok(Encoded::message(&response(ServingStatus::Serving)))
}

pub(super) async fn list(_: &Node, body: Bytes) -> Result<Encoded, Failure> {
    decode::<HealthListRequest>(body)?;
    let statuses = HashMap::from([(String::new(), response(ServingStatus::Serving))]);
    Ok(Encoded::message(&HealthListResponse { statuses }))
}

/// Says what is, and then nothing more: it does not change before the stream ends.
pub(super) async fn watch(_: Arc<Node>, _: Call, mut requests: Requests) -> Result<Responses, Failure> {
    let request: HealthCheckRequest = decode(requests.next().await?.unwrap_or_default())?;
    let known = request.service.is_empty();
    let status = if known { ServingStatus::Serving } else { ServingStatus::ServiceUnknown };
    Ok(Responses::of(|sink| async move {
        sink.send(Encoded::message(&response(status))).await;
        std::future::pending().await
    }))
}
