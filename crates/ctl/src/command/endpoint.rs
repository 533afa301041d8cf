//! `endpoint health`, `status`, `hashkv`: each endpoint by itself.

use api::etcdserverpb as pb;
use api::methods;
use tokio::time::Instant;

use crate::client::{CallError, Client, ClientOptions};
use crate::exit::{Exit, Outcome, code};
use crate::print::json::{Object, ToJson};
use crate::print::{Forms, Missing, fields, simple};
use crate::shell::{Shell, open, parse_endpoints};
use cli::text::quote::quoted;
use cli::text::{human, table};

pub(super) async fn run(shell: &mut Shell, which: &str) -> Outcome {
    match which {
        "health" => health(shell).await,
        "status" => status(shell).await,
        _ => hash_kv(shell).await,
    }
}

/// The endpoints of `--endpoints`, or, with `--cluster`, those of all members; each with the options of a client for it
/// alone.
///
/// # Errors
///
/// The members cannot be listed.
pub(crate) async fn each_endpoint(shell: &mut Shell) -> Result<Vec<(String, ClientOptions)>, Exit> {
    let options = shell.client_options().await?;
    let names = match shell.values.switch("cluster") {
        true => {
            let client = open(options.clone()).await?;
            member_endpoints(&client, shell.deadline()).await.map_err(|error| Exit {
                message: Some(format!("failed to fetch endpoints from etcd cluster member list: {error}")),
                ..Exit::from(error)
            })?
        }
        false => options.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect(),
    };
    let each = |name: String| {
        let endpoints = parse_endpoints(std::slice::from_ref(&name))?;
        Ok((name, ClientOptions { endpoints, ..options.clone() }))
    };
    names.into_iter().map(each).collect()
}

/// The client URLs of all members.
///
/// # Errors
///
/// The call failed.
async fn member_endpoints(client: &Client, deadline: Option<Instant>) -> Result<Vec<String>, CallError> {
    let request = pb::MemberListRequest { linearizable: true };
    let members: pb::MemberListResponse =
        client.read(methods::CLUSTER_MEMBER_LIST, &request, deadline).await?;
    Ok(members.members.into_iter().flat_map(|member| member.client_urls).collect())
}

struct Health {
    endpoint: String,
    took: String,
    /// Why it is not healthy; empty if it is.
    error: String,
}

impl ToJson for Health {
    fn json(&self, out: &mut String) {
        Object::new(out)
            .always("endpoint", &self.endpoint)
            .always("health", &self.error.is_empty())
            .always("took", &self.took)
            .field("error", &self.error)
            .end();
    }

    fn is_left_out(&self) -> bool {
        false
    }
}

async fn health(shell: &mut Shell) -> Outcome {
    let deadline = shell.values.duration("command-timeout");
    let mut checks = tokio::task::JoinSet::new();
    for (endpoint, options) in each_endpoint(shell).await? {
        checks.spawn(async move { check(endpoint, options, deadline).await });
    }
    let results: Vec<Health> = checks.join_all().await;
    if shell.view.format == crate::print::Format::Simple {
        for health in results.iter().filter(|health| !health.error.is_empty()) {
            let (endpoint, error) = (&health.endpoint, &health.error);
            shell.complain(format!("{endpoint} is unhealthy: failed to commit proposal: {error}"));
        }
    }
    show_health(shell, &results)?;
    if results.iter().any(|health| !health.error.is_empty()) {
        return Err(Exit::new(code::ERROR, "unhealthy cluster"));
    }
    Ok(())
}

/// Reads a key through consensus, and looks for alarms.
async fn check(endpoint: String, options: ClientOptions, timeout: std::time::Duration) -> Health {
    let failed = |endpoint, error: String| Health { endpoint, took: String::new(), error };
    let client = match Client::open(options).await {
        Ok(client) => client,
        Err(error) => return failed(endpoint, error.to_string()),
    };
    let started = Instant::now();
    let deadline = Some(started + timeout);
    let request = pb::RangeRequest { key: "health".into(), ..Default::default() };
    let read: Result<pb::RangeResponse, _> = client.read(methods::KV_RANGE, &request, deadline).await;
    let took = human::duration(started.elapsed());
    match read {
        // The answer went through consensus, whatever this user may read.
        Err(error) if !error.says("etcdserver: permission denied") => {
            return Health { endpoint, took, error: error.to_string() };
        }
        _ => {}
    }
    let alarms: Result<pb::AlarmResponse, _> =
        client.write(methods::MAINTENANCE_ALARM, &pb::AlarmRequest::default(), deadline).await;
    let error = match alarms {
        Err(_) => "Unable to fetch the alarm list".to_owned(),
        Ok(answer) if answer.alarms.is_empty() => String::new(),
        Ok(answer) => {
            let names = answer.alarms.iter().map(|alarm| match alarm.alarm {
                1 => "NOSPACE ",
                2 => "CORRUPT ",
                _ => "UNKNOWN ",
            });
            format!("Active Alarm(s): {}", names.collect::<String>())
        }
    };
    Health { endpoint, took, error }
}

