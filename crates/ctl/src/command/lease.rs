//! `lease grant`, `revoke`, `timetolive`, `list`, `keep-alive`.

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;

use crate::client::keep_alive::{KeepAlive, once};
use crate::exit::{Exit, Outcome, code};
use crate::print::json::Object;
use crate::print::messages::header_fields;
use crate::print::{Format, Forms, Missing, View, fields, simple};
use crate::shell::Shell;
use cli::values::parse_int;

pub(super) async fn run(shell: &mut Shell, which: &str) -> Outcome {
    match which {
        "grant" => grant(shell).await,
        "revoke" => revoke(shell).await,
        "timetolive" => time_to_live(shell).await,
        "list" => list(shell).await,
        _ => keep_alive(shell).await,
    }
}

/// The only argument, a lease's id.
fn id(shell: &Shell, missing: &str) -> Result<i64, Exit> {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args(missing));
    }
    parse_int(&shell.arg(0), 16)
        .map_err(|why| Exit::bad_args(format!("bad lease ID arg ({why}), expecting ID in Hex")))
}

/// Prints an answer about leases. etcdctl's library wraps these in types of its own, of which the header alone has a
/// form of protobuf: `encodable` is that of the answers that it prints so.
fn show(
    shell: &mut Shell,
    encodable: Option<&pb::ResponseHeader>,
    simple: impl FnOnce(&mut Vec<u8>, View),
    fields: impl FnOnce(&mut Vec<u8>, View),
    json: impl FnOnce(&mut Object<'_>),
) -> Outcome {
    let view = shell.view;
    if view.format == Format::Protobuf && encodable.is_none() {
        return Err(Exit::new(code::BAD_FEATURE, "marshal unsupported for answers about leases"));
    }
    let forms = Forms {
        simple: || {
            let mut out = Vec::new();
            simple(&mut out, view);
            out
        },
        fields: Some(|| {
            let mut out = Vec::new();
            fields(&mut out, view);
            out
        }),
        json: || {
            let mut text = String::new();
            let mut object = Object::new(&mut text);
            json(&mut object);
            object.end();
            text.push('\n');
            text.into_bytes()
        },
        protobuf: encodable.map(|header| || header.encode_to_vec()),
        table: None::<Missing>,
    };
    shell.print(&forms.bytes(view.format)?)
}

async fn grant(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("lease grant command needs TTL argument"));
    }
    let ttl = parse_int(&shell.arg(0), 10).map_err(|why| Exit::bad_args(format!("bad TTL ({why})")))?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let request = pb::LeaseGrantRequest { ttl, id: 0 };
    let granted: Result<pb::LeaseGrantResponse, _> =
        client.write(methods::LEASE_GRANT, &request, deadline).await;
    let granted = granted.map_err(|error| Exit {
        message: Some(format!("failed to grant lease ({error})")),
        ..Exit::from(error)
    })?;
    let pb::LeaseGrantResponse { header, id, ttl, error } = &granted;
    let line = format!("lease {id:016x} granted with TTL({ttl}s)");
    show_lease(shell, &line, header, *id, *ttl, Some(error))
}

/// Shows a lease that was granted or renewed: its line in the simple form, its id and time to live in the others.
fn show_lease(
    shell: &mut Shell,
    line: &str,
    header: &Option<pb::ResponseHeader>,
    id: i64,
    ttl: i64,
    error: Option<&String>,
) -> Outcome {
    show(
        shell,
        header.as_ref(),
        |out, _| simple::line(out, format_args!("{line}")),
        |out, view| {
            fields::header(out, header, view);
            fields::lease(out, "ID", id, view);
            simple::line(out, format_args!("\"TTL\" : {ttl}"));
        },
        |object| {
            header_fields(object, header);
            object.always("ID", &id).always("TTL", &ttl);
            if let Some(error) = error {
                object.always("Error", error);
            }
        },
    )
}

async fn revoke(shell: &mut Shell) -> Outcome {
    let id = id(shell, "lease revoke command needs 1 argument")?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let revoked: Result<pb::LeaseRevokeResponse, _> =
        client.write(methods::LEASE_REVOKE, &pb::LeaseRevokeRequest { id }, deadline).await;
    let revoked = revoked.map_err(|error| Exit {
        message: Some(format!("failed to revoke lease ({error})")),
        ..Exit::from(error)
    })?;
    show(
        shell,
        None,
        |out, _| simple::line(out, format_args!("lease {id:016x} revoked")),
        |out, view| fields::header(out, &revoked.header, view),
        |object| {
            object.field("header", &revoked.header);
        },
    )
}

