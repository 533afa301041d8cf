//! Every line of the contract that is not the gateway's, and what an unfit member answers.

use std::collections::HashMap;
use std::sync::Arc;

use api::etcdserverpb::{AlarmType, Member};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::Service as _;

use super::*;
use crate::auth::Credentials;
use crate::config::{FeatureGates, HttpAccess};
use crate::metrics::{GaugeSource, Gauges, Metrics};

/// A member as the tests want it.
#[derive(Clone)]
struct Fake {
    read: Result<(), String>,
    has_leader: bool,
    is_learner: bool,
    alarms: Vec<AlarmType>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake { read: Ok(()), has_leader: true, is_learner: false, alarms: Vec::new() }
    }
}

impl Health for Fake {
    fn linearizable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        let read = if self.has_leader { self.read.clone() } else { Err("etcdserver: no leader".to_owned()) };
        Box::pin(async move { read })
    }

    fn serializable_read(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.read.clone() })
    }

    fn has_leader(&self) -> bool {
        self.has_leader
    }

    fn is_learner(&self) -> bool {
        self.is_learner
    }

    fn alarms(&self) -> Vec<AlarmType> {
        self.alarms.clone()
    }

    fn members(&self) -> Vec<Member> {
        vec![Member {
            id: 2185233399518806002,
            name: "p0".to_owned(),
            peer_urls: vec!["http://127.0.0.1:13380".to_owned()],
            client_urls: vec!["http://127.0.0.1:CLIENT".to_owned()],
            is_learner: false,
        }]
    }

    fn promote(&self, id: u64, _: Credentials) -> BoxFuture<'_, Result<Vec<Member>, api::Error>> {
        let answer = match id {
            1 => Ok(self.members()),
            2 => Err(api::Error::LearnerNotReady),
            3 => Err(api::Error::MemberNotLearner),
            4 => Err(api::Error::Unhealthy),
            _ => Err(api::Error::MemberNotFound),
        };
        Box::pin(async move { answer })
    }

    fn cluster_id(&self) -> u64 {
        0xec77
    }

    fn lineage(&self) -> u64 {
        0x51
    }

    fn cluster_version(&self) -> Option<String> {
        Some("3.7.0".to_owned())
    }

    fn storage_version(&self) -> Option<String> {
        Some("3.7.0".to_owned())
    }

    fn is_downgrading(&self) -> bool {
        false
    }

    fn hash_kv(&self, revision: i64) -> BoxFuture<'_, Result<HashKvResult, String>> {
        let found = HashKvResult { hash: 7, compact_revision: 0, hash_revision: revision, revision: 9 };
        Box::pin(async move { if revision > 9 { Err("future".to_owned()) } else { Ok(found) } })
    }
}

impl GaugeSource for Fake {
    fn gauges(&self) -> Gauges {
        Gauges { cluster_version: self.cluster_version(), ..Gauges::default() }
    }
}

fn endpoints(fake: Fake) -> Endpoints {
    let gates = FeatureGates::parse("").expect("gates");
    let metrics = Arc::new(Metrics::new(&gates, false).expect("metrics"));
    Endpoints { health: Arc::new(fake.clone()), metrics, source: Arc::new(fake) }
}

fn request(method: &str, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).expect("request")
}

async fn send(mut router: Router, request: Request<Body>) -> (u16, HashMap<String, String>, String) {
    let response = router.call(request).await.expect("infallible");
    let status = response.status().as_u16();
    let text = |value: &axum::http::HeaderValue| value.to_str().expect("text").to_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("body");
    (status, headers, String::from_utf8(body.to_vec()).expect("text"))
}

async fn get(router: Router, path: &str) -> (u16, String) {
    let (status, _, body) = send(router, request("GET", path)).await;
    (status, body)
}

#[tokio::test]
async fn every_line_of_the_contract_holds() {
    let contract = include_str!("../../tests/contract/http-endpoints.txt");
    let mut checked = 0;
    for line in contract.lines().filter(|line| !line.starts_with('#') && !line.contains("CLIENT/v3")) {
        let [method, target, status, content_type, body] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("columns of {line}");
        };
        let (port, path) = target.split_once('/').expect(target);
        let endpoints = endpoints(Fake::default());
        let router = match port {
            "CLIENT" => guard(client_router(endpoints), Arc::default),
            "PEER" => peer_router(endpoints),
            "METRICS" => metrics_router(endpoints),
            _ => panic!("port of {line}"),
        };
        let (got_status, headers, got) = send(router, request(method, &format!("/{path}"))).await;
        assert_eq!(got_status.to_string(), status, "{line}");
        assert_eq!(headers["content-type"], content_type, "{line}");
        let got = got.replace('\n', " ");
        match path {
            "metrics" if status == "200" => {
                assert!(got.contains("# TYPE etcd_cluster_version gauge etcd_cluster_version{"), "{got}")
            }
            "raft/probing" => {
                assert!(got.starts_with("{\"OK\":true,\"Now\":\"20") && got.ends_with("Z\"} "), "{got}")
            }
            _ => assert_eq!(got, body.replace("3.7.1", api::version::ETCD_VERSION), "{line}"),
        }
        checked += 1;
    }
    assert!(checked > 45, "only {checked} lines");
}

