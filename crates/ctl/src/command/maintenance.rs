//! `alarm`, `defrag`, `move-leader`, `snapshot save`, `downgrade`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use api::etcdserverpb as pb;
use api::methods;
use cli::BarKind;
use indicatif::ProgressBar;
use pb::downgrade_request::DowngradeAction;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::endpoint::each_endpoint;
use crate::client::Client;
use crate::exit::{Exit, Outcome, code};
use crate::print::{fields, simple};
use crate::shell::{Shell, open};
use crate::show;
use cli::text::human;
use cli::values::parse_uint;

/// Permission bits of a saved database: it holds the hashes of passwords.
const FILE_MODE: u32 = 0o600;

/// The parts of a database that are summed: a sector of a disk.
const SECTOR_BYTES: u64 = 512;

/// Bytes of the checksum behind the database.
const SUM_BYTES: usize = 32;

pub(super) async fn alarm(shell: &mut Shell, which: &str) -> Outcome {
    if !shell.args.is_empty() {
        return Err(Exit::bad_args(format!("alarm {which} command accepts no arguments")));
    }
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let alarms: pb::AlarmResponse =
        client.write(methods::MAINTENANCE_ALARM, &pb::AlarmRequest::default(), deadline).await?;
    let response = if which == "list" { alarms } else { disarm(&client, alarms, deadline).await? };
    show::message(
        shell,
        &response,
        |out| {
            for alarm in &response.alarms {
                simple::line(
                    out,
                    format_args!("memberID:{} alarm:{}", alarm.member_id, alarm_name(alarm.alarm)),
                );
            }
        },
        Some(|out, response: &pb::AlarmResponse, view| {
            fields::header(out, &response.header, view);
            for alarm in &response.alarms {
                fields::id(out, "MemberID", alarm.member_id, view);
                simple::line(out, format_args!("\"AlarmType\" : {}\n", alarm_name(alarm.alarm)));
            }
        }),
    )
}

/// Ends all alarms, one by one, and returns those that were ended.
async fn disarm(
    client: &Client,
    alarms: pb::AlarmResponse,
    deadline: Option<Instant>,
) -> Result<pb::AlarmResponse, Exit> {
    let mut response = pb::AlarmResponse::default();
    for alarm in alarms.alarms {
        let request = pb::AlarmRequest {
            action: pb::alarm_request::AlarmAction::Deactivate.into(),
            member_id: alarm.member_id,
            alarm: alarm.alarm,
        };
        let ended: pb::AlarmResponse = client.write(methods::MAINTENANCE_ALARM, &request, deadline).await?;
        response.alarms.extend(ended.alarms);
    }
    Ok(response)
}

fn alarm_name(alarm: i32) -> String {
    match alarm {
        0 => "NONE".to_owned(),
        1 => "NOSPACE".to_owned(),
        2 => "CORRUPT".to_owned(),
        other => other.to_string(),
    }
}

pub(super) async fn defragment(shell: &mut Shell) -> Outcome {
    let mut failed = false;
    for (endpoint, options) in each_endpoint(shell).await? {
        let client = open(options).await?;
        let started = Instant::now();
        let answer: Result<pb::DefragmentResponse, _> =
            client.write(methods::MAINTENANCE_DEFRAGMENT, &pb::DefragmentRequest {}, shell.deadline()).await;
        let took = human::duration(started.elapsed());
        match answer {
            Ok(_) => shell.say(format!("Finished defragmenting etcd member[{endpoint}]. took {took}"))?,
            Err(error) => {
                failed = true;
                shell.complain(format!(
                    "Failed to defragment etcd member[{endpoint}]. took {took}. ({error})"
                ));
            }
        }
    }
    if failed { Err(Exit::silent(code::ERROR)) } else { Ok(()) }
}

pub(super) async fn move_leader(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("move-leader command needs 1 argument"));
    }
    let target_id = parse_uint(&shell.arg(0), 16).map_err(Exit::bad_args)?;
    let deadline = shell.deadline();
    let endpoints = each_endpoint(shell).await?;
    let names: Vec<String> = endpoints.iter().map(|(name, _)| name.clone()).collect();
    for (_, options) in endpoints {
        let client = open(options).await?;
        let status: pb::StatusResponse =
            client.read(methods::MAINTENANCE_STATUS, &pb::StatusRequest {}, deadline).await?;
        if status.header.is_none_or(|header| header.member_id != status.leader) {
            continue;
        }
        let request = pb::MoveLeaderRequest { target_id };
        let response: pb::MoveLeaderResponse =
            client.write(methods::MAINTENANCE_MOVE_LEADER, &request, deadline).await?;
        let leader = status.leader;
        let line = |out: &mut Vec<u8>| {
            simple::line(out, format_args!("Leadership transferred from {leader:x} to {target_id:x}"));
        };
        return show::message(shell, &response, line, None);
    }
    Err(Exit::bad_args(format!("no leader endpoint given at [{}]", names.join(" "))))
}

pub(super) async fn downgrade(shell: &mut Shell, which: &str) -> Outcome {
    let action = match which {
        "validate" => DowngradeAction::Validate,
        "enable" => DowngradeAction::Enable,
        _ => DowngradeAction::Cancel,
    };
    if action != DowngradeAction::Cancel {
        match shell.args.as_slice() {
            [] => return Err(Exit::bad_args("TARGET_VERSION not provided")),
            [version] if version.is_empty() => return Err(Exit::bad_args("target version not provided")),
            [_] => {}
            _ => return Err(Exit::bad_args("too many arguments")),
        }
    }
    let version = if action == DowngradeAction::Cancel { String::new() } else { shell.arg(0) };
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let request = pb::DowngradeRequest { action: action.into(), version };
    let response: pb::DowngradeResponse =
        client.write(methods::MAINTENANCE_DOWNGRADE, &request, deadline).await?;
    let version = response.version.clone();
    let line = |out: &mut Vec<u8>| {
        simple::line(out, format_args!("Downgrade {which} success, cluster version {version}"));
    };
    show::message(shell, &response, line, None)
}

