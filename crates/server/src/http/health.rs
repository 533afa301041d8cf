//! `/health`: whether this member, or with `serializable=true` this process, is fit to serve.

use api::etcdserverpb::AlarmType;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;

use super::answer::{PLAIN, allow, answer, error, values};
use super::endpoints::{Endpoints, Health};

pub(super) fn routes() -> Router<Endpoints> {
    Router::new().route("/health", any(health))
}

async fn health(State(endpoints): State<Endpoints>, method: Method, RawQuery(query): RawQuery) -> Response {
    if let Some(refusal) = allow(&method, &Method::GET) {
        tracing::warn!("status-code" = 405, "/health error");
        return refusal;
    }
    let excluded = values(query.as_deref(), "exclude");
    let serializable = values(query.as_deref(), "serializable").first().is_some_and(|value| value == "true");
    match check(endpoints.health.as_ref(), &excluded, serializable).await {
        Ok(()) => {
            endpoints.metrics.events.health_success.inc();
            answer(StatusCode::OK, PLAIN, r#"{"health":"true","reason":""}"#)
        }
        Err(reason) => {
            endpoints.metrics.events.health_failures.inc();
            tracing::warn!(reason, "status-code" = 503, "/health error");
            let reason = serde_json::Value::from(reason);
            error(StatusCode::SERVICE_UNAVAILABLE, &format!(r#"{{"health":"false","reason":{reason}}}"#))
        }
    }
}

async fn check(health: &dyn Health, excluded: &[String], serializable: bool) -> Result<(), String> {
    let alarm =
        health.alarms().into_iter().find(|alarm| excluded.iter().all(|name| name != alarm.as_str_name()));
    match alarm {
        Some(AlarmType::Nospace) => return Err("ALARM NOSPACE".to_owned()),
        Some(AlarmType::Corrupt) => return Err("ALARM CORRUPT".to_owned()),
        Some(AlarmType::None) => return Err("ALARM UNKNOWN".to_owned()),
        None => {}
    }
    if !serializable && !health.has_leader() {
        return Err("RAFT NO LEADER".to_owned());
    }
    let read = if serializable { health.serializable_read() } else { health.linearizable_read() };
    read.await.map_err(|why| format!("RANGE ERROR:{why}"))
}
