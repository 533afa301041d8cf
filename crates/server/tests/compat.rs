//! `docs/compat.md` against the product: what is absent is listed there, and what is listed is absent.

use std::collections::BTreeMap;

use server::config::table::{self, Effect};
use server::config::{Parsed, ServerConfig, parse};
use server::metrics::{GaugeSource, Gauges, Metrics, PeerGauges};

const COMPAT: &str = include_str!("../../../docs/compat.md");
const METRICS: &str = include_str!("contract/metrics.tsv");

struct Everything;

impl GaugeSource for Everything {
    fn gauges(&self) -> Gauges {
        Gauges {
            cluster_version: Some("3.7.0".to_owned()),
            peers: vec![PeerGauges::default()],
            ..Gauges::default()
        }
    }
}

fn defaults() -> ServerConfig {
    match parse(["stele".into()].into_iter(), std::iter::empty()) {
        Ok(Parsed::Run(config)) => *config,
        other => panic!("{other:?}"),
    }
}

/// Name and type of every metric, once everything was observed.
fn served() -> BTreeMap<String, String> {
    let metrics = Metrics::new(&defaults().feature_gates, false).expect("metrics");
    let events = &metrics.events;
    metrics.grpc.method("/etcdserverpb.KV/Put").handled(0, 0.0);
    let _observed = [events.applies("Put"), events.requests("Put"), events.range_durations()];
    events.round_trips(1).observe(0.0);
    events.client_request(false, "3.7.3");
    events.health_check("livez", "serializable_read", true);
    let text = metrics.render(&Everything).expect("text");
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// The text below a heading, up to the next.
fn section(heading: &str) -> &'static str {
    let (_, after) = COMPAT.split_once(heading).expect(heading);
    after.find("\n#").map_or(after, |end| &after[..end])
}

/// What stands between backticks in the first column of a table.
fn listed(text: &'static str) -> impl Iterator<Item = &'static str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[test]
fn every_metric_is_served_as_etcd_does_or_listed_as_absent() {
    let (_, metrics) = COMPAT.split_once("\n## Metrics").expect("section");
    let (_, absent) = metrics.split_once("\n### Absent").expect("section");
    let absent: Vec<_> = listed(&absent[..absent.find("\n#").expect("next")]).collect();
    let served = served();
    for line in METRICS.lines().filter(|line| !line.starts_with('#')) {
        let (name, kind) = line.split_once('\t').expect("two columns");
        let is_listed = absent.iter().any(|pattern| matches(pattern, name));
        match served.get(name) {
            Some(ours) => {
                assert!(!is_listed && ours == kind, "{name} is served as {ours}, listed: {is_listed}")
            }
            None => assert!(is_listed, "{name} is neither served nor listed as absent"),
        }
    }
}

#[test]
fn every_flag_without_its_effect_is_listed() {
    let ignored: Vec<_> = listed(section("### Accepted without effect")).collect();
    let refused: Vec<_> =
        listed(section("### Refused until they come")).filter(|flag| flag.starts_with("--")).collect();
    for flag in table::flags() {
        let name = format!("--{}", flag.name);
        assert_eq!(ignored.contains(&name.as_str()), matches!(flag.effect, Effect::None(_)), "{name}");
        assert_eq!(refused.contains(&name.as_str()), matches!(flag.effect, Effect::Refused(_)), "{name}");
    }
    let exists = |flag: &&str| table::flag(flag.trim_start_matches("--")).is_some();
    assert!(ignored.iter().chain(&refused).all(exists), "a flag is listed that does not exist");
}
