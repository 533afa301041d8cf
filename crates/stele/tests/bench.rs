//! Every command of the load generator against a real member, briefly: reports, counts, and what was really written.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the member may take until it serves, on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Time between two questions whether it does.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

struct Member {
    process: Child,
    folder: tempfile::TempDir,
    endpoint: String,
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Member {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let [client, peer] = listeners.map(|listener| listener.local_addr().expect("an address").to_string());
        let process = Command::new(env!("CARGO_BIN_EXE_stele"))
            .arg(format!("--data-dir={}", folder.path().join("data").display()))
            .arg(format!("--listen-client-urls=http://{client}"))
            .arg(format!("--advertise-client-urls=http://{client}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster=default=http://{peer}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let member = Self { process, folder, endpoint: client };
        let begin = Instant::now();
        while !member.serves() {
            assert!(begin.elapsed() < READY_LIMIT, "the member does not serve");
            std::thread::sleep(POLL_INTERVAL);
        }
        member
    }

    fn serves(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(&self.endpoint) else { return false };
        let mut answer = String::new();
        let asked = write!(stream, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(r#""health":"true""#)
    }

    fn stele(&self, line: &str) -> Output {
        let words = line.split_whitespace();
        let endpoint = format!("--endpoints={}", self.endpoint);
        Command::new(env!("CARGO_BIN_EXE_stele")).args(words).arg(endpoint).output().expect("it runs")
    }

    /// Runs a command that succeeds, and returns what it printed.
    fn bench(&self, line: &str) -> String {
        let output = self.stele(&format!("bench {line}"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && errors.is_empty(), "{line}: {errors}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.contains("Error distribution"), "{line}: {text}");
        text
    }

    /// How many keys there are, those that begin with a byte above 0x40 left out.
    fn keys(&self) -> usize {
        let output = self.stele("ctl get --from-key \u{1} --count-only --write-out=fields");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = text.lines().find_map(|line| line.strip_prefix("\"Count\" : "));
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }
}

/// The sum of the numbers in the histogram of the last report.
fn measured(report: &str) -> u64 {
    let last = report.rsplit("Response time histogram:").next().unwrap_or_default();
    let counts =
        last.lines().filter_map(|line| line.split_once('[')?.1.split_once("]\t|")?.0.parse::<u64>().ok());
    counts.sum()
}

#[test]
fn every_command_does_what_it_reports() {
    let member = Member::start();
    let put = "put --total=500 --key-space-size=500 --sequential-keys --conns=4 --clients=50";
    let report = member.bench(&format!("{put} --check-hashkv"));
    assert_eq!(measured(&report), 500, "{report}");
    assert!(
        report.contains("  Requests/sec:\t") && report.contains("HashKV Summary:\n\tHashKV: "),
        "{report}"
    );
    // Number 0 is a key of zeros, below the first that is counted.
    assert_eq!(member.keys(), 499);
    let benchmarks = [
        ("range \u{1} \u{7f} --total=20 --limit=5 --consistency=s", 20),
        ("range \u{1} --prefix --total=5 --keys-only", 5),
        ("range \u{1} \u{7f} --paginate --limit=100 --total=3", 3),
        ("range \u{1} \u{7f} --stream --total=3", 3),
        ("range \u{1} \u{7f} --count-only --total=3 --precise --sample", 3),
        ("txn-put --txn-ops=3 --key-space-size=10 --total=30 --clients=3", 30),
        ("stm --keys=5 --keys-per-txn=2 --total=20 --clients=4 --isolation=ss", 20),
        ("stm --total=10 --clients=3 --stm-locker=lock-client", 10),
        ("stm --total=10 --clients=3 --stm-locker=lock-rpc --isolation=s", 10),
        ("lease-keepalive --total=20 --clients=4", 20),
        ("watch --streams=2 --watch-per-stream=5 --watched-key-total=2 --put-total=8 --key-space-size=9", 40),
        ("watch-latency --streams=2 --watchers-per-stream=3 --put-total=5 --put-rate=1000", 30),
    ];
    for (line, requests) in benchmarks {
        let report = member.bench(line);
        let at_least = line.starts_with("watch ") && measured(&report) >= requests;
        assert!(measured(&report) == requests || at_least, "{line}: {report}");
    }
    assert!(member.bench("watch-get --watchers=20 --events=3").starts_with("Get during watch summary:\n"));
    let report = member.bench("txn-mixed --total=40 --key-space-size=5 --rw-ratio=1 --clients=4");
    let parts: Vec<u64> = report.split("Total Write Ops").map(measured).collect();
    assert_eq!(parts.iter().sum::<u64>(), 40, "{report}");
}

#[test]
fn own_commands_write_results_and_pages() {
    let member = Member::start();
    let file = |name: &str| member.folder.path().join(name).display().to_string();
    let (json, page) = (file("a.json"), file("a.html"));
    let open = "put --total=100 --rate=2000 --open-loop --warm-up=50ms --clients=5 --key-space-size=9";
    let text = member.bench(&format!("{open} --json={json} --html={page}"));
    assert!(text.contains("More about put:") && text.contains("us of CPU a request"), "{text}");
    let result = std::fs::read_to_string(&json).expect("a result");
    assert!(result.contains("\"format\": 1") && result.contains("\"requests\": 100,"), "{result}");
    let drawn = std::fs::read_to_string(&page).expect("a page");
    assert!(drawn.contains("<svg") && drawn.contains("latency by percentile"));
    member.bench(&format!("report {json} {json} --html={page}"));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("<th>ratio</th>"));
    let text = member.bench("mixed --total=60 --clients=6 --shares=put=1,get=1,range=1,delete=1,txn=1");
    assert!(text.contains("\ndelete:\n") && text.contains("\ntxn:\n"), "{text}");
    let load = "--scale=0.01 --duration=400ms --api-servers=2 --resources=3 --compact-interval=100ms --list-rate=2000";
    let text = member.bench(&format!("kubernetes {load} --progress-interval=50ms --event-rate=5000"));
    for kind in ["renew", "update", "list", "event", "watch event"] {
        assert!(text.contains(&format!("\n{kind}:\n")), "{kind}: {text}");
    }
    let text = member.bench("suite --scale=0.001");
    assert!(
        text.contains("Average write QPS") && text.contains("Linearizable") && text.contains("leader only"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let run = |line: &str| {
        let words = line.split_whitespace();
        let output = Command::new(env!("CARGO_BIN_EXE_stele")).args(words).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        assert!(!text.contains('\n'), "{line}: {text}");
        (output.status.code(), text)
    };
    let (code, text) = run("bench put --nothing");
    assert_eq!((code, text.contains("unknown flag: --nothing")), (Some(255), true), "{text}");
    // There is no listener at the port of a socket that is closed again.
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let (code, text) = run(&format!("bench put --endpoints=127.0.0.1:{port}"));
    assert_eq!((code, text.contains("cannot reach 127.0.0.1")), (Some(1), true), "{text}");
    let (code, text) = run("bench put --cacert=/nowhere.pem");
    assert_eq!((code, text.contains("/nowhere.pem")), (Some(1), true), "{text}");
    let (code, text) = run("bench put --key-space-size=0 --endpoints=127.0.0.1:1");
    assert_eq!((code, text.as_str()), (Some(1), "expected positive --key-space-size, got (0)"));
    assert_eq!(run("bench range").0, Some(1));
    let (code, text) = run("bench put --open-loop");
    assert_eq!((code, text.contains("--open-loop needs a --rate")), (Some(1), true), "{text}");
    assert_eq!(run("bench report /nowhere.json").0, Some(1));
    assert_eq!(run("bench mvcc put").0, Some(1));
}
