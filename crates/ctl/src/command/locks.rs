//! `lock` and `elect`: a lease is kept while a lock is held, or a leader leads.

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};

use super::kv::print_range;
use super::watch::{end_of, not_started, process};
use crate::client::session::{Session, SessionEnd, acquire, oldest_key, release};
use crate::client::watches::{Delivery, Watches};
use crate::client::{CallError, Client};
use crate::exit::{Exit, Outcome, code};
use crate::shell::Shell;

/// Seconds that a leader's lease lives, as in etcd's library.
const ELECTION_TTL: i64 = 60;

/// Waits for the signals that end a program.
///
/// # Errors
///
/// The system delivers no signals.
pub(crate) async fn stopped() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn exit(end: SessionEnd, expired: &str) -> Exit {
    match end {
        SessionEnd::Expired => Exit::new(code::ERROR, expired),
        SessionEnd::Failed(error) => error.into(),
    }
}

/// Takes a claim, unless the program is stopped before: then it is given back.
async fn claim(
    session: &mut Session<'_>,
    client: &Client,
    name: &[u8],
    value: Bytes,
) -> Result<crate::client::session::Claim, Exit> {
    let lease = session.lease;
    let taken = tokio::select! {
        taken = session.keep(acquire(client, lease, name, value)) => taken,
        stop = stopped() => {
            stop?;
            let key = [name, b"/", format!("{lease:x}").as_bytes()].concat();
            release(client, key.into()).await?;
            return Err(Exit::new(code::ERROR, "context canceled"));
        }
    };
    taken.map_err(|end| exit(end, "mutex: session is expired"))
}

pub(super) async fn lock(shell: &mut Shell) -> Outcome {
    let Some(name) = shell.args.first().cloned() else {
        return Err(Exit::bad_args("lock takes a lock name argument and an optional command to execute"));
    };
    let client = shell.client().await?;
    let ttl = match shell.values.int("ttl") {
        ttl if ttl > 0 => ttl,
        _ => ELECTION_TTL,
    };
    let mut session = Session::begin(&client, ttl).await?;
    let claim = claim(&mut session, &client, &name, Bytes::new()).await?;
    let command = shell.args[1..].to_vec();
    if command.is_empty() {
        return hold(shell, &client, &mut session, claim.key, "session expired").await;
    }
    let mut process = process(&command);
    process
        .env("ETCD_LOCK_KEY", String::from_utf8_lossy(&claim.key).as_ref())
        .env("ETCD_LOCK_REV", claim.held_at.to_string());
    // The command goes on even if the lease expires: as with etcdctl, it is not stopped.
    let mut running = Box::pin(process.status());
    let ended = tokio::select! {
        ended = &mut running => Some(ended),
        _ = session.keep(std::future::pending::<Result<(), SessionEnd>>()) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => running.await,
    };
    let released = release(&client, claim.key).await;
    match ended {
        Ok(status) if status.success() => Ok(released?),
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
            Err(Exit::new(code, end_of(status)))
        }
        Err(error) => Err(Exit::new(code::ERROR, not_started(&command[0], &error))),
    }
}

/// Shows our key and keeps it until the program is stopped.
async fn hold(
    shell: &mut Shell,
    client: &Client,
    session: &mut Session<'_>,
    key: Bytes,
    expired: &str,
) -> Outcome {
    let request = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let own: pb::RangeResponse = client.read(methods::KV_RANGE, &request, None).await?;
    if own.kvs.is_empty() {
        return Err(Exit::new(code::ERROR, "lock lost on init"));
    }
    print_range(shell, &own)?;
    tokio::select! {
        stop = stopped() => stop?,
        end = session.keep(std::future::pending::<Result<(), SessionEnd>>()) => {
            return end.map_err(|end| exit(end, expired));
        }
    }
    Ok(release(client, key).await?)
}

pub(super) async fn elect(shell: &mut Shell) -> Outcome {
    let listen = shell.values.switch("listen");
    match shell.args.len() {
        1 if !listen => return Err(Exit::bad_args("no proposal argument but -l not set")),
        2 if listen => return Err(Exit::bad_args("proposal given but -l is set")),
        1 | 2 => {}
        _ => {
            return Err(Exit::bad_args(
                "elect takes one election name argument and an optional proposal argument",
            ));
        }
    }
    let name = shell.args[0].clone();
    let client = shell.client().await?;
    if listen {
        return tokio::select! {
            outcome = observe(shell, &client, &name) => outcome,
            stop = stopped() => Ok(stop?),
        };
    }
    let mut session = Session::begin(&client, ELECTION_TTL).await?;
    let claim = claim(&mut session, &client, &name, Bytes::from(shell.args[1].clone())).await?;
    hold(shell, &client, &mut session, claim.key, "elect: session expired").await
}

/// Prints each leader and each of its proposals.
async fn observe(shell: &mut Shell, client: &Client, name: &[u8]) -> Outcome {
    let prefix = [name, b"/"].concat();
    let lost = |_: CallError| Exit::new(code::ERROR, "elect: observer lost");
    loop {
        let leader = oldest_key(client, &prefix).await.map_err(lost)?;
        let revision = leader.header.as_ref().map_or(0, |header| header.revision);
        let Some(kv) = leader.kvs.first().cloned() else {
            // The next key that appears is the next leader's.
            let end = api::prefix_end(&prefix);
            next_event(client, prefix.clone().into(), end, revision + 1).await.map_err(lost)?;
            continue;
        };
        let answer = pb::RangeResponse { more: false, count: 0, ..leader };
        print_range(shell, &answer)?;
        let mut watches = Watches::new(client);
        watches.create(pb::WatchCreateRequest {
            key: kv.key,
            start_revision: revision + 1,
            ..Default::default()
        });
        'leads: loop {
            let Delivery::Response(_, response) = watches.next().await.map_err(lost)? else { break };
            for event in response.events {
                if event.r#type != 0 {
                    break 'leads;
                }
                let kvs = event.kv.into_iter().collect();
                print_range(
                    shell,
                    &pb::RangeResponse { header: response.header, kvs, ..Default::default() },
                )?;
            }
        }
    }
}

async fn next_event(
    client: &Client,
    key: Bytes,
    range_end: Bytes,
    start_revision: i64,
) -> Result<(), CallError> {
    let mut watches = Watches::new(client);
    watches.create(pb::WatchCreateRequest { key, range_end, start_revision, ..Default::default() });
    watches.next().await.map(drop)
}
