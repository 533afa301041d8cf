//! `stm`: transactions that read, then write if what they read is still so, and begin again if not.
//!
//! The levels of isolation are those of etcd's client. They differ in how keys are read, and in what the write
//! compares:
//!
//! | level | reads | compares |
//! |---|---|---|
//! | read committed | whatever is newest on a member | nothing |
//! | repeatable reads | the same | that the keys read did not change |
//! | serializable | all at the revision of the first read | the same |
//! | snapshot | the same | also that no key written changed since the first read |

use std::collections::BTreeSet;
use std::rc::Rc;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use ctl::CallError;
use pb::compare::CompareResult;
use pb::request_op::Request;

use super::stm_locks::Locker;
use super::txn::compare;
use super::{number_key, random_bytes, txn};
use crate::cli::etcd::StmOptions;
use crate::client::Lane;
use crate::session::BenchSession;

/// Bytes of the keys: those of `benchmark`.
const KEY_BYTES: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Isolation {
    ReadCommitted,
    RepeatableReads,
    Serializable,
    Snapshot,
}

pub(super) async fn run(session: &mut BenchSession, options: &StmOptions) -> Result<(), String> {
    let keys = u64::try_from(options.keys).ok().filter(|keys| *keys > 0);
    let keys = keys.ok_or_else(|| format!("expected positive --keys, got ({})", options.keys))?;
    if !(0..=100).contains(&options.txn_wr_percent) {
        return Err(format!("expected [0, 100] --txn-wr-percent, got ({})", options.txn_wr_percent));
    }
    let each = u64::try_from(options.keys_per_txn).ok().filter(|each| *each <= keys);
    let each = each.ok_or_else(|| {
        format!("expected --keys-per-txn between 0 and {keys}, got ({})", options.keys_per_txn)
    })?;
    let isolation = match options.isolation.as_str() {
        "c" => Isolation::ReadCommitted,
        "r" => Isolation::RepeatableReads,
        "s" => Isolation::Serializable,
        _ => Isolation::Snapshot,
    };
    let locker = Locker::start(session, &options.stm_locker).await?;
    let writes = (each as f64 * options.txn_wr_percent as f64 / 100.0) as usize;
    let val_size = options.val_size;
    let plan = session.plan(options.total, options.rate);
    let phases = session.drive(plan, &["stm"], move |lane, ticket, recorders| {
        let mut chosen = BTreeSet::new();
        while (chosen.len() as u64) < each {
            chosen.insert(Bytes::from(number_key(fastrand::u64(..keys), KEY_BYTES)));
        }
        let locker = locker.clone();
        async move {
            let locked = match locker.lock(&lane).await {
                Ok(locked) => locked,
                Err(error) => return recorders[0].add_ticket(&ticket, &Err::<(), _>(error)),
            };
            let outcome = transact(&lane, &chosen, writes, val_size, isolation).await;
            let unlocked = locker.unlock(&lane, locked).await;
            recorders[0].add_ticket(&ticket, &outcome.and(unlocked));
        }
    });
    for phase in phases.await {
        session.show(phase);
    }
    Ok(())
}

/// Reads all keys and writes some of them, until nothing came between.
async fn transact(
    lane: &Rc<Lane>,
    keys: &BTreeSet<Bytes>,
    writes: usize,
    val_size: usize,
    isolation: Isolation,
) -> Result<(), CallError> {
    loop {
        let (mut read, mut first_revision) = (Vec::new(), 0);
        for key in keys {
            // As etcd's client does it: the first read asks the quorum where the others depend on it.
            let is_first = first_revision == 0;
            let at_first = matches!(isolation, Isolation::Serializable | Isolation::Snapshot);
            let request = pb::RangeRequest {
                key: key.clone(),
                serializable: !at_first || !is_first,
                revision: if at_first { first_revision } else { 0 },
                ..Default::default()
            };
            let answer: pb::RangeResponse = lane.ask(methods::KV_RANGE, &request).await?;
            if is_first {
                first_revision = answer.header.as_ref().map_or(0, |header| header.revision);
            }
            read.push((key.clone(), answer.kvs.first().map_or(0, |kv| kv.mod_revision)));
        }
        let put = |(key, _): &(Bytes, i64)| {
            let value = random_bytes(val_size).into();
            Request::RequestPut(pb::PutRequest { key: key.clone(), value, ..Default::default() })
        };
        let mut request = txn::transaction(read.iter().take(writes).map(put).collect());
        if isolation != Isolation::ReadCommitted {
            let unchanged = |(key, revision): &(Bytes, i64)| compare(key, CompareResult::Equal, *revision);
            request.compare = read.iter().map(unchanged).collect();
        }
        if isolation == Isolation::Snapshot {
            let unwritten = |(key, _): &(Bytes, i64)| compare(key, CompareResult::Less, first_revision + 1);
            request.compare.extend(read.iter().take(writes).map(unwritten));
        }
        let answer: pb::TxnResponse = lane.ask(methods::KV_TXN, &request).await?;
        if answer.succeeded {
            return Ok(());
        }
    }
}