#[tokio::test]
async fn an_unfit_member_says_why() {
    let no_space = Fake { alarms: vec![AlarmType::Nospace], ..Fake::default() };
    let corrupt = Fake { alarms: vec![AlarmType::Corrupt], ..Fake::default() };
    let lost = Fake { has_leader: false, ..Fake::default() };
    let stuck = Fake { read: Err("etcdserver: request timed out".to_owned()), ..Fake::default() };
    let learner = Fake { is_learner: true, ..Fake::default() };
    let unhealthy = |reason: &str| (503, format!("{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n"));
    let healthy = || (200, "{\"health\":\"true\",\"reason\":\"\"}".to_owned());
    let cases = [
        (&no_space, "/health", unhealthy("ALARM NOSPACE")),
        (&no_space, "/health?exclude=NOSPACE", healthy()),
        (&no_space, "/health?exclude=CORRUPT&exclude=NOSPACE&serializable=true", healthy()),
        (&corrupt, "/health", unhealthy("ALARM CORRUPT")),
        (&lost, "/health", unhealthy("RAFT NO LEADER")),
        (&lost, "/health?serializable=true", healthy()),
        (&stuck, "/health", unhealthy("RANGE ERROR:etcdserver: request timed out")),
        (&stuck, "/livez", (503, "[-]serializable_read failed: etcdserver: request timed out\n\n".to_owned())),
        (&lost, "/livez", (200, "ok\n".to_owned())),
        (
            &lost,
            "/readyz",
            (
                503,
                "[+]data_corruption ok\n[+]serializable_read ok\n[-]linearizable_read failed: etcdserver: no leader\n\
                 [+]non_learner ok\n\n"
                    .to_owned(),
            ),
        ),
        (&lost, "/readyz?exclude=linearizable_read&exclude=nonsense", (200, "ok\n".to_owned())),
        (&corrupt, "/readyz/data_corruption", (503, "[-]data_corruption failed: alarm activated: CORRUPT\n\n".to_owned())),
        (&learner, "/readyz/non_learner", (503, "[-]non_learner failed: not supported for learner\n\n".to_owned())),
    ];
    for (fake, path, expected) in cases {
        let endpoints = endpoints(fake.clone());
        let metrics = endpoints.metrics.clone();
        assert_eq!(get(client_router(endpoints), path).await, expected, "{path}");
        if path.starts_with("/health") {
            let (passed, failed) =
                (metrics.events.health_success.get(), metrics.events.health_failures.get());
            assert_eq!((passed, failed), if expected.0 == 200 { (1, 0) } else { (0, 1) }, "{path}");
        }
    }
}

#[tokio::test]
async fn refusals_name_the_allowed_method() {
    let (status, headers, _) =
        send(client_router(endpoints(Fake::default())), request("POST", "/health")).await;
    assert_eq!(
        (status, headers["allow"].as_str(), headers["x-content-type-options"].as_str()),
        (405, "GET", "nosniff")
    );
    let (status, headers, _) = send(peer_router(endpoints(Fake::default())), request("GET", "/raft")).await;
    assert_eq!((status, headers["allow"].as_str()), (405, "POST"));
}

#[tokio::test]
async fn etcds_peer_protocol_is_refused_in_its_words() {
    for (method, path) in [("POST", "/raft"), ("POST", "/raft/snapshot"), ("GET", "/raft/stream/message/1")] {
        let (status, headers, body) =
            send(peer_router(endpoints(Fake::default())), request(method, path)).await;
        assert_eq!(
            (status, body.as_str(), headers["x-etcd-cluster-id"].as_str()),
            (412, "incompatible version\n", "ec77")
        );
        assert_eq!(headers["x-stele-lineage"], "51");
    }
    let (status, _, body) = send(peer_router(endpoints(Fake::default())), request("POST", "/leases")).await;
    assert_eq!((status, body.as_str()), (501, "not served over HTTP; use the gRPC API\n"));
}

