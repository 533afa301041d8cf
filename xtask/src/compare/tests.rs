//! What is read from the generators and from `/proc`, and what is made of it.

use std::time::Duration;

use super::figures::{Cell, Figures, RowName, Run, Sample, SystemName};
use super::machine::Machine;
use super::{generator, measure, page, rows, table};

const BENCHMARK: &str = "
Summary:
  Total:\t2.5 secs.
  Slowest:\t0.04 secs.
  Requests/sec:\t400

Response time histogram:
  0.0012 [1]\t|
  0.0023 [999]\t|****

Latency distribution:
  50% in 0.0015 secs.
  99% in 0.02 secs.
  99.9% in 0.04 secs.

Error distribution:
  [3]\tetcdserver: request timed out
  [2]\tetcdserver: too many requests
";

#[test]
fn a_summary_of_benchmark_is_read() {
    let figures = generator::read_benchmark(BENCHMARK).unwrap();
    assert_eq!((figures.requests, figures.errors), (1000, 5));
    assert_eq!(figures.first_error.as_deref(), Some("etcdserver: request timed out"));
    assert_eq!(figures.per_second, Some(400.0));
    assert_eq!((figures.p50_ms, figures.p99_ms, figures.p999_ms), (Some(1.5), Some(20.0), Some(40.0)));
}

#[test]
fn a_load_that_failed_wholly_has_errors_and_no_figures() {
    let figures = generator::read_benchmark("Error distribution:\n  [7]\tgone\n").unwrap();
    assert_eq!((figures.requests, figures.errors, figures.per_second), (0, 7, None));
    assert!(generator::read_benchmark("panic").is_err());
    let none =
        r#"{"requests":0,"errors":2,"first_error":"gone","seconds":1,"p50_ms":0,"p99_ms":0,"p999_ms":0}"#;
    let figures = generator::read_load(none).unwrap();
    assert_eq!((figures.errors, figures.per_second, figures.p50_ms), (2, None, None));
}

#[test]
fn times_are_read_behind_a_name_of_any_kind() {
    let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20";
    assert_eq!(measure::times(stat, 11), Ok(Duration::from_secs(2)));
    assert_eq!(measure::times(stat, 13), Ok(Duration::from_millis(100)));
    assert!(measure::times("12 (a) S 1", 11).is_err());
}

#[test]
fn medians_and_spreads() {
    assert_eq!(Cell::of(vec![]), None);
    assert_eq!(Cell::of(vec![3.0, 1.0, 2.0]), Some(Cell { median: 2.0, spread: 0.5 }));
    assert_eq!(Cell::of(vec![1.0, 3.0]).unwrap().median, 2.0);
    let shown = [123_456.7, 12.34, 1.234, 0.012].map(table::number);
    assert_eq!(shown, ["123457", "12.3", "1.23", "0.012"]);
}

#[test]
fn rows_have_names_of_their_own_and_shared_ones_stand_together() {
    let rows = rows::all(0.01);
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows.len());
    let groups: Vec<bool> = rows.chunk_by(|a, b| a.shared == b.shared).map(|group| group[0].shared).collect();
    assert_eq!(groups, [false, true]);
    assert!(rows.iter().all(|row| !row.shared || row.keys == 10_000));
}

/// A run of one row on two systems, the first twice as fast.
fn run() -> Run {
    let system = |name| SystemName { name, version: format!("<{name}>") };
    let sample = |system, round, per_second: f64| {
        let latency = Some(1000.0 / per_second);
        let figures = Figures {
            requests: 1,
            per_second: Some(per_second),
            p50_ms: latency,
            p99_ms: latency.map(|value| 2.0 * value),
            ..Figures::default()
        };
        Sample { row: "put".to_owned(), system, round, figures }
    };
    Run {
        machine: Machine::read(),
        members: 3,
        rounds: 1,
        scale: 1.0,
        systems: vec![system("a"), system("b")],
        rows: vec![RowName { name: "put".to_owned(), title: "put & get".to_owned() }],
        samples: vec![sample("a", 1, 200.0), sample("b", 1, 100.0)],
        doubts: vec!["others".to_owned()],
    }
}

#[test]
fn the_table_gives_both_systems_and_their_ratio() {
    let lines = table::lines(&run());
    let column = |index: usize| lines.iter().map(|line| line[index].as_str()).collect::<Vec<_>>();
    assert_eq!(column(0), ["put & get", "", ""]);
    assert_eq!(column(1), ["a", "b", "a/b"]);
    assert_eq!(column(2), ["200 ±0%", "100 ±0%", "2.00"]);
    assert_eq!(column(3), ["5.00 ±0%", "10.0 ±0%", "0.500"]);
    assert_eq!(column(5), ["", "", ""]);
}

#[test]
fn the_page_holds_the_table_the_plots_and_the_doubts() {
    let page = page::render(&run()).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    for part in ["put &amp; get", "&lt;a&gt;", "not valid: others", "<td>200 ±0%</td>", "requests a second"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn ticks_that_went_missing_belong_to_no_other_process() {
    let ms = Duration::from_millis;
    let part = |used, ours, whole| measure::foreign_part(ms(used), ms(ours), 4, ms(whole));
    assert_eq!(part(60, 30, 100), 0.0, "four processes may have lost 80 ms");
    assert_eq!(part(5_080, 4_000, 10_000), 0.1);
    assert_eq!(part(4_000, 5_000, 10_000), 0.0);
    assert_eq!(part(0, 0, 0), 0.0);
}
