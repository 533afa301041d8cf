//! The rows: what is compared, as data.
//!
//! Keys have 8 bytes and values 256 unless a row says otherwise. Rows over a million keys stand together at
//! the end and share a cluster, which is loaded once a round; all others get a cluster of their own. Rows of one
//! connection ask the first member, unless they say that they go to the leader.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use crate::measure::access::Access;
use crate::measure::cluster::LeaderEnd;
use crate::measure::generator::Load;

/// From how many keys on a cluster is shared by neighbouring rows: loading it takes longer than they do.
const SHARED_FROM: u64 = 100_000;

/// Puts a second while something else goes on: so few that both systems have time for it, and what they take longer
/// is due to it alone.
const PUTS_A_SECOND: u64 = 2_000;

/// How long an idle cluster is watched.
const IDLE: Duration = Duration::from_secs(10);

/// A line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) title: String,
    /// Keys that are there before the row begins.
    pub(super) keys: u64,
    /// Whether `keys` were multiplied into the range where clusters are shared.
    pub(super) shared: bool,
    /// How clients reach the cluster; of neighbours that share one, the same.
    pub(super) access: Access,
    pub(super) work: Work,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Drive(Load),
    /// What loading the keys took; its figures are those of the load itself.
    Loaded,
    RestartMember,
    RestartCluster,
    /// The leader ends under load; see `failover`.
    Failover(LeaderEnd),
    /// Nothing, for so long. A "request" is a second.
    Idle(Duration),
}

/// All rows, with their requests and keys multiplied by `scale`.
pub(super) fn all(scale: f64) -> Vec<Row> {
    let rows = Rows { scale };
    let mut all = rows.puts();
    all.extend(rows.gets());
    all.extend(rows.secured());
    all.extend(rows.handshakes());
    all.extend(rows.txns());
    all.extend(rows.lists());
    all.extend(rows.large_values());
    all.extend(rows.leases_and_watches());
    all.extend(rows.idle());
    all.extend(rows.failovers());
    all.extend(rows.million());
    all
}

fn leader(line: &str) -> Load {
    Load::benchmark(&format!("{line} --target-leader"))
}

/// A range over all keys but number 0, which no command line can name: it is made of NULs.
fn range(flags: &str) -> Load {
    let mut load = Load::benchmark(&format!("range {flags}"));
    let ends = [vec![0x01], vec![0xff; 9]].map(OsString::from_vec);
    load.arguments.splice(1..1, ends);
    load
}