fn show_health(shell: &mut Shell, results: &[Health]) -> Outcome {
    let forms = Forms {
        simple: || {
            let healthy = results.iter().filter(|health| health.error.is_empty());
            let line = |health: &Health| {
                let (endpoint, took) = (&health.endpoint, &health.took);
                format!("{endpoint} is healthy: successfully committed proposal: took = {took}\n")
                    .into_bytes()
            };
            healthy.flat_map(line).collect()
        },
        fields: Some(|| {
            let mut out = Vec::new();
            for health in results {
                simple::line(&mut out, format_args!("\"Endpoint\" : {}", quoted(health.endpoint.as_bytes())));
                simple::line(&mut out, format_args!("\"Health\" : {}", health.error.is_empty()));
                simple::line(&mut out, format_args!("\"Took\" : {}", health.took));
                simple::line(&mut out, format_args!("\"Error\" : {}\n", health.error));
            }
            out
        }),
        json: || crate::print::json_line(results),
        protobuf: None::<Missing>,
        table: Some(|| {
            let row = |health: &Health| {
                let healthy = health.error.is_empty().to_string();
                vec![health.endpoint.clone(), healthy, health.took.clone(), health.error.clone()]
            };
            let rows: Vec<Vec<String>> = results.iter().map(row).collect();
            table::draw(&["endpoint", "health", "took", "error"], &rows).into_bytes()
        }),
    };
    let bytes = forms.bytes(shell.view.format)?;
    shell.print(&bytes)
}

/// Asks each endpoint one question. Those that do not answer are named, and the last error is returned beside the
/// answers.
async fn ask_each<A: prost::Message + Default>(
    shell: &mut Shell,
    method: &'static str,
    request: &impl prost::Message,
    what: &str,
) -> Result<(Vec<(String, A)>, Option<CallError>), Exit> {
    let mut answers = Vec::new();
    let mut last = None;
    for (endpoint, options) in each_endpoint(shell).await? {
        let client = open(options).await?;
        match client.read(method, request, shell.deadline()).await {
            Ok(answer) => answers.push((endpoint, answer)),
            Err(error) => {
                shell.complain(format!("Failed to get the {what} of endpoint {endpoint} ({error})"));
                last = Some(error);
            }
        }
    }
    Ok((answers, last))
}

/// One endpoint's answer in JSON.
struct OfEndpoint<'a, A>(&'a str, &'static str, &'a A);

impl<A: ToJson> ToJson for OfEndpoint<'_, A> {
    fn json(&self, out: &mut String) {
        Object::new(out).always("Endpoint", &self.0.to_owned()).always(self.1, self.2).end();
    }

    fn is_left_out(&self) -> bool {
        false
    }
}

fn json_list<A: ToJson>(answers: &[(String, A)], name: &'static str) -> Vec<u8> {
    if answers.is_empty() {
        return b"null\n".to_vec();
    }
    let answers: Vec<_> =
        answers.iter().map(|(endpoint, answer)| OfEndpoint(endpoint, name, answer)).collect();
    crate::print::json_line(&answers)
}

fn lines(rows: Vec<Vec<String>>) -> Vec<u8> {
    rows.into_iter().flat_map(|row| format!("{}\n", row.join(", ")).into_bytes()).collect()
}

async fn status(shell: &mut Shell) -> Outcome {
    let (answers, failed) =
        ask_each::<pb::StatusResponse>(shell, methods::MAINTENANCE_STATUS, &pb::StatusRequest {}, "status")
            .await?;
    let view = shell.view;
    let rows = || answers.iter().map(|(endpoint, status)| status_row(endpoint, status)).collect::<Vec<_>>();
    let forms = Forms {
        simple: || lines(rows()),
        fields: Some(|| {
            let mut out = Vec::new();
            for (endpoint, status) in &answers {
                status_fields(&mut out, endpoint, status, view);
            }
            out
        }),
        json: || json_list(&answers, "Status"),
        protobuf: None::<Missing>,
        table: Some(|| table::draw(&STATUS_HEADINGS, &rows()).into_bytes()),
    };
    let bytes = forms.bytes(view.format)?;
    shell.print(&bytes)?;
    if failed.is_some() { Err(Exit::silent(code::ERROR)) } else { Ok(()) }
}