async fn time_to_live(shell: &mut Shell) -> Outcome {
    let id = id(shell, "lease timetolive command needs lease ID as argument")?;
    let keys = shell.values.switch("keys");
    let client = shell.client().await?;
    let request = pb::LeaseTimeToLiveRequest { id, keys };
    let answer: Result<pb::LeaseTimeToLiveResponse, _> =
        client.read(methods::LEASE_TIME_TO_LIVE, &request, None).await;
    let answer = answer.map_err(|error| Exit::call(code::BAD_CONNECTION, error))?;
    show(
        shell,
        answer.header.as_ref(),
        |out, _| {
            if answer.granted_ttl == 0 && answer.ttl == -1 {
                return simple::line(out, format_args!("lease {:016x} already expired", answer.id));
            }
            let (id, granted, left) = (answer.id, answer.granted_ttl, answer.ttl);
            let line = format!("lease {id:016x} granted with TTL({granted}s), remaining({left}s)");
            out.extend_from_slice(line.as_bytes());
            if keys {
                let keys: Vec<&[u8]> = answer.keys.iter().map(AsRef::as_ref).collect();
                out.extend_from_slice(b", attached keys([");
                out.extend_from_slice(&keys.join(&b' '));
                out.extend_from_slice(b"])");
            }
            out.push(b'\n');
        },
        |out, view| {
            fields::header(out, &answer.header, view);
            fields::lease(out, "ID", answer.id, view);
            simple::line(out, format_args!("\"TTL\" : {}", answer.ttl));
            simple::line(out, format_args!("\"GrantedTTL\" : {}", answer.granted_ttl));
            for key in &answer.keys {
                simple::line(out, format_args!("\"Key\" : {}", cli::text::quote::quoted(key)));
            }
        },
        |object| {
            header_fields(object, &answer.header);
            object
                .always("id", &answer.id)
                .always("ttl", &answer.ttl)
                .always("granted-ttl", &answer.granted_ttl);
            if answer.keys.is_empty() {
                object.raw("keys", "null");
            } else {
                object.always("keys", &answer.keys);
            }
        },
    )
}

async fn list(shell: &mut Shell) -> Outcome {
    let client = shell.client().await?;
    let answer: Result<pb::LeaseLeasesResponse, _> =
        client.read(methods::LEASE_LEASES, &pb::LeaseLeasesRequest {}, None).await;
    let answer = answer.map_err(|error| Exit::call(code::BAD_CONNECTION, error))?;
    show(
        shell,
        answer.header.as_ref(),
        |out, _| {
            simple::line(out, format_args!("found {} leases", answer.leases.len()));
            for lease in &answer.leases {
                simple::line(out, format_args!("{:016x}", lease.id));
            }
        },
        |out, view| {
            fields::header(out, &answer.header, view);
            for lease in &answer.leases {
                fields::lease(out, "ID", lease.id, view);
            }
        },
        |object| {
            header_fields(object, &answer.header);
            let leases: Vec<String> =
                answer.leases.iter().map(|lease| format!("{{\"id\":{}}}", lease.id)).collect();
            object.raw("leases", &format!("[{}]", leases.join(",")));
        },
    )
}

async fn keep_alive(shell: &mut Shell) -> Outcome {
    let id = id(shell, "lease keep-alive command needs lease ID as argument")?;
    let first = shell.values.duration("dial-timeout") + std::time::Duration::from_secs(1);
    let client = shell.client().await?;
    if shell.values.switch("once") {
        let answer = once(&client, id).await.map_err(|error| Exit::call(code::BAD_CONNECTION, error))?;
        return show_renewal(shell, &answer);
    }
    let mut renewals = KeepAlive::new(&client, id, first);
    // What ends the renewals also ends the lease's life as far as this command can know.
    while let Ok(Some(answer)) = renewals.next().await {
        show_renewal(shell, &answer)?;
    }
    if shell.view.format == Format::Simple {
        shell.say(format!("lease {id:016x} expired or revoked."))?;
    }
    Ok(())
}

fn show_renewal(shell: &mut Shell, answer: &pb::LeaseKeepAliveResponse) -> Outcome {
    let pb::LeaseKeepAliveResponse { header, id, ttl } = answer;
    let line = format!("lease {id:016x} keepalived with TTL({ttl})");
    show_lease(shell, &line, header, *id, *ttl, None)
}
