//! `put`.

use std::rc::Rc;
use std::time::{Duration, Instant};

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;

use super::keys::{check_key_space, number_key, random_bytes};
use crate::cli::etcd::PutOptions;
use crate::client::Lane;
use crate::report::text::go_duration;
use crate::session::BenchSession;

pub(super) async fn run(session: &mut BenchSession, options: &PutOptions) -> Result<(), String> {
    let key_space = check_key_space(options.key_space_size)?;
    let value = bytes::Bytes::from(random_bytes(options.val_size));
    let (key_size, sequential) = (options.key_size, options.sequential_keys);
    let compacting = (!options.compact_interval.is_zero()).then(|| {
        let lane = session.lane(0);
        let (interval, delta) = (options.compact_interval, options.compact_index_delta);
        tokio::task::spawn_local(compact_again(lane, interval, delta))
    });
    let plan = session.plan(options.total, options.rate);
    let phases = session.drive(plan, &["put"], move |lane, ticket, recorders| {
        let number = if sequential { ticket.number % key_space } else { fastrand::u64(..key_space) };
        let key = number_key(number, key_size).into();
        let put = pb::PutRequest { key, value: value.clone(), ..Default::default() };
        async move {
            let outcome = lane.call(methods::KV_PUT, &put.encode_to_vec()).await;
            recorders[0].add_ticket(&ticket, &outcome);
        }
    });
    for phase in phases.await {
        session.show(phase);
    }
    crate::print::say("\n");
    if let Some(compacting) = compacting {
        compacting.abort();
    }
    if options.check_hashkv { hash(session).await } else { Ok(()) }
}

/// Compacts again and again, forever. A failure is printed, and it goes on.
async fn compact_again(lane: Rc<Lane>, interval: Duration, delta: i64) {
    loop {
        tokio::time::sleep(interval).await;
        if let Err(error) = compact(&lane, delta).await {
            crate::print::complain(&format!("cannot compact: {error}"));
        }
    }
}

/// Compacts to `delta` revisions before the current one.
///
/// # Errors
/// What the server answered; that it is compacted already is none.
async fn compact(lane: &Lane, delta: i64) -> Result<(), ctl::CallError> {
    let get = pb::RangeRequest { key: "foo".into(), ..Default::default() };
    let got: pb::RangeResponse = lane.ask(methods::KV_RANGE, &get).await?;
    let revision = (got.header.map_or(0, |header| header.revision) - delta).max(0);
    let request = pb::CompactionRequest { revision, physical: false };
    match lane.ask::<pb::CompactionResponse>(methods::KV_COMPACT, &request).await {
        Err(error) if !error.says("etcdserver: mvcc: required revision has been compacted") => Err(error),
        _ => Ok(()),
    }
}

/// Prints the hash of all keys at the first endpoint.
async fn hash(session: &BenchSession) -> Result<(), String> {
    let host = &session.endpoints[0].name;
    let lane = session.lane(0);
    let begin = Instant::now();
    let failed = |what: &str, error| format!("Failed to get the {what} of endpoint {host} ({error})");
    let hash: Result<pb::HashKvResponse, _> =
        lane.ask(methods::MAINTENANCE_HASH_KV, &pb::HashKvRequest::default()).await;
    let hash = hash.map_err(|error| failed("hashkv", error))?;
    let status: Result<pb::StatusResponse, _> =
        lane.ask(methods::MAINTENANCE_STATUS, &pb::StatusRequest {}).await;
    let status = status.map_err(|error| failed("status", error))?;
    let took = go_duration(begin.elapsed().as_nanos() as u64);
    crate::print::say(&format!("HashKV Summary:\n\tHashKV: {}\n\tEndpoint: {host}\n", hash.hash));
    crate::print::say(&format!(
        "\tTime taken to get hashkv: {took}\n\tDB size: {}\n",
        human_bytes(status.db_size.max(0) as u64)
    ));
    Ok(())
}

/// Bytes as the library go-humanize prints them: two digits that count, in thousands.
fn human_bytes(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let value = (value * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_that_count() {
        let shown = [5, 999, 1500, 82_854_982].map(human_bytes);
        assert_eq!(shown, ["5 B", "999 B", "1.5 kB", "83 MB"]);
    }
}
