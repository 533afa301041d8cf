//! `member add`, `list`, `promote`, `remove`, `update`.

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;

use super::ranges::{is_serializable, unknown_consistency};
use crate::exit::{Exit, Outcome};
use crate::print::json::ToJson;
use crate::print::messages::HexMembers;
use crate::print::{Format, Forms, Missing, fields, json_line, simple};
use crate::shell::Shell;
use cli::text::quote::quoted;
use cli::text::table;
use cli::values::parse_uint;

pub(super) async fn run(shell: &mut Shell, which: &str) -> Outcome {
    match which {
        "add" => add(shell).await,
        "list" => list(shell).await,
        "promote" => promote(shell).await,
        "remove" => remove(shell).await,
        _ => update(shell).await,
    }
}

/// The only argument, a member's id.
fn id(shell: &Shell) -> Result<u64, Exit> {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("member ID is not provided"));
    }
    parse_uint(&shell.arg(0), 16)
        .map_err(|why| Exit::bad_args(format!("bad member ID arg ({why}), expecting ID in Hex")))
}

/// `--peer-urls`, split.
fn peer_urls(shell: &Shell) -> Result<Vec<String>, Exit> {
    match shell.values.text("peer-urls") {
        "" => Err(Exit::bad_args("member peer urls not provided")),
        urls => Ok(urls.split(',').map(str::to_owned).collect()),
    }
}

/// Prints an answer that lists members.
fn show<M: Message + ToJson>(
    shell: &mut Shell,
    answer: &M,
    hex: &HexMembers<'_>,
    line: impl FnOnce(&mut Vec<u8>),
) -> Outcome {
    let view = shell.view;
    let forms = Forms {
        simple: || {
            let mut out = Vec::new();
            line(&mut out);
            out
        },
        fields: None::<Missing>,
        json: || if view.hex { json_line(hex) } else { json_line(answer) },
        protobuf: Some(|| answer.encode_to_vec()),
        table: None::<Missing>,
    };
    shell.print(&forms.bytes(view.format)?)
}

fn cluster_id(header: &Option<pb::ResponseHeader>) -> u64 {
    header.as_ref().map_or(0, |header| header.cluster_id)
}

async fn add(shell: &mut Shell) -> Outcome {
    if shell.args.is_empty() {
        return Err(Exit::bad_args("member name not provided"));
    }
    if shell.args.len() > 1 {
        let mut message = "too many arguments".to_owned();
        for at in 0..shell.args.len() {
            let arg = shell.arg(at);
            if arg.to_lowercase().starts_with("http") {
                message.push_str(&format!(", did you mean --peer-urls={arg}"));
            }
        }
        return Err(Exit::bad_args(message));
    }
    let name = shell.arg(0);
    let request =
        pb::MemberAddRequest { peer_urls: peer_urls(shell)?, is_learner: shell.values.switch("learner") };
    let deadline = shell.deadline();
    let client = shell.client().await?;
    check_urls(&request.peer_urls)?;
    let answer: pb::MemberAddResponse = client.write(methods::CLUSTER_MEMBER_ADD, &request, deadline).await?;
    let added = answer.member.clone().unwrap_or_default();
    let hex = HexMembers { header: &answer.header, added: answer.member.as_ref(), members: &answer.members };
    show(shell, &answer, &hex, |out| {
        let learner = if added.is_learner { " as learner " } else { " " };
        let cluster = cluster_id(&answer.header);
        simple::line(out, format_args!("Member {:16x} added{learner}to cluster {cluster:16x}", added.id));
    })?;
    if shell.view.format != Format::Simple {
        return Ok(());
    }
    let named = |member: &pb::Member| if member.id == added.id { name.clone() } else { member.name.clone() };
    let all: Vec<String> = answer
        .members
        .iter()
        .flat_map(|member| member.peer_urls.iter().map(move |url| format!("{}={url}", named(member))))
        .collect();
    let (name, all) = (quoted(name.as_bytes()), quoted(all.join(",").as_bytes()));
    let urls = quoted(shell.values.text("peer-urls").as_bytes());
    shell.say(format!(
        "\nETCD_NAME={name}\nETCD_INITIAL_CLUSTER={all}\nETCD_INITIAL_ADVERTISE_PEER_URLS={urls}\n\
         ETCD_INITIAL_CLUSTER_STATE=\"existing\""
    ))
}

