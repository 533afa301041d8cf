//! `suite`: the tables by which etcd's documentation tells the performance of a cluster, with the same columns.

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use prost::Message;

use crate::cli::own::SuiteOptions;
use crate::client::{leader_endpoints, open_lanes};
use crate::command::{number_key, random_bytes};
use crate::report::Phase;
use crate::report::extra::number;
use crate::schedule::Plan;
use crate::session::BenchSession;

/// A line of the tables.
struct Row {
    total: u64,
    conns: u32,
    clients: u32,
    /// Whether requests go to the leader alone.
    to_leader: bool,
    work: Work,
}

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Put,
    Range { serializable: bool },
}

/// The key that ranges read.
const KEY: &[u8] = b"suite";

const fn put(total: u64, conns: u32, clients: u32, to_leader: bool) -> Row {
    Row { total, conns, clients, to_leader, work: Work::Put }
}

const fn range(total: u64, conns: u32, clients: u32, serializable: bool) -> Row {
    Row { total, conns, clients, to_leader: false, work: Work::Range { serializable } }
}

/// The lines of etcd's documentation.
const ROWS: [Row; 7] = [
    put(10_000, 1, 1, true),
    put(100_000, 100, 1000, true),
    put(100_000, 100, 1000, false),
    range(10_000, 1, 1, false),
    range(10_000, 1, 1, true),
    range(100_000, 100, 1000, false),
    range(100_000, 100, 1000, true),
];

/// Checks the options.
///
/// # Errors
/// A value with which there is no load.
pub(crate) fn check(options: &SuiteOptions) -> Result<(), String> {
    if options.scale.is_nan() || options.scale <= 0.0 {
        return Err(format!("expected positive --scale, got {}", options.scale));
    }
    Ok(())
}

pub(crate) async fn run(session: &mut BenchSession, options: &SuiteOptions) -> Result<(), String> {
    let all = session.endpoints.clone();
    let leader = leader_endpoints(&all, &session.dialling, session.login.as_ref()).await;
    let leader = leader.map_err(|error| format!("cannot find the leader: {error}"))?;
    let value = Bytes::from(random_bytes(options.val_size));
    let single = pb::PutRequest { key: KEY.into(), value: value.clone(), ..Default::default() };
    let done: Result<pb::PutResponse, _> = session.lane(0).ask(methods::KV_PUT, &single).await;
    done.map_err(|error| format!("cannot put: {error}"))?;
    let mut lines = Vec::new();
    for row in &ROWS {
        if session.interrupt.has_ended() {
            break;
        }
        let total = ((row.total as f64 * options.scale).round() as u64).max(1);
        let endpoints = if row.to_leader { &leader } else { &all };
        let lanes =
            open_lanes(endpoints, row.conns as usize, &session.dialling, session.login.as_ref()).await;
        session.lanes = lanes.map_err(|error| format!("dial error: {error}"))?;
        session.reach.clients = row.clients;
        let phase = drive(session, row, total, options, &value).await;
        lines.push(line(row, total, options, &phase));
        if !phase.errors.is_empty() {
            let (error, count) =
                phase.errors.first_key_value().map_or(("", &0), |(error, count)| (error, count));
            crate::print::complain(&format!("{}: {count} requests failed: {error}", phase.name));
        }
        session.result.phases.push(phase);
    }
    let puts = ROWS.iter().filter(|row| row.work == Work::Put).count();
    let (puts, ranges) = lines.split_at(puts.min(lines.len()));
    crate::print::say(&format!("Writes\n{}\n\nReads\n{}\n", table(true, puts), table(false, ranges)));
    Ok(())
}

async fn drive(
    session: &BenchSession,
    row: &Row,
    total: u64,
    options: &SuiteOptions,
    value: &Bytes,
) -> Phase {
    let plan = Plan { duration: session.options.duration, ..Plan::new(total, 0) };
    let (key_size, value, work) = (options.key_size, value.clone(), row.work);
    let target = if row.to_leader { "the leader" } else { "all members" };
    let what = match work {
        Work::Put => "put",
        Work::Range { serializable: false } => "linearizable range",
        Work::Range { serializable: true } => "serializable range",
    };
    let s = if row.clients == 1 { "" } else { "s" };
    let name = format!("{what}, {} client{s}, {target}", row.clients);
    let names = [name.as_str()];
    let phases = session.drive(plan, &names, move |lane, ticket, recorders| {
        let value = value.clone();
        async move {
            let outcome = match work {
                Work::Put => {
                    let key = number_key(ticket.number, key_size).into();
                    let put = pb::PutRequest { key, value, ..Default::default() };
                    lane.call(methods::KV_PUT, &put.encode_to_vec()).await
                }
                Work::Range { serializable } => {
                    let get = pb::RangeRequest { key: KEY.into(), serializable, ..Default::default() };
                    lane.call(methods::KV_RANGE, &get.encode_to_vec()).await
                }
            };
            recorders[0].add_ticket(&ticket, &outcome);
        }
    });
    phases.await.pop().unwrap_or_default()
}

fn line(row: &Row, total: u64, options: &SuiteOptions, phase: &Phase) -> Vec<String> {
    let target = if row.to_leader { "leader only" } else { "all members" };
    let kind = match row.work {
        Work::Put => target,
        Work::Range { serializable: true } => "Serializable",
        Work::Range { serializable: false } => "Linearizable",
    };
    let key_size = if row.work == Work::Put { options.key_size } else { KEY.len() };
    let servers = phase.servers.as_ref();
    vec![
        total.to_string(),
        key_size.to_string(),
        options.val_size.to_string(),
        row.conns.to_string(),
        row.clients.to_string(),
        kind.to_owned(),
        format!("{:.0}", phase.per_second),
        format!("{} ms", number(phase.average_ms)),
        format!("{} ms", number(phase.percentile(99.0))),
        servers.map_or_else(String::new, |servers| format!("{} us", number(servers.cpu_us))),
        servers.map_or_else(String::new, |servers| format!("{} MB", number(servers.resident_mb))),
    ]
}

/// Columns of a terminal from which the titles of etcd's documentation fit, some of them on two lines.
const WIDE_COLUMNS: u16 = 180;

/// What narrow terminals show: which columns, and their short titles. Units stand in the titles.
const NARROW: [(usize, &str); 8] = [
    (0, "total"),
    (4, "clients"),
    (5, "target"),
    (6, "QPS"),
    (7, "avg ms"),
    (8, "p99 ms"),
    (9, "CPU us"),
    (10, "RSS MB"),
];

fn table(writes: bool, lines: &[Vec<String>]) -> Table {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    if (1..WIDE_COLUMNS).contains(&columns) {
        table.set_header(NARROW.map(|(_, title)| title));
        let without_unit = |cell: &String| {
            let units = [" ms", " us", " MB"];
            units.iter().find_map(|unit| cell.strip_suffix(unit)).unwrap_or(cell).to_owned()
        };
        table.add_rows(lines.iter().map(|line| NARROW.map(|(number, _)| without_unit(&line[number]))));
    } else {
        if columns > 0 {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
        }
        let (count, kind, rate) = if writes {
            ("Number of keys", "Target server", "Average write QPS")
        } else {
            ("Number of requests", "Consistency", "Average read QPS")
        };
        table.set_header([
            count,
            "Key size in bytes",
            "Value size in bytes",
            "Number of connections",
            "Number of clients",
            kind,
            rate,
            "Average latency per request",
            "99th percentile",
            "Server CPU per request",
            "Server RSS",
        ]);
        table.add_rows(lines.iter().cloned());
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
