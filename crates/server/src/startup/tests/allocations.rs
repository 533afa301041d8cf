//! How often a unary call allocates. Each allocation is some tens of nanoseconds of a call of some thousands; what is
//! counted here is what may be saved, and may not be lost again without notice.

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;

use super::served::ServedMember;

/// Calls over which is counted.
const CALLS: u64 = 200;

/// Measured: 10. Beside the calls, only the worker's own measurement of its delays runs on the thread.
const MAX_SERIALIZABLE: f64 = 10.5;

/// Measured: 21.1, an iteration among them, which allocates on other threads if those run it. The rest is for ticks of
/// a slow machine.
const MAX_LINEARIZABLE: f64 = 24.0;

/// Measured: 21.8, with the iteration that proposes. The one that applies may run on this thread too.
const MAX_PUT: f64 = 36.0;

/// Allocations of a call of this method, on the thread that serves it. The raft loop's iterations are among them when
/// that thread runs them, so the count of a call that asks the loop may be smaller.
fn allocations(path: &'static str, message: Vec<u8>) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut member, mut request) = runtime.block_on(async {
        let mut member = ServedMember::start().await;
        let put = pb::PutRequest { key: "key".into(), value: vec![7; 256].into(), ..Default::default() };
        let mut put = member.client.request(methods::KV_PUT, &put.encode_to_vec()).await;
        member.client.call(&mut put).await;
        let request = member.client.request(path, &message).await;
        (member, request)
    });
    let mut calls = || {
        runtime.block_on(async {
            for _ in 0..CALLS {
                member.client.call(&mut request).await;
            }
        })
    };
    // Buffers grow to the room that they keep.
    calls();
    let counted = allocation_counter::measure(calls);
    drop(member);
    counted.count_total as f64 / CALLS as f64
}

fn get(serializable: bool) -> Vec<u8> {
    pb::RangeRequest { key: "key".into(), serializable, ..Default::default() }.encode_to_vec()
}

#[test]
fn a_serializable_get_allocates_no_more() {
    let count = allocations(methods::KV_RANGE, get(true));
    assert!(count <= MAX_SERIALIZABLE, "{count} allocations");
}

#[test]
fn a_linearizable_get_allocates_no_more() {
    let count = allocations(methods::KV_RANGE, get(false));
    assert!(count <= MAX_LINEARIZABLE, "{count} allocations");
}

#[test]
fn a_put_allocates_no_more() {
    let put = pb::PutRequest { key: "key".into(), value: vec![7; 256].into(), ..Default::default() };
    let count = allocations(methods::KV_PUT, put.encode_to_vec());
    assert!(count <= MAX_PUT, "{count} allocations");
}