/// etcdctl's library reads the URLs before it asks a server.
fn check_urls(urls: &[String]) -> Outcome {
    for url in urls {
        let wrong = |what: &str| Err(Exit::new(crate::exit::code::ERROR, format!("{what}: {url}")));
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong("URL scheme must be http, https, unix, or unixs");
        };
        match scheme {
            "http" | "https" if !rest.trim_end_matches('/').contains(':') => {
                return wrong("URL address does not have the form \"host:port\"");
            }
            "http" | "https" | "unix" | "unixs" => {}
            _ => return wrong("URL scheme must be http, https, unix, or unixs"),
        }
    }
    Ok(())
}

async fn remove(shell: &mut Shell) -> Outcome {
    let id = id(shell)?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let request = pb::MemberRemoveRequest { id };
    let answer: pb::MemberRemoveResponse =
        client.write(methods::CLUSTER_MEMBER_REMOVE, &request, deadline).await?;
    let hex = HexMembers { header: &answer.header, added: None, members: &answer.members };
    let cluster = cluster_id(&answer.header);
    show(shell, &answer, &hex, |out| {
        simple::line(out, format_args!("Member {id:16x} removed from cluster {cluster:16x}"));
    })
}

async fn update(shell: &mut Shell) -> Outcome {
    let id = id(shell)?;
    let request = pb::MemberUpdateRequest { id, peer_urls: peer_urls(shell)? };
    let deadline = shell.deadline();
    let client = shell.client().await?;
    check_urls(&request.peer_urls)?;
    let answer: pb::MemberUpdateResponse =
        client.write(methods::CLUSTER_MEMBER_UPDATE, &request, deadline).await?;
    let hex = HexMembers { header: &answer.header, added: None, members: &answer.members };
    let cluster = cluster_id(&answer.header);
    show(shell, &answer, &hex, |out| {
        simple::line(out, format_args!("Member {id:16x} updated in cluster {cluster:16x}"));
    })
}

async fn promote(shell: &mut Shell) -> Outcome {
    let id = id(shell)?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let request = pb::MemberPromoteRequest { id };
    let answer: pb::MemberPromoteResponse =
        client.write(methods::CLUSTER_MEMBER_PROMOTE, &request, deadline).await?;
    let hex = HexMembers { header: &answer.header, added: None, members: &answer.members };
    let cluster = cluster_id(&answer.header);
    show(shell, &answer, &hex, |out| {
        simple::line(out, format_args!("Member {id:16x} promoted in cluster {cluster:16x}"));
    })
}

async fn list(shell: &mut Shell) -> Outcome {
    // etcdctl names the flag of `get` in this error, which has its default here.
    let linearizable = !is_serializable(&shell.values).map_err(|_| unknown_consistency("l"))?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let request = pb::MemberListRequest { linearizable };
    let answer: pb::MemberListResponse =
        client.read(methods::CLUSTER_MEMBER_LIST, &request, deadline).await?;
    let view = shell.view;
    let hex = HexMembers { header: &answer.header, added: None, members: &answer.members };
    let forms = Forms {
        simple: || {
            rows(&answer).into_iter().flat_map(|row| format!("{}\n", row.join(", ")).into_bytes()).collect()
        },
        fields: Some(|| {
            let mut out = Vec::new();
            fields::header(&mut out, &answer.header, view);
            for member in &answer.members {
                fields::id(&mut out, "ID", member.id, view);
                simple::line(&mut out, format_args!("\"Name\" : {}", quoted(member.name.as_bytes())));
                for url in &member.peer_urls {
                    simple::line(&mut out, format_args!("\"PeerURL\" : {}", quoted(url.as_bytes())));
                }
                for url in &member.client_urls {
                    simple::line(&mut out, format_args!("\"ClientURL\" : {}", quoted(url.as_bytes())));
                }
                simple::line(&mut out, format_args!("\"IsLearner\" : {}\n", member.is_learner));
            }
            out
        }),
        json: || if view.hex { json_line(&hex) } else { json_line(&answer) },
        protobuf: Some(|| answer.encode_to_vec()),
        table: Some(|| {
            let headings = ["ID", "Status", "Name", "Peer Addrs", "Client Addrs", "Is Learner"];
            table::draw(&headings, &rows(&answer)).into_bytes()
        }),
    };
    shell.print(&forms.bytes(view.format)?)
}

fn rows(answer: &pb::MemberListResponse) -> Vec<Vec<String>> {
    let row = |member: &pb::Member| {
        vec![
            format!("{:x}", member.id),
            if member.name.is_empty() { "unstarted" } else { "started" }.to_owned(),
            member.name.clone(),
            member.peer_urls.join(","),
            member.client_urls.join(","),
            member.is_learner.to_string(),
        ]
    };
    answer.members.iter().map(row).collect()
}
