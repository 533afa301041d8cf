//! `docs/compat.md` against the product: what is absent is listed there, and what is listed is absent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use server::config::table::{self, Effect};
use server::config::{Parsed, ServerConfig, parse};
use server::metrics::{GaugeSource, Gauges, Metrics, PeerGauges, constant_families};

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

struct Alone;

impl GaugeSource for Alone {
    fn gauges(&self) -> Gauges {
        Gauges { cluster_version: Some("3.7.0".to_owned()), ..Gauges::default() }
    }
}

/// Name and type of all families of a scrape.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

/// What a scrape shows of a family.
#[derive(Debug, Default, PartialEq)]
struct Shape<'a> {
    kind: &'a str,
    labels: BTreeSet<&'a str>,
    bounds: BTreeSet<u64>,
}

/// The bound of a bucket, in millionths; as text, etcd and Stele write large numbers in different ways.
fn millionths(bound: &str) -> u64 {
    (bound.parse::<f64>().expect("a bound") * 1e6).round() as u64
}

/// The shapes of all families of a scrape.
fn shapes(text: &str) -> BTreeMap<&str, Shape<'_>> {
    let mut shapes: BTreeMap<&str, Shape<'_>> = BTreeMap::new();
    let mut family = "";
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            family = name;
            shapes.entry(name).or_default().kind = kind;
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let shape = shapes.entry(family).or_default();
            for (name, value) in labels.split("\",").filter_map(|label| label.split_once("=\"")) {
                match name.trim_start_matches(',') {
                    "le" => {
                        shape.bounds.insert(millionths(value.split('"').next().unwrap_or(value)));
                    }
                    "quantile" => {}
                    name => {
                        shape.labels.insert(name);
                    }
                }
            }
        }
    }
    shapes
}

/// The family of a line of the contract.
fn expected(line: &'static str) -> (&'static str, Shape<'static>) {
    let fields: Vec<_> = line.split('\t').collect();
    let [name, kind, labels, bounds] = fields[..] else { panic!("{line} has no four columns") };
    let list = |text: &'static str| text.split(',').filter(|item| *item != "-");
    (name, Shape { kind, labels: list(labels).collect(), bounds: list(bounds).map(millionths).collect() })
}

fn contract() -> impl Iterator<Item = (&'static str, Shape<'static>)> {
    METRICS.lines().filter(|line| !line.starts_with('#')).map(expected)
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

/// From the first scrape of a member without peers and clients on, so that dashboards find all names.
#[test]
fn every_family_of_etcd_is_announced_at_the_first_scrape() {
    let metrics = Metrics::new(&defaults().feature_gates, false).expect("metrics");
    let text = metrics.render(&Alone).expect("text");
    let types = types(&text);
    for (name, shape) in contract() {
        assert_eq!(types.get(name), Some(&shape.kind), "{name}");
    }
}

#[test]
fn labels_and_buckets_are_etcds() {
    let metrics = Metrics::new(&defaults().feature_gates, false).expect("metrics");
    metrics.grpc.method("/etcdserverpb.KV/Put").handled(0, Duration::ZERO);
    metrics.events.applies("Put").observe(true, Duration::ZERO);
    metrics.events.round_trips(1).observe(0.0);
    metrics.events.client_request(false, "3.7.3");
    let text = metrics.render(&Everything).expect("text");
    let shapes = shapes(&text);
    for (name, shape) in contract() {
        assert_eq!(shapes.get(name), Some(&shape), "{name}");
    }
}

#[test]
fn every_constant_family_is_listed_and_what_is_listed_is_constant() {
    let (_, metrics) = COMPAT.split_once("\n## Metrics").expect("section");
    let (_, listed_text) = metrics.split_once("\n### Constant").expect("section");
    let mut listed: Vec<_> = listed(&listed_text[..listed_text.find("\n#").expect("next")]).collect();
    let mut constant: Vec<_> = constant_families().collect();
    listed.sort_unstable();
    constant.sort_unstable();
    assert_eq!(listed, constant);
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
