//! Profiles below `/debug/pprof/`, with `--enable-pprof`, as `go tool pprof` reads them, and `/debug/vars`.
//!
//! | path | what |
//! |---|---|
//! | `/debug/pprof/` | an index |
//! | `/debug/pprof/profile?seconds=30` | where CPU time goes, by call stack |
//! | `/debug/pprof/heap` | what takes memory: the accounted bytes of each component, and all else that is resident |
//! | `/debug/pprof/cmdline` | the command line |
//! | `/debug/vars` | command line and memory as JSON |
//!
//! The heap has no call stacks: the allocator (mimalloc) keeps none, and to note one at each allocation would cost
//! every request. Profiles of Go's scheduler (`goroutine`, `block`, …) do not exist here. One CPU profile is taken at a
//! time.

mod cpu;
mod format;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use procfs::WithCurrentSystemInfo as _;
use procfs::process::Process;
use serde_json::{Value, json};

use super::answer::{JSON, answer, error, plain, values};
use super::endpoints::Endpoints;
use format::ProfileBuilder;

/// Length of a CPU profile in seconds unless `seconds` is given; Go's.
const DEFAULT_PROFILE_SECONDS: u64 = 30;

/// Longest CPU profile in seconds: samples of stacks that the tables in memory have no room for fill a temporary file,
/// and another profile has to wait.
const MAX_PROFILE_SECONDS: u64 = 300;

/// What the index lists, and what `go tool pprof` finds.
const INDEX: &str = "<html><head><title>/debug/pprof/</title></head><body>\n<p>/debug/pprof/</p>\n<ul>\n\
                     <li><a href=\"profile?seconds=30\">profile</a>: CPU, for as many seconds</li>\n\
                     <li><a href=\"heap\">heap</a>: accounted memory by component</li>\n\
                     <li><a href=\"cmdline\">cmdline</a>: the command line</li>\n</ul>\n\
                     <p>Read them with <code>go tool pprof</code>.</p>\n</body></html>\n";

/// All routes.
pub(crate) fn profile_routes(endpoints: Endpoints) -> Router {
    Router::new()
        .route("/debug/pprof", get(async || answer(StatusCode::OK, HTML, INDEX)))
        .route("/debug/pprof/", get(async || answer(StatusCode::OK, HTML, INDEX)))
        .route("/debug/pprof/profile", get(profile))
        .route("/debug/pprof/heap", get(heap))
        .route("/debug/pprof/cmdline", get(async || plain(StatusCode::OK, command_line().join("\0"))))
        .route("/debug/pprof/{name}", get(async || error(StatusCode::NOT_FOUND, "Unknown profile")))
        .route("/debug/vars", get(vars))
        .with_state(endpoints)
}

const HTML: &str = "text/html; charset=utf-8";

async fn profile(RawQuery(query): RawQuery) -> Response {
    let seconds = match values(query.as_deref(), "seconds").first().map(|text| text.parse::<u64>()) {
        None => DEFAULT_PROFILE_SECONDS,
        Some(Ok(seconds @ 1..=MAX_PROFILE_SECONDS)) => seconds,
        Some(_) => {
            let text = format!("seconds must be a whole number from 1 to {MAX_PROFILE_SECONDS}");
            return error(StatusCode::BAD_REQUEST, &text);
        }
    };
    match cpu::profile(Duration::from_secs(seconds)).await {
        Ok(bytes) => file("profile", bytes),
        Err(reason) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, &format!("Could not enable CPU profiling: {reason}"))
        }
    }
}

async fn heap(State(endpoints): State<Endpoints>) -> Response {
    let parts = memory(&endpoints);
    let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")], ("space", "bytes"), 1);
    for (name, bytes) in parts {
        let function = builder.function(&name, "");
        let location = builder.location(&[(function, 0)]);
        builder.sample(vec![location], vec![i64::try_from(bytes).unwrap_or(i64::MAX)], None);
    }
    match builder.encode(Duration::ZERO) {
        Ok(bytes) => file("heap", bytes),
        Err(reason) => error(StatusCode::INTERNAL_SERVER_ERROR, &reason.to_string()),
    }
}

async fn vars(State(endpoints): State<Endpoints>) -> Response {
    let memory: serde_json::Map<_, _> =
        memory(&endpoints).into_iter().map(|(name, bytes)| (name, bytes.into())).collect();
    let vars = json!({ "cmdline": command_line(), "memory": memory, "allocator": allocator_statistics() });
    answer(StatusCode::OK, JSON, format!("{vars}\n"))
}

/// The accounted bytes of each component, then what is resident beside them: buffers, threads, the program itself, and
/// what the allocator keeps.
fn memory(endpoints: &Endpoints) -> Vec<(String, u64)> {
    let parts = endpoints.source.gauges().memory;
    let mut parts: Vec<_> = parts.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let accounted: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let resident = Process::myself().and_then(|process| process.stat()).map(|stat| stat.rss_bytes().get());
    parts.push(("not_accounted".to_owned(), resident.unwrap_or_default().saturating_sub(accounted)));
    parts
}

/// What the allocator says of itself; null if it says nothing. Where another one is in use, as in tests, all is zero.
fn allocator_statistics() -> Value {
    let text = mimalloc::MiMalloc::stats_json().ok();
    let parsed = text.and_then(|text| serde_json::from_slice(text.to_bytes()).ok());
    parsed.unwrap_or(Value::Null)
}

fn command_line() -> Vec<String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// A file that browsers save.
fn file(name: &str, bytes: Vec<u8>) -> Response {
    let mut response = answer(StatusCode::OK, "application/octet-stream", Body::from(bytes));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert("content-disposition", value);
    }
    response
}