fn several(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

struct Rows {
    scale: f64,
}

impl Rows {
    /// `count` at this scale, but at least one.
    fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(1)
    }

    fn row(&self, name: &str, title: &str, keys: u64, work: Work) -> Row {
        let shared = keys >= SHARED_FROM;
        let (name, title, keys) = (name.to_owned(), title.to_owned(), self.scaled_keys(keys));
        Row { name, title, keys, shared, access: Access::default(), work }
    }

    /// A single key stays one, whatever the scale.
    fn scaled_keys(&self, keys: u64) -> u64 {
        if keys <= 1 { keys } else { self.scaled(keys) }
    }

    fn drive(&self, name: &str, title: &str, keys: u64, load: Load) -> Row {
        self.row(name, title, keys, Work::Drive(load))
    }

    fn puts(&self) -> Vec<Row> {
        let (one, many) = (self.put(1, 1, 10_000), self.put(100, 1000, 200_000));
        let some = self.put(10, 100, 100_000);
        let most = self.put(100, 16_000, 200_000);
        vec![
            self.drive("put-1-leader", "put, 1 client, to the leader", 0, leader(&one)),
            self.drive("put-1", "put, 1 client", 0, Load::benchmark(&one)),
            self.drive("put-100-leader", "put, 100 clients, to the leader", 0, leader(&some)),
            self.drive("put-1000-leader", "put, 1000 clients, to the leader", 0, leader(&many)),
            self.drive("put-1000", "put, 1000 clients, to all members", 0, Load::benchmark(&many)),
            self.drive("put-16000", "put, 16,000 clients, to all members", 0, Load::benchmark(&most)),
        ]
    }

    /// The command line of puts into 100,000 keys.
    fn put(&self, conns: u64, clients: u64, total: u64) -> String {
        let total = self.scaled(total);
        let space = self.scaled(100_000);
        let flags = format!("--total={total} --key-space-size={space} --val-size=256");
        format!("put --conns={conns} --clients={clients} {flags}")
    }

    fn gets(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (short, word) in [("l", "linearizable"), ("s", "serializable")] {
            for (conns, clients, total) in [(1, 1, 20_000), (100, 1000, 300_000)] {
                let title = format!("get, {word}, {}", several(clients, "client"));
                let name = format!("get-{word}-{clients}");
                let load = Load::benchmark(&self.get(short, conns, clients, total));
                rows.push(self.drive(&name, &title, 1, load));
            }
        }
        rows
    }

    /// The command line of reads of one key, `consistency` being `l` or `s`.
    fn get(&self, consistency: &str, conns: u64, clients: u64, total: u64) -> String {
        let total = self.scaled(total);
        let flags =
            format!("--consistency={consistency} --conns={conns} --clients={clients} --total={total}");
        format!("range single {flags}")
    }

    /// Puts and gets again, with what protects them.
    fn secured(&self) -> Vec<Row> {
        let tls = Access { is_secure: true, ..Access::default() };
        let token = Access { has_users: true, ..Access::default() };
        let both = Access { has_users: true, ..tls };
        let mut rows = Vec::new();
        for (suffix, words, access) in [
            ("tls", "with TLS", tls),
            ("token", "with a token", token),
            ("tls-token", "with TLS and a token", both),
        ] {
            for (conns, clients, puts, gets) in [(1, 1, 10_000, 20_000), (100, 1000, 200_000, 300_000)] {
                let count = several(clients, "client");
                let loads = [
                    ("put", "put", 0, self.put(conns, clients, puts)),
                    ("get-linearizable", "get, linearizable", 1, self.get("l", conns, clients, gets)),
                ];
                for (name, title, keys, line) in loads {
                    let (name, title) =
                        (format!("{name}-{clients}-{suffix}"), format!("{title}, {count}, {words}"));
                    let row = self.drive(&name, &title, keys, Load::benchmark(&line));
                    rows.push(Row { access, ..row });
                }
            }
        }
        rows
    }

    /// Full handshakes of TLS 1.3 with ECDSA on P-256, each on a connection of its own, with the first bytes behind it.
    fn handshakes(&self) -> Vec<Row> {
        let load = Load::ours(&format!("handshake --clients=8 --total={}", self.scaled(20_000)));
        let secure = Access { is_secure: true, ..Access::default() };
        let row = |name: &str, title: &str, access| {
            let row = self.drive(name, title, 0, load.clone());
            Row { access, ..row }
        };
        vec![
            row("handshake-server", "TLS handshake, the member shows a certificate", secure),
            row(
                "handshake-mutual",
                "TLS handshake, both show certificates",
                Access { is_mutual: true, ..secure },
            ),
        ]
    }

    fn txns(&self) -> Vec<Row> {
        let txn = |puts: u64, total: u64| {
            let (total, space) = (self.scaled(total), self.scaled(100_000).max(puts));
            let flags = format!("--txn-ops={puts} --total={total} --key-space-size={space} --val-size=256");
            let load = Load::benchmark(&format!("txn-put {flags} --conns=100 --clients=1000"));
            self.drive(
                &format!("txn-{puts}"),
                &format!("transaction of {}, 1000 clients", several(puts, "put")),
                0,
                load,
            )
        };
        vec![txn(1, 100_000), txn(4, 50_000)]
    }

    fn lists(&self) -> Vec<Row> {
        let total = self.scaled(200);
        let all = range(&format!("--total={total}"));
        let keys = Load::ours(&format!("list --keys-only --total={total}"));
        let stream = Load::ours(&format!("list --stream --total={total}"));
        vec![
            self.drive("list-10k", "list 10,000 keys of 10,000", 10_000, all),
            self.drive("keys-10k", "list 10,000 keys without values", 10_000, keys),
            self.drive("stream-10k", "RangeStream of 10,000 keys", 10_000, stream),
        ]
    }

    fn large_values(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (size, word, totals) in
            [(102_400, "100k", [2000, 5000, 5000, 10_000]), (1_048_576, "1m", [200, 500, 500, 1000])]
        {
            for (clients, total) in [1_u64, 10, 100, 1000].into_iter().zip(totals) {
                let total = self.scaled(total);
                let flags = format!("--val-size={size} --total={total} --key-space-size=100");
                let conns = clients.min(100);
                let load = Load::benchmark(&format!("put {flags} --conns={conns} --clients={clients}"));
                let title = format!("put of {size} bytes, {}", several(clients, "client"));
                rows.push(self.drive(&format!("value-{word}-{clients}"), &title, 0, load));
            }
        }
        rows
    }

    fn leases_and_watches(&self) -> Vec<Row> {
        let keep = |conns: u64, clients: u64, total: u64| {
            let total = self.scaled(total);
            let load = format!("lease-keepalive --conns={conns} --clients={clients} --total={total}");
            Load::benchmark(&load)
        };
        let latency =
            format!("watch-latency --val-size=256 --put-total={} --put-rate=200", self.scaled(2000));
        let latency = Load { has_fixed_rate: true, ..Load::benchmark(&latency) };
        let watchers = self.scaled(10_000);
        let spread = |keys: u64, puts: u64| {
            let puts = self.scaled(puts);
            Load::ours(&format!("watch --conns=100 --watchers={watchers} --keys={keys} --total={puts}"))
        };
        let mut steady = spread(100, 4000);
        steady.arguments.push("--rate=200".into());
        steady.has_fixed_rate = true;
        vec![
            self.drive("lease-keepalive", "lease keep-alive, 1000 clients", 0, keep(100, 1000, 200_000)),
            self.drive("lease-keepalive-1", "lease keep-alive, 1 client", 0, keep(1, 1, 20_000)),
            self.drive("watch-latency", "answer of a put to its event, 100 watchers", 0, latency),
            self.drive("watch-100-keys", "events of 10,000 watchers on 100 keys", 0, spread(100, 2000)),
            self.drive(
                "watch-200-a-second",
                "events of 10,000 watchers on 100 keys, 200 puts a second",
                0,
                steady,
            ),
            self.drive("watch-1-key", "events of 10,000 watchers on 1 key", 0, spread(1, 100)),
        ]
    }

    fn idle(&self) -> Vec<Row> {
        vec![self.row("idle", "idle, a second", 0, Work::Idle(IDLE.mul_f64(self.scale)))]
    }

    fn failovers(&self) -> Vec<Row> {
        let row = |name: &str, title: &str, how| self.row(name, title, 0, Work::Failover(how));
        vec![
            row(
                "failover-kill",
                "longest time without an acknowledged put, leader killed",
                LeaderEnd::Killed,
            ),
            row(
                "failover-stop",
                "longest time without an acknowledged put, leader stopped",
                LeaderEnd::Stopped,
            ),
        ]
    }

    fn million(&self) -> Vec<Row> {
        const KEYS: u64 = 1_000_000;
        let space = self.scaled(KEYS);
        let row = |name: &str, title: &str, work: Work| self.row(name, title, KEYS, work);
        let drive = |name: &str, title: &str, load: Load| self.drive(name, title, KEYS, load);
        let put = |conns: u64, clients: u64, total: u64| {
            let flags = format!("--key-space-size={space} --val-size=256 --total={}", self.scaled(total));
            format!("put --conns={conns} --clients={clients} {flags}")
        };
        let range = |flags: &str, total: u64| range(&format!("--total={} {flags}", self.scaled(total)));
        let (one, many) = (put(1, 1, 10_000), put(100, 1000, 200_000));
        let limit = format!("--limit={}", self.scaled(10_000));
        let beside = |meanwhile: &str| {
            let line = format!("{} --rate={PUTS_A_SECOND}{meanwhile}", put(10, 100, 50_000));
            Load { has_fixed_rate: true, ..Load::ours(&line) }
        };
        let during = |what: &str| beside(&format!(" --while={what}"));
        vec![
            row("1m-load", "load 1,000,000 keys", Work::Loaded),
            drive("1m-put-1-leader", "put into 1,000,000 keys, 1 client, to the leader", leader(&one)),
            drive(
                "1m-put-1000-leader",
                "put into 1,000,000 keys, 1000 clients, to the leader",
                leader(&many),
            ),
            drive("1m-put-1", "put into 1,000,000 keys, 1 client", Load::benchmark(&one)),
            drive("1m-put-1000", "put into 1,000,000 keys, 1000 clients", Load::benchmark(&many)),
            drive("1m-list-10k", "list 10,000 keys of 1,000,000", range(&limit, 120)),
            drive("1m-count", "count 1,000,000 keys", range("--count-only", 50)),
            drive("1m-put-quiet", "put at 2,000 a second, nothing else", beside("")),
            drive("1m-put-list", "put at 2,000 a second while all are listed", during("list")),
            drive(
                "1m-put-catch-up",
                "put at 2,000 a second while 1,000 watchers catch up",
                during("catch-up"),
            ),
            drive("1m-put-compact", "put at 2,000 a second while compacted, defragmented", during("compact")),
            row("1m-restart-member", "restart of a killed member", Work::RestartMember),
            row("1m-restart-cluster", "restart of the killed cluster", Work::RestartCluster),
        ]
    }
}
