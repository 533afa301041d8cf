//! `top`: all members on one screen, again and again.
//!
//! Figures are differences between two readings of a member's metrics. Latencies are estimated from the buckets of its
//! histograms: the bound below which the wanted share of the requests lies.

use std::collections::BTreeMap;

use api::etcdserverpb as pb;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cluster::{Asked, ask, members};
use crate::client::metrics::Metrics;
use crate::exit::Outcome;
use crate::shell::Shell;
use cli::text::human;

/// Time of requests inside a member, by kind.
const REQUESTS: &str = "etcd_server_request_duration_seconds";

/// Time of syncs to disk.
const SYNCS: &str = "etcd_disk_wal_fsync_duration_seconds";

/// Columns assumed where standard output is no terminal.
const DEFAULT_COLUMNS: usize = 200;

/// One reading of a member.
struct Reading {
    asked: Asked,
    metrics: Metrics,
    at: Instant,
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    let (options, _, members) = members(shell).await?;
    let interval = shell.values.duration("interval").max(std::time::Duration::from_millis(100));
    let times = shell.values.uint("times");
    let mut before = read(&options, &members).await;
    let mut shown = 0;
    loop {
        tokio::time::sleep(interval).await;
        let now = read(&options, &members).await;
        let columns = shell.streams.out_columns.unwrap_or(DEFAULT_COLUMNS);
        let page = page(&before, &now, columns);
        match shell.streams.out_columns {
            // The cursor goes to the corner, and what is below the page is cleared.
            Some(_) => shell.print(format!("\x1b[H{}\x1b[J", page.replace('\n', "\x1b[K\n")).as_bytes())?,
            None => shell.say(&page)?,
        }
        before = now;
        shown += 1;
        if shown == times {
            return Ok(());
        }
    }
}

async fn read(options: &crate::client::ClientOptions, members: &[pb::Member]) -> Vec<Reading> {
    let mut readings = JoinSet::new();
    for (at, asked) in ask(options, members).await.into_iter().enumerate() {
        let options = options.clone();
        let options = options.clone();
        readings.spawn(async move {
            let metrics = match &asked.endpoint {
                Some(endpoint) if asked.status.is_ok() => {
                    Metrics::fetch(endpoint, &options).await.unwrap_or_default()
                }
                _ => Metrics::default(),
            };
            (at, Reading { asked, metrics, at: Instant::now() })
        });
    }
    let mut readings = readings.join_all().await;
    readings.sort_by_key(|(at, _)| *at);
    readings.into_iter().map(|(_, reading)| reading).collect()
}

/// The screen.
fn page(before: &[Reading], now: &[Reading], columns: usize) -> String {
    let ahead = now.iter().map(applied).max().unwrap_or(0);
    let rows: Vec<Vec<String>> =
        before.iter().zip(now).map(|(before, now)| member_row(before, now, ahead)).collect();
    let answering = now.iter().filter(|reading| reading.asked.status.is_ok()).count();
    let leader = now.iter().find(|reading| reading.asked.leads()).map(|reading| reading.asked.name());
    let leader = leader.unwrap_or_else(|| "none".to_owned());
    let mut page = format!("{answering} of {} members answer, leader: {leader}\n\n", now.len());
    page.push_str(&grid(&HEADINGS, &rows, columns));
    let kinds = kind_rows(before, now);
    if !kinds.is_empty() {
        page.push('\n');
        page.push_str(&grid(&["REQUEST", "per s", "p50", "p99"], &kinds, columns));
    }
    page
}

fn applied(reading: &Reading) -> u64 {
    reading.asked.status.as_ref().map_or(0, |status| status.raft_applied_index)
}

/// The columns, the most important ones first: those that do not fit are left out.
const HEADINGS: [&str; 12] = [
    "MEMBER", "role", "req/s", "p50", "p99", "sync p99", "lag", "watchers", "in use", "memory", "CPU", "keys",
];

fn member_row(before: &Reading, now: &Reading, ahead: u64) -> Vec<String> {
    let Ok(status) = &now.asked.status else {
        let mut row = vec![now.asked.name(), "silent".to_owned()];
        row.resize(HEADINGS.len(), "-".to_owned());
        return row;
    };
    let seconds = (now.at - before.at).as_secs_f64().max(0.001);
    let rate = |name: &str| {
        let before = before.metrics.sum(name, "")?;
        Some((now.metrics.sum(name, "")? - before).max(0.0) / seconds)
    };
    let sum = |name: &str| now.metrics.sum(name, "");
    let role = match (now.asked.leads(), now.asked.member.is_learner) {
        (true, _) => "leader",
        (_, true) => "learner",
        _ => "follower",
    };
    let requests = buckets(&before.metrics, &now.metrics, REQUESTS, "");
    let syncs = buckets(&before.metrics, &now.metrics, SYNCS, "");
    let count = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let cpu = rate("process_cpu_seconds_total").map_or("-".to_owned(), |cpu| format!("{:.0}%", cpu * 100.0));
    vec![
        now.asked.name(),
        role.to_owned(),
        count(rate("grpc_server_handled_total")),
        quantile(&requests, 0.5),
        quantile(&requests, 0.99),
        quantile(&syncs, 0.99),
        (ahead - applied(now)).to_string(),
        count(sum("etcd_debugging_mvcc_watcher_total")),
        human::bytes(status.db_size_in_use.max(0).unsigned_abs()),
        sum("process_resident_memory_bytes").map_or("-".to_owned(), |bytes| human::bytes(bytes as u64)),
        cpu,
        count(sum("etcd_debugging_mvcc_keys_total")),
    ]
}