pub(super) async fn save_snapshot(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("snapshot save expects one argument <filename>"));
    }
    let options = shell.client_options().await?;
    let interrupted = |message: String| Exit::new(code::INTERRUPTED, message);
    if options.endpoints.len() != 1 {
        let names: Vec<&str> = options.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        return Err(interrupted(format!(
            "snapshot must be requested to one selected node, not multiple [{}]",
            names.join(" ")
        )));
    }
    // Without the flag there is no deadline: a large database takes as long as it takes.
    let deadline = if shell.values.given("command-timeout") { shell.deadline() } else { None };
    let path = shell.arg(0);
    let part = format!("{path}.part");
    let bar = shell.streams.bar(BarKind::Bytes("saving"), 0);
    let client = Client::open(options).await.map_err(|error| Exit::call(code::INTERRUPTED, error))?;
    let fetched = fetch(&client, Path::new(&part), deadline, &bar).await;
    bar.finish_and_clear();
    let renamed = fetched.and_then(|version| match std::fs::rename(&part, &path) {
        Ok(()) => Ok(version),
        Err(error) => Err(interrupted(format!("could not rename {part} to {path} ({error})"))),
    });
    if renamed.is_err() {
        // What is left of the attempt must not be taken for a backup. It may not have been made.
        let _ = std::fs::remove_file(&part);
    }
    let version = renamed?;
    shell.say(format!("Snapshot saved at {path}"))?;
    if !version.is_empty() {
        shell.say(format!("Server version {version}"))?;
    }
    Ok(())
}

/// Writes the stream into a file, checks its checksum, and returns the version of the server.
async fn fetch(
    client: &Client,
    part: &Path,
    deadline: Option<Instant>,
    bar: &ProgressBar,
) -> Result<String, Exit> {
    let work = async {
        let name = part.display();
        let interrupted = |message: String| Exit::new(code::INTERRUPTED, message);
        let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(part);
        let file = opened.map_err(|error| {
            let why = if error.kind() == ErrorKind::NotFound { "no such file or directory" } else { "" };
            let error = if why.is_empty() { error.to_string() } else { format!("open {name}: {why}") };
            interrupted(format!("could not open {name} ({error})"))
        })?;
        let mut sink = Sink { file, sum: Sha256::new(), tail: Vec::new(), bytes: 0 };
        let lost = |error: crate::client::CallError| Exit::call(code::INTERRUPTED, error);
        let mut stream = client.stream(methods::MAINTENANCE_SNAPSHOT, deadline).await.map_err(lost)?;
        stream.send(&pb::SnapshotRequest {}, true).map_err(lost)?;
        let mut version = String::new();
        while let Some(part) = stream.next::<pb::SnapshotResponse>().await.map_err(lost)? {
            if version.is_empty() {
                version = part.version;
            }
            sink.write(&part.blob)
                .map_err(|error| interrupted(format!("could not write snapshot: {error}")))?;
            bar.set_length(sink.bytes + part.remaining_bytes);
            bar.set_position(sink.bytes);
        }
        sink.finish().map_err(interrupted)?;
        Ok(version)
    };
    match deadline {
        Some(deadline) => match tokio::time::timeout_at(deadline, work).await {
            Ok(done) => done,
            Err(_) => Err(Exit::call(code::INTERRUPTED, crate::client::CallError::Deadline)),
        },
        None => work.await,
    }
}

/// A file that is written while it is summed; the last bytes are the sum.
struct Sink {
    file: File,
    sum: Sha256,
    /// The last bytes, which may be the checksum.
    tail: Vec<u8>,
    bytes: u64,
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        let surely = self.tail.len().saturating_sub(SUM_BYTES);
        self.sum.update(&self.tail[..surely]);
        self.tail.drain(..surely);
        Ok(())
    }

    /// Checks the sum, which etcdctl leaves to the restore, and makes the file durable.
    fn finish(self) -> Result<(), String> {
        if self.bytes % SECTOR_BYTES != SUM_BYTES as u64 {
            return Err(format!("sha256 checksum not found [bytes: {}]", self.bytes));
        }
        if self.sum.finalize().as_slice() != self.tail {
            return Err(format!(
                "sha256 checksum does not fit the {} bytes received: the snapshot was damaged on its way, try again",
                self.bytes
            ));
        }
        self.file.sync_all().map_err(|error| format!("could not fsync snapshot: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(parts: &[&[u8]]) -> Result<(), String> {
        let folder = std::env::temp_dir().join(format!("stele-ctl-sink-{}", std::process::id()));
        let file = File::create(&folder).map_err(|error| error.to_string())?;
        let mut sink = Sink { file, sum: Sha256::new(), tail: Vec::new(), bytes: 0 };
        for part in parts {
            sink.write(part).map_err(|error| error.to_string())?;
        }
        let finished = sink.finish();
        let _ = std::fs::remove_file(&folder);
        finished
    }

    #[test]
    fn a_snapshot_is_kept_if_its_checksum_fits() {
        let database = [7; 1024];
        let sum = Sha256::digest(database);
        assert_eq!(sink(&[&database[..700], &database[700..], &sum]), Ok(()));
        assert!(sink(&[&database]).is_err_and(|why| why.contains("not found")));
        let mut damaged = database;
        damaged[3] ^= 1;
        assert!(sink(&[&damaged, &sum]).is_err_and(|why| why.contains("does not fit")));
    }
}
