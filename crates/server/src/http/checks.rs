//! `/livez` and `/readyz`: named checks, all at once or each by its path.

use api::etcdserverpb::AlarmType;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::any;

use super::answer::{allow, error, plain, values};
use super::endpoints::{Endpoints, Health};

#[derive(Clone, Copy)]
enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

/// A path and its checks, in the order of their report.
#[derive(Clone, Copy)]
struct Probe {
    name: &'static str,
    checks: &'static [Check],
}

const PROBES: [Probe; 2] = [
    Probe { name: "livez", checks: &[Check::SerializableRead] },
    Probe {
        name: "readyz",
        checks: &[Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead, Check::NonLearner],
    },
];

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    async fn run(self, health: &dyn Health) -> Result<(), String> {
        match self {
            Check::DataCorruption if health.alarms().contains(&AlarmType::Corrupt) => {
                Err("alarm activated: CORRUPT".to_owned())
            }
            Check::NonLearner if health.is_learner() => Err("not supported for learner".to_owned()),
            Check::DataCorruption | Check::NonLearner => Ok(()),
            Check::SerializableRead => health.serializable_read().await,
            Check::LinearizableRead => health.linearizable_read().await,
        }
    }
}

pub(super) fn routes() -> Router<Endpoints> {
    let mut router = Router::new();
    for probe in PROBES {
        let all = move |state: State<Endpoints>, method: Method, RawQuery(query): RawQuery| async move {
            let excluded = values(query.as_deref(), "exclude");
            let checks = probe
                .checks
                .iter()
                .copied()
                .filter(|check| !excluded.iter().any(|name| name == check.name()));
            run(probe, checks.collect(), state, &method, query.as_deref()).await
        };
        router = router.route(&format!("/{}", probe.name), any(all));
        for &check in probe.checks {
            let one = move |state: State<Endpoints>, method: Method, RawQuery(query): RawQuery| async move {
                run(probe, vec![check], state, &method, query.as_deref()).await
            };
            router = router.route(&format!("/{}/{}", probe.name, check.name()), any(one));
        }
    }
    router
}

async fn run(
    probe: Probe,
    checks: Vec<Check>,
    State(endpoints): State<Endpoints>,
    method: &Method,
    query: Option<&str>,
) -> Response {
    if let Some(refusal) = allow(method, &Method::GET) {
        return refusal;
    }
    let mut report = String::new();
    let mut healthy = true;
    for check in checks {
        let result = check.run(endpoints.health.as_ref()).await;
        endpoints.metrics.events.health_check(probe.name, check.name(), result.is_ok());
        match result {
            Ok(()) => report.push_str(&format!("[+]{} ok\n", check.name())),
            Err(why) => {
                healthy = false;
                report.push_str(&format!("[-]{} failed: {why}\n", check.name()));
            }
        }
    }
    if !healthy {
        // A member that starts, joins or is a learner fails such checks in normal operation: no line of level error.
        tracing::warn!(path = probe.name, reason = report, "status-code" = 503, "Health check error");
        return error(StatusCode::SERVICE_UNAVAILABLE, &report);
    }
    let verbose = !values(query, "verbose").is_empty();
    plain(StatusCode::OK, if verbose { report + "ok\n" } else { "ok\n".to_owned() })
}
