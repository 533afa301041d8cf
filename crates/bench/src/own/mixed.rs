//! `mixed`: puts, gets, ranges, deletes and transactions in given shares.

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use pb::compare::CompareResult;
use pb::request_op::Request;
use prost::Message;

use crate::cli::own::MixedOptions;
use crate::command::{put_if, random_bytes};
use crate::session::BenchSession;

/// What a mix may hold, in the order of its phases.
const KINDS: [&str; 5] = ["put", "get", "range", "delete", "txn"];

pub(crate) async fn run(session: &mut BenchSession, options: &MixedOptions) -> Result<(), String> {
    let shares = shares(&options.shares)?;
    let value = Bytes::from(random_bytes(options.val_size));
    let (key_space, limit, serializable) =
        (options.key_space_size, options.limit, options.consistency == "s");
    let total: f64 = shares.iter().sum();
    let plan = session.plan(options.total, options.rate);
    let phases = session.drive(plan, &KINDS, move |lane, ticket, recorders| {
        let kind = choose(&shares, fastrand::f64() * total);
        let key = Bytes::from(format!("mixed/{:010}", fastrand::u64(..key_space)));
        let put = pb::PutRequest { key: key.clone(), value: value.clone(), ..Default::default() };
        let get = pb::RangeRequest { key: key.clone(), serializable, ..Default::default() };
        let (method, request) = match KINDS[kind] {
            "put" => (methods::KV_PUT, put.encode_to_vec()),
            "get" => (methods::KV_RANGE, get.encode_to_vec()),
            "range" => {
                let range = pb::RangeRequest { range_end: "mixed0".into(), limit, ..get };
                (methods::KV_RANGE, range.encode_to_vec())
            }
            "delete" => {
                let delete = pb::DeleteRangeRequest { key, ..Default::default() };
                (methods::KV_DELETE_RANGE, delete.encode_to_vec())
            }
            // Holds for every key that exists.
            _ => (
                methods::KV_TXN,
                put_if(&key, CompareResult::Greater, 0, Request::RequestPut(put)).encode_to_vec(),
            ),
        };
        async move {
            let outcome = lane.call(method, &request).await;
            recorders[kind].add_ticket(&ticket, &outcome);
        }
    });
    for phase in phases.await.into_iter().filter(|phase| phase.requests + phase.failed() > 0) {
        crate::print::say(&format!("\n{}:\n", phase.name));
        session.show(phase);
    }
    Ok(())
}

fn shares(given: &[(String, f64)]) -> Result<[f64; KINDS.len()], String> {
    let mut shares = [0.0; KINDS.len()];
    for (name, weight) in given {
        let kind = KINDS.iter().position(|kind| kind == name);
        let kind = kind.ok_or_else(|| format!("--shares has no {name}: choose of {}", KINDS.join(", ")))?;
        shares[kind] += weight;
    }
    if shares.iter().sum::<f64>() > 0.0 { Ok(shares) } else { Err("--shares are all 0".to_owned()) }
}

fn choose(shares: &[f64], mut point: f64) -> usize {
    for (kind, share) in shares.iter().enumerate() {
        if point < *share {
            return kind;
        }
        point -= share;
    }
    shares.iter().position(|share| *share > 0.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_chosen_by_their_weights() {
        let shares = shares(&[("get".to_owned(), 1.0), ("txn".to_owned(), 2.0)]).expect("shares");
        assert_eq!([0.0, 0.99, 1.0, 2.99, 3.0].map(|point| choose(&shares, point)), [1, 1, 4, 4, 1]);
        assert!(super::shares(&[("fly".to_owned(), 1.0)]).is_err_and(|error| error.contains("no fly")));
        assert!(super::shares(&[("put".to_owned(), 0.0)]).is_err());
    }
}