const STATUS_HEADINGS: [&str; 16] = [
    "endpoint",
    "ID",
    "version",
    "storage version",
    "db size",
    "in use",
    "percentage not in use",
    "quota",
    "is leader",
    "is learner",
    "raft term",
    "raft index",
    "raft applied index",
    "errors",
    "downgrade target version",
    "downgrade enabled",
];

fn status_row(endpoint: &str, status: &pb::StatusResponse) -> Vec<String> {
    let member = status.header.as_ref().map_or(0, |header| header.member_id);
    let size = |bytes: i64| human::bytes(bytes.max(0).unsigned_abs());
    let used = (status.db_size_in_use * 100).checked_div(status.db_size).unwrap_or(100);
    let downgrade = status.downgrade_info.clone().unwrap_or_default();
    vec![
        endpoint.to_owned(),
        format!("{member:x}"),
        status.version.clone(),
        status.storage_version.clone(),
        size(status.db_size),
        size(status.db_size_in_use),
        format!("{}%", 100 - used),
        size(status.db_size_quota),
        (status.leader == member).to_string(),
        status.is_learner.to_string(),
        status.raft_term.to_string(),
        status.raft_index.to_string(),
        status.raft_applied_index.to_string(),
        status.errors.join(", "),
        downgrade.target_version,
        downgrade.enabled.to_string(),
    ]
}

fn status_fields(out: &mut Vec<u8>, endpoint: &str, status: &pb::StatusResponse, view: crate::print::View) {
    fields::header(out, &status.header, view);
    let text = |text: &str| quoted(text.as_bytes());
    let downgrade = status.downgrade_info.clone().unwrap_or_default();
    for (name, value) in [
        ("Version", text(&status.version)),
        ("StorageVersion", text(&status.storage_version)),
        ("DBSize", status.db_size.to_string()),
        ("DBSizeInUse", status.db_size_in_use.to_string()),
        ("DBSizeQuota", status.db_size_quota.to_string()),
        ("Leader", status.leader.to_string()),
        ("IsLearner", status.is_learner.to_string()),
        ("RaftIndex", status.raft_index.to_string()),
        ("RaftAppliedIndex", status.raft_applied_index.to_string()),
        ("Errors", format!("[{}]", status.errors.join(" "))),
        ("Endpoint", text(endpoint)),
        ("DowngradeTargetVersion", text(&downgrade.target_version)),
        ("DowngradeEnabled", downgrade.enabled.to_string()),
    ] {
        simple::line(out, format_args!("\"{name}\" : {value}"));
    }
    out.push(b'\n');
}

async fn hash_kv(shell: &mut Shell) -> Outcome {
    let request = pb::HashKvRequest { revision: shell.values.int("rev") };
    let (answers, failed) =
        ask_each::<pb::HashKvResponse>(shell, methods::MAINTENANCE_HASH_KV, &request, "hash").await?;
    let view = shell.view;
    let row = |(endpoint, answer): &(String, pb::HashKvResponse)| {
        vec![endpoint.clone(), answer.hash.to_string(), answer.hash_revision.to_string()]
    };
    let rows = || answers.iter().map(row).collect::<Vec<_>>();
    let forms = Forms {
        simple: || lines(rows()),
        fields: Some(|| {
            let mut out = Vec::new();
            for (endpoint, answer) in &answers {
                fields::header(&mut out, &answer.header, view);
                simple::line(&mut out, format_args!("\"Endpoint\" : {}", quoted(endpoint.as_bytes())));
                simple::line(&mut out, format_args!("\"Hash\" : {}", answer.hash));
                simple::line(&mut out, format_args!("\"HashRevision\" : {}\n", answer.hash_revision));
            }
            out
        }),
        json: || json_list(&answers, "HashKV"),
        protobuf: None::<Missing>,
        table: Some(|| table::draw(&["endpoint", "hash", "hash_revision"], &rows()).into_bytes()),
    };
    let bytes = forms.bytes(view.format)?;
    shell.print(&bytes)?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}
