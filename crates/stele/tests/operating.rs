//! A member as its service manager runs it: what the manager receives, what a signal changes, and what the log says
//! at the end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks at a file.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

struct Member {
    process: Child,
    /// What the service manager received.
    manager: mpsc::Receiver<String>,
    directory: PathBuf,
}

impl Member {
    /// Starts a member whose configuration file has these lines.
    fn start(directory: &Path, lines: &str) -> Member {
        let socket = directory.join("notify");
        let manager = UnixDatagram::bind(&socket).expect("a socket");
        let manager = received(manager);
        write_config(directory, lines);
        let process = Command::new(env!("CARGO_BIN_EXE_stele"))
            .arg(format!("--config-file={}", directory.join("config").display()))
            .env("NOTIFY_SOCKET", socket)
            .env("WATCHDOG_USEC", "400000")
            .spawn()
            .expect("the binary was built");
        Member { process, manager, directory: directory.to_owned() }
    }

    /// Waits until the service manager receives this.
    fn told(&self, text: &str) {
        while self.manager.recv_timeout(PATIENCE).expect("in time").lines().all(|line| line != text) {}
    }

    /// Sends a request to the client URL, and returns the whole response.
    fn http(&self, line: &str, headers: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.directory.join("client")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .expect("room");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("in time");
        response
    }