/// Requests of all members by their kind, the most frequent first.
fn kind_rows(before: &[Reading], now: &[Reading]) -> Vec<Vec<String>> {
    let mut kinds: BTreeMap<String, (f64, Buckets)> = BTreeMap::new();
    for (before, now) in before.iter().zip(now) {
        let seconds = (now.at - before.at).as_secs_f64().max(0.001);
        let names: std::collections::BTreeSet<String> = now
            .metrics
            .of(&format!("{REQUESTS}_count"))
            .filter_map(|(labels, _)| label(labels, "type").map(str::to_owned))
            .collect();
        for name in names {
            let wanted = format!("type=\"{name}\"");
            let count = format!("{REQUESTS}_count");
            let sum = |metrics: &Metrics| metrics.sum(&count, &wanted).unwrap_or(0.0);
            let kind = kinds.entry(name).or_default();
            kind.0 += (sum(&now.metrics) - sum(&before.metrics)).max(0.0) / seconds;
            for (bound, count) in buckets(&before.metrics, &now.metrics, REQUESTS, &wanted) {
                add(&mut kind.1, bound, count);
            }
        }
    }
    let mut kinds: Vec<_> = kinds.into_iter().filter(|(_, (rate, _))| *rate > 0.0).collect();
    kinds.sort_by(|(_, (left, _)), (_, (right, _))| right.total_cmp(left));
    let row = |(name, (rate, buckets)): (String, (f64, Buckets))| {
        vec![name, format!("{rate:.0}"), quantile(&buckets, 0.5), quantile(&buckets, 0.99)]
    };
    kinds.into_iter().map(row).collect()
}

/// The value of a label.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Upper bounds in seconds with how many lie below them, in order.
type Buckets = Vec<(f64, f64)>;

fn add(buckets: &mut Buckets, bound: f64, count: f64) {
    match buckets.iter_mut().find(|(known, _)| *known == bound) {
        Some((_, sum)) => *sum += count,
        None => buckets.push((bound, count)),
    }
}

/// What came into the buckets of a histogram between two readings.
fn buckets(before: &Metrics, now: &Metrics, name: &str, wanted: &str) -> Buckets {
    let name = format!("{name}_bucket");
    let mut buckets = Buckets::new();
    for (metrics, sign) in [(now, 1.0), (before, -1.0)] {
        for (labels, count) in metrics.of(&name).filter(|(labels, _)| labels.contains(wanted)) {
            let bound = label(labels, "le").and_then(|bound| bound.parse().ok()).unwrap_or(f64::INFINITY);
            add(&mut buckets, bound, sign * count);
        }
    }
    buckets.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    buckets
}

/// The bound below which a share of the values lies.
fn quantile(buckets: &Buckets, share: f64) -> String {
    let Some((_, all)) = buckets.last().filter(|(_, all)| *all > 0.0) else { return "-".to_owned() };
    let bound =
        buckets.iter().find(|(_, count)| *count >= all * share).map_or(f64::INFINITY, |(bound, _)| *bound);
    match bound {
        bound if bound.is_infinite() => "slow".to_owned(),
        bound if bound < 0.001 => format!("<{:.0}µs", bound * 1e6),
        bound if bound < 1.0 => format!("<{:.0}ms", bound * 1e3),
        bound => format!("<{bound:.1}s"),
    }
}

/// A table without lines; columns that do not fit are left out from the right.
fn grid(headings: &[&str], rows: &[Vec<String>], columns: usize) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([headings[at].chars().count()]).max().unwrap_or(0)
    };
    let mut widths = Vec::new();
    let mut used = 0;
    for at in 0..headings.len() {
        used += width(at) + 2;
        if used > columns + 2 {
            break;
        }
        widths.push(width(at));
    }
    let line = |cells: &[&str]| {
        let cell = |(at, width): (usize, &usize)| match at {
            0 | 1 if headings.len() > 4 || at == 0 => format!("{:width$}", cells[at]),
            _ => format!("{:>width$}", cells[at]),
        };
        let cells: Vec<String> = widths.iter().enumerate().map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let mut text = line(headings);
    for row in rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        text.push_str(&line(&cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "h_bucket{type=\"Put\",le=\"0.001\"} 10\nh_bucket{type=\"Put\",le=\"0.1\"} 20\n\
                          h_bucket{type=\"Put\",le=\"+Inf\"} 20\n";
    const NOW: &str = "h_bucket{type=\"Put\",le=\"0.001\"} 14\nh_bucket{type=\"Put\",le=\"0.1\"} 30\n\
                       h_bucket{type=\"Put\",le=\"+Inf\"} 30\n";

    #[test]
    fn a_quantile_is_of_what_came_between_two_readings() {
        let between = buckets(&Metrics::read(BEFORE), &Metrics::read(NOW), "h", "");
        assert_eq!(between, [(0.001, 4.0), (0.1, 10.0), (f64::INFINITY, 10.0)]);
        assert_eq!(quantile(&between, 0.4), "<1ms");
        assert_eq!(quantile(&between, 0.99), "<100ms");
        assert_eq!(quantile(&Buckets::new(), 0.5), "-");
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let rows = [vec!["member".to_owned(), "1".to_owned(), "22222".to_owned()]];
        assert_eq!(grid(&["A", "B", "C"], &rows, 80), "A       B      C\nmember  1  22222\n");
        assert_eq!(grid(&["A", "B", "C"], &rows, 10), "A       B\nmember  1\n");
    }
}
