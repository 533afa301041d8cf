//! `txn-put` and `txn-mixed`.

use std::os::unix::ffi::OsStrExt;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use pb::request_op::Request;
use prost::Message;

use super::keys::{check_key_space, number_key, random_bytes, say_consistency};
use crate::cli::etcd::{TxnMixedOptions, TxnPutOptions};
use crate::session::BenchSession;

/// Puts of one transaction: far more than servers take by default.
const MAX_TXN_OPS: u64 = 1_000_000;

/// A transaction without conditions.
pub(super) fn transaction(requests: Vec<Request>) -> pb::TxnRequest {
    let op = |request| pb::RequestOp { request: Some(request) };
    pb::TxnRequest { success: requests.into_iter().map(op).collect(), ..Default::default() }
}

pub(super) async fn put(session: &mut BenchSession, options: &TxnPutOptions) -> Result<(), String> {
    let key_space = check_key_space(options.key_space_size)?;
    let puts = u64::try_from(options.txn_ops).map_err(|_| "expected --txn-ops of 0 or more".to_owned())?;
    if puts > MAX_TXN_OPS {
        return Err(format!("expected --txn-ops of at most {MAX_TXN_OPS}, got ({puts})"));
    }
    if puts > key_space {
        return Err(format!(
            "expected --txn-ops no larger than --key-space-size, got txn-ops({puts}) key-space-size({key_space})"
        ));
    }
    let value = Bytes::from(random_bytes(options.val_size));
    let key_size = options.key_size;
    let plan = session.plan(options.total, options.rate);
    let phases = session.drive(plan, &["txn-put"], move |lane, ticket, recorders| {
        let put = |number: u64| {
            let key = number_key(ticket.number.wrapping_mul(puts).wrapping_add(number) % key_space, key_size)
                .into();
            Request::RequestPut(pb::PutRequest { key, value: value.clone(), ..Default::default() })
        };
        let txn = transaction((0..puts).map(put).collect());
        async move {
            let outcome = lane.call(methods::KV_TXN, &txn.encode_to_vec()).await;
            recorders[0].add_ticket(&ticket, &outcome);
        }
    });
    for phase in phases.await {
        session.show(phase);
    }
    crate::print::say("\n");
    Ok(())
}

pub(super) async fn mixed(session: &mut BenchSession, options: &TxnMixedOptions) -> Result<(), String> {
    let key_space = check_key_space(options.key_space_size)?;
    if options.rw_ratio.is_nan() || options.rw_ratio < 0.0 {
        return Err(format!("expected --rw-ratio of 0 or more, got ({})", options.rw_ratio));
    }
    say_consistency(&options.consistency);
    let value = Bytes::from(random_bytes(options.val_size));
    let end = options.end_key.as_bytes();
    let range = pb::RangeRequest {
        // etcd's client writes all keys so, whatever the end.
        key: Bytes::from_static(&[0]),
        range_end: if end.is_empty() { Bytes::from_static(&[0]) } else { Bytes::copy_from_slice(end) },
        limit: options.limit,
        serializable: options.consistency == "s",
        ..Default::default()
    };
    let (key_size, reads) = (options.key_size, options.rw_ratio / (1.0 + options.rw_ratio));
    let plan = session.plan(options.total, options.rate);
    let phases =
        session.drive(plan, &["txn-mixed read", "txn-mixed write"], move |lane, ticket, recorders| {
            let is_read = fastrand::f64() < reads;
            let request = if is_read {
                Request::RequestRange(range.clone())
            } else {
                let key = number_key(ticket.number % key_space, key_size).into();
                Request::RequestPut(pb::PutRequest { key, value: value.clone(), ..Default::default() })
            };
            let txn = transaction(vec![request]);
            async move {
                let outcome = lane.call(methods::KV_TXN, &txn.encode_to_vec()).await;
                recorders[usize::from(!is_read)].add_ticket(&ticket, &outcome);
            }
        });
    for (phase, kind) in phases.await.into_iter().zip(["Read", "Write"]) {
        crate::print::say(&format!("Total {kind} Ops: {}\nDetails:", phase.requests + phase.failed()));
        session.show(phase);
        crate::print::say("\n");
    }
    Ok(())
}

/// A condition on the revision of a key's last change; 0 is that of a key that does not exist.
pub(super) fn compare(key: &Bytes, result: pb::compare::CompareResult, revision: i64) -> pb::Compare {
    use pb::compare::{CompareTarget, TargetUnion};

    pb::Compare {
        result: result.into(),
        target: CompareTarget::Mod.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    }
}

/// A transaction of one request and one condition on its key.
pub(crate) fn put_if(
    key: &Bytes,
    result: pb::compare::CompareResult,
    revision: i64,
    request: Request,
) -> pb::TxnRequest {
    pb::TxnRequest { compare: vec![compare(key, result, revision)], ..transaction(vec![request]) }
}