#[tokio::test]
async fn hashes_are_answered_as_json() {
    let ask_as = |body: &'static str, cluster: &'static str, lineage: Option<&'static str>| async move {
        let mut request = Request::get("/members/hashkv").header("X-Etcd-Cluster-ID", cluster);
        if let Some(lineage) = lineage {
            request = request.header("X-Stele-Lineage", lineage);
        }
        let request = request.body(body.into());
        let (status, _, body) =
            send(peer_router(endpoints(Fake::default())), request.expect("request")).await;
        (status, body)
    };
    let ask = |body, cluster| ask_as(body, cluster, Some("51"));
    let expected = r#"{"header":{"revision":9},"hash":7,"hash_revision":5}"#;
    assert_eq!(ask(r#"{"revision":5}"#, "ec77").await, (200, expected.to_owned()));
    assert_eq!(ask(r#"{"revision":50}"#, "").await, (400, "future\n".to_owned()));
    assert_eq!(ask_as(r#"{"revision":50}"#, "", None).await.0, 400, "people name neither");
    let mismatch = (412, "cluster ID mismatch\n".to_owned());
    assert_eq!(ask(r#"{"revision":5}"#, "beef").await, mismatch);
    for other in [None, Some("52"), Some("x")] {
        assert_eq!(ask_as(r#"{"revision":5}"#, "ec77", other).await, mismatch, "{other:?}: the old cluster");
    }
}

#[tokio::test]
async fn only_listed_hosts_and_origins_are_served() {
    let access = HttpAccess {
        cors: vec!["http://page:80".to_owned()],
        host_whitelist: vec!["db".to_owned(), "::1".to_owned()],
    };
    let ask = |method: &'static str, host: &'static str, origin: &'static str| {
        let router = guard(client_router(endpoints(Fake::default())), {
            let access = Arc::new(access.clone());
            move || access.clone()
        });
        let request =
            Request::builder().method(method).uri("/health").header("Host", host).header("Origin", origin);
        send(router, request.body(Body::empty()).expect("request"))
    };
    let (status, headers, _) = ask("GET", "db:2379", "http://page:80").await;
    assert_eq!((status, headers["access-control-allow-origin"].as_str()), (200, "http://page:80"));
    let (status, headers, _) = ask("GET", "[::1]:2379", "http://other:80").await;
    assert_eq!((status, headers.get("access-control-allow-origin")), (200, None));
    let socket = |origin: &'static str| {
        let access = Arc::new(access.clone());
        let router = guard(client_router(endpoints(Fake::default())), move || access.clone());
        let request = Request::builder().uri("/health").header("Host", "db").header("Upgrade", "websocket");
        send(router, request.header("Origin", origin).body(Body::empty()).expect("request"))
    };
    assert_eq!(socket("http://other:80").await.0, 403, "browsers let any page open a WebSocket");
    assert_eq!(socket("http://page:80").await.0, 200);
    let (status, _, body) = ask("GET", "evil.example:2379", "http://page:80").await;
    assert_eq!(status, 421);
    assert!(body.contains("--host-whitelist \"evil.example\""), "{body}");
    let (status, _, body) = ask("OPTIONS", "db", "http://page:80").await;
    assert_eq!((status, body.as_str()), (200, ""));
    let mut secure = request("GET", "http://evil.example/health");
    secure.extensions_mut().insert(IsSecure(true));
    let router = guard(client_router(endpoints(Fake::default())), move || Arc::new(access.clone()));
    assert_eq!(send(router, secure).await.0, 200, "TLS has proven the name");
}

#[tokio::test]
async fn the_old_name_of_the_gateway_leads_to_it() {
    let gateway = Router::new().route("/v3/kv/range", any(async || "ranged"));
    let router = guard(client_router(endpoints(Fake::default())).merge(gateway), Arc::default);
    assert_eq!(get(router.clone(), "/v3beta/kv/range?x=1").await, (200, "ranged".to_owned()));
    assert_eq!(get(router, "/v3alpha/kv/range").await.0, 404);
}

#[test]
fn queries_are_decoded() {
    let query = Some("exclude=a%20b&&exclude=c+d&verbose&x=%zz&x=%4&x=1;verbose&x=y");
    assert_eq!(answer::values(query, "exclude"), ["a b", "c d"]);
    assert_eq!(answer::values(query, "verbose"), [""]);
    assert_eq!(answer::values(query, "x"), ["y"]);
    assert!(answer::values(None, "x").is_empty());
}

/// The clock of the test is at the end of a profile at once.
#[tokio::test(start_paused = true)]
async fn a_profile_is_short_and_alone() {
    let profile = |seconds: u64| {
        let path = format!("/debug/pprof/profile?seconds={seconds}");
        let mut router = profile_routes(endpoints(Fake::default()));
        async move { router.call(request("GET", &path)).await.expect("infallible").status().as_u16() }
    };
    for refused in [0, 301] {
        assert_eq!(profile(refused).await, 400, "{refused} s");
    }
    let (one, other) = tokio::join!(profile(300), profile(300));
    assert_eq!(one.min(other), 200, "of the longest that is allowed");
    assert_eq!(one.max(other), 500, "beside another one");
    assert_eq!(profile(1).await, 200, "behind it");
}