    /// Begins a call that stays open, and waits for its first message.
    fn streaming(&self, line: &str, body: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.directory.join("client")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        write!(stream, "{line} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).expect("room");
        let mut received = String::new();
        while !received.contains("\"created\":true") {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).expect("in time");
            assert!(count > 0, "the call has ended: {received}");
            received.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        stream
    }

    /// How many streams a new connection may have open: the setting 3 of the frame that begins it, if it is in there.
    fn max_concurrent_streams(&self) -> u32 {
        let mut stream = UnixStream::connect(self.directory.join("client")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("room");
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("in time");
        assert_eq!(head[3], 4, "a frame of settings");
        let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut settings).expect("in time");
        let found = settings.chunks(6).find(|setting| setting[..2] == [0, 3]);
        found.map_or(u32::MAX, |setting| u32::from_be_bytes(setting[2..].try_into().expect("four bytes")))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it runs");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Waits for a line of the log with this text.
    fn logged(&self, text: &str) -> String {
        let looks = PATIENCE.as_millis() / LOOK_INTERVAL.as_millis();
        for _ in 0..looks {
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        panic!("no line with {text:?} in {}", self.log());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Takes what the socket receives as it comes, as a service manager does: a member that finds the socket full waits.
fn received(socket: UnixDatagram) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(count) = socket.recv(&mut buffer) {
            if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn write_config(directory: &Path, lines: &str) {
    let at = directory.display();
    let text = format!(
        "name: a\ndata-dir: {at}/data\nlog-outputs: [{at}/log]\nlisten-client-urls: unix://{at}/client\n\
         advertise-client-urls: unix://{at}/client\nlisten-peer-urls: http://127.0.0.1:0\n\
         initial-advertise-peer-urls: http://127.0.0.1:1\ninitial-cluster: a=http://127.0.0.1:1\n{lines}"
    );
    fs::write(directory.join("config"), text).expect("room");
}

#[test]
fn a_member_tells_its_manager_reloads_at_a_signal_and_logs_to_its_end() {
    let directory = tempfile::tempdir().expect("directory");
    let mut member = Member::start(directory.path(), "");
    member.told("READY=1");
    member.told("WATCHDOG=1");

    fs::rename(directory.path().join("log"), directory.path().join("old")).expect("a log");
    let lines = "log-level: debug\nquota-backend-bytes: 1073741824\nauto-compaction-retention: 1h\nsnapshot-count: 7\n";
    write_config(directory.path(), lines);
    member.signal(Signal::HUP);
    let line = member.logged("reloaded the configuration");
    let changed = "--auto-compaction-retention (1h), --log-level (debug), --quota-backend-bytes (1073741824)";
    assert!(line.contains(&format!("\"changed\":\"{changed}\"")), "{line}");
    assert!(line.contains("\"needs_restart\":\"--snapshot-count\""), "{line}");

    write_config(directory.path(), "log-level: loud\n");
    member.signal(Signal::HUP);
    let line = member.logged("cannot reload the configuration: nothing changed");
    assert!(line.contains("unknown log level: loud"), "{line}");

    member.signal(Signal::TERM);
    member.told("STOPPING=1");
    assert!(member.process.wait().expect("it ends").success());
    let log = member.log();
    assert!(log.lines().last().is_some_and(|line| line.contains("\"msg\":\"stopped\"")), "{log}");
    let before = fs::read_to_string(directory.path().join("old")).expect("a log");
    assert!(!format!("{before}{log}").contains("\"level\":\"error\""), "{before}{log}");
}

#[test]
fn what_is_reloaded_takes_effect() {
    const PUT: (&str, &str) = ("POST /v3/kv/put", r#"{"key":"YQ==","value":"Yg=="}"#);
    let page = "Host: stele.example\r\nOrigin: http://page.example\r\n";
    let directory = tempfile::tempdir().expect("directory");
    let member = Member::start(directory.path(), "");
    member.told("READY=1");
    let health = || member.http("GET /health", page, "");
    let put = || member.http(PUT.0, page, PUT.1);
    assert!(health().starts_with("HTTP/1.1 200") && put().starts_with("HTTP/1.1 200"));
    let allowed = |response: &str| response.to_lowercase().contains("access-control-allow-origin");
    assert!(allowed(&health()), "any page, by default");
    assert!(!member.log().contains("\"level\":\"debug\""));

    // Every request is slow then, and history is compacted.
    write_config(directory.path(), "warning-unary-request-duration: 1ns\nauto-compaction-retention: 1s\n");
    member.signal(Signal::HUP);
    member.logged("--warning-unary-request-duration (1ns)");
    let old = || member.http("POST /v3/kv/range", page, r#"{"key":"YQ==","revision":"2"}"#);
    until("the first revision is compacted", || {
        assert!(put().starts_with("HTTP/1.1 200"));
        old().contains("required revision has been compacted")
    });
    member.logged("request stats");

    write_config(directory.path(), "max-request-bytes: 1\nmax-concurrent-streams: 7\n");
    let streams = member.max_concurrent_streams();
    member.signal(Signal::HUP);
    member.logged("--max-concurrent-streams (7), --max-request-bytes (1)");
    let large = put();
    assert!(large.contains("etcdserver: request is too large"), "{large}");
    assert_eq!((streams, member.max_concurrent_streams()), (u32::MAX, 7));

    // A quota of one byte is exceeded by any put.
    let lines = "cors: http://other.example\nquota-backend-bytes: 1\nlog-level: debug\n";
    write_config(directory.path(), lines);
    member.signal(Signal::HUP);
    member.logged("--cors (http://other.example)");
    assert!(!allowed(&health()), "{}", health());
    let refused = put();
    assert!(refused.contains("mvcc: database space exceeded"), "{refused}");
    member.logged("\"level\":\"debug\"");

    write_config(directory.path(), "max-txn-ops: 1\nmemory-limit-bytes: 67108864\n");
    member.signal(Signal::HUP);
    member.logged("--memory-limit-bytes (67108864)");
    let limit = || member.http("GET /metrics", page, "").contains("\nstele_memory_limit_bytes 67108864\n");
    until("the memory limit is shown", limit);
    let gets = r#"{"success":[{"request_range":{"key":"YQ=="}},{"request_range":{"key":"Yg=="}}]}"#;
    let two = member.http("POST /v3/kv/txn", page, gets);
    assert!(two.contains("too many operations in txn request"), "{two}");

    write_config(directory.path(), "host-whitelist: other.example\n");
    member.signal(Signal::HUP);
    member.logged("--host-whitelist (other.example)");
    assert!(health().starts_with("HTTP/1.1 421"), "{}", health());
}

/// Asks again and again, until the answer is yes.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / LOOK_INTERVAL.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    panic!("not yet: {what}");
}

/// Each limit of one client is set while the member runs, refuses that client's next call, and is taken off again.
#[test]
fn limits_of_clients_are_reloaded() {
    let directory = tempfile::tempdir().expect("directory");
    let member = Member::start(directory.path(), "");
    member.told("READY=1");
    let value = "A".repeat(40_000);
    let put = || member.http("POST /v3/kv/put", "", &format!(r#"{{"key":"YQ==","value":"{value}"}}"#));
    let is_refused = |response: &str| {
        assert!(response.starts_with("HTTP/1.1 200") || response.starts_with("HTTP/1.1 429"), "{response}");
        response.starts_with("HTTP/1.1 429")
    };
    let reload = |lines: &str, change: &str| {
        write_config(directory.path(), lines);
        member.signal(Signal::HUP);
        member.logged(&format!("\"changed\":\"{change}\""));
    };
    assert!(!is_refused(&put()));

    reload("client-max-bytes-rate: 1\n", "--client-max-bytes-rate (1)");
    assert!(!is_refused(&put()), "it owes nothing before it");
    assert!(is_refused(&put()), "the debt of the call before is paid in hours");
    reload("", "--client-max-bytes-rate (the default)");
    assert!(!is_refused(&put()), "there is no limit, and no debt");

    reload("client-max-streams: 1\n", "--client-max-streams (1)");
    let watch = member.streaming("POST /v3/watch", r#"{"create_request":{"key":"YQ=="}}"#);
    assert!(is_refused(&put()), "a watch is open");
    drop(watch);
    reload("", "--client-max-streams (the default)");
    assert!(!is_refused(&put()));

    reload("client-max-request-rate: 1\n", "--client-max-request-rate (1)");
    let refused = (0..10_000).any(|_| is_refused(&put()));
    assert!(refused, "at least two calls of 10,000 began in the same second");
    reload("", "--client-max-request-rate (the default)");
    assert!(!is_refused(&put()));
}

#[test]
fn a_client_has_the_configuration_reloaded_if_it_may() {
    let directory = tempfile::tempdir().expect("directory");
    let member = Member::start(directory.path(), "bcrypt-cost: 4\n");
    member.told("READY=1");
    let client = format!("unix://{}/client", directory.path().display());
    let ctl = |line: &str| {
        let command = Command::new(env!("CARGO_BIN_EXE_stele"))
            .args(["ctl", "--endpoints", &client])
            .args(line.split(' '))
            .output()
            .expect("the binary was built");
        let said = [command.stdout, command.stderr].concat();
        (command.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    write_config(directory.path(), "bcrypt-cost: 4\nlog-level: debug\nsnapshot-count: 7\n");
    let told = format!("{client}: changed --log-level (debug); a restart is needed for --snapshot-count\n");
    assert_eq!(ctl("reload"), (Some(0), told));
    member.logged("\"level\":\"debug\"");

    write_config(directory.path(), "log-level: loud\n");
    let (code, said) = ctl("reload");
    assert!(
        code == Some(1) && said.contains("nothing changed: invalid value \"loud\" for --log-level: "),
        "{said}"
    );

    write_config(directory.path(), "bcrypt-cost: 4\n");
    for line in ["user add root:pw", "user grant-role root root", "user add ann:pw", "auth enable"] {
        let (code, said) = ctl(line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }
    let (code, said) = ctl("reload");
    assert!(code == Some(1) && said.contains("user name is empty"), "{said}");
    let (code, said) = ctl("--user ann:pw reload");
    assert!(code == Some(1) && said.contains("permission denied"), "{said}");
    let told = format!("{client}: changed --log-level (the default)\n");
    assert_eq!(ctl("--user root:pw reload"), (Some(0), told));
}

#[test]
fn slow_requests_are_logged_with_their_phases() {
    let directory = tempfile::tempdir().expect("directory");
    let member =
        Member::start(directory.path(), "warning-unary-request-duration: 1\nwarning-apply-duration: 1\n");
    member.told("READY=1");
    let call = |path: &str, body: &str| {
        let response = member.http(&format!("POST /v3/{path}"), "Host: a\r\n", body);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    };
    call("kv/put", r#"{"key":"YQ==","value":"Yg=="}"#);
    call("kv/range", r#"{"key":"YQ=="}"#);
    call("kv/range", r#"{"key":"YQ==","serializable":true}"#);
    let stats = |content: &str| {
        let line = member.logged(content);
        assert!(line.contains("\"msg\":\"request stats\""), "{line}");
        let (_, rest) = line.split_once("\"phases\":\"").unwrap_or_default();
        let phases =
            rest.split('"').next().unwrap_or_default().replace(" (", ", within it ").replace(", ", "\n");
        let name = |phase: &str| phase.rsplit_once(' ').map(|(name, _)| name.to_owned());
        phases.lines().filter_map(name).collect::<Vec<_>>().join(", ")
    };
    let phases = stats(r#"key:\"a\" value_size:1"#);
    assert_eq!(phases, "queue, commit, within it sync, apply, answer");
    assert_eq!(stats(r#""request content":"key:\"a\"","#), "queue, agreement, read");
    assert_eq!(stats(r#"key:\"a\" serializable:true"#), "", "it waited for no one else");
    let line = member.logged("\"applied\":\"Put 1\"");
    assert!(line.contains("\"msg\":\"apply request took too long\""), "{line}");
}

#[test]
fn a_failure_is_in_the_log_before_the_process_ends() {
    let directory = tempfile::tempdir().expect("directory");
    fs::create_dir_all(directory.path().join("data/member/snap")).expect("room");
    fs::write(directory.path().join("data/member/snap/db"), "etcd's").expect("room");
    let mut member = Member::start(directory.path(), "");
    assert_eq!(member.process.wait().expect("it ends").code(), Some(1));
    let log = member.log();
    let last = log.lines().last().unwrap_or_default();
    assert!(last.contains("\"level\":\"error\"") && last.contains("member failed"), "{log}");
    // It says how the data of etcd comes here, and leaves it as it was.
    assert!(last.contains("`stele utl import`") && last.contains("docs/operating/migrate.md"), "{log}");
    let data = fs::read_dir(directory.path().join("data/member")).expect("a directory");
    let names: Vec<_> = data.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["snap"]);
}
