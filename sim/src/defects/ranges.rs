//! Ranges, as a defective member would answer them.

use std::collections::BTreeMap;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use member::OpenedMember;
use store::resolve_range;

/// Replaces each value by the first one that was returned for its key: a cache whose key is not the value's log
/// address.
pub(crate) fn serve_cached(cached: &mut BTreeMap<Bytes, Bytes>, response: &mut pb::RangeResponse) {
    for kv in response.kvs.iter_mut().filter(|kv| !kv.value.is_empty()) {
        kv.value = cached.entry(kv.key.clone()).or_insert_with(|| kv.value.clone()).clone();
    }
}

/// The response to a range without the keys whose values cannot be read.
pub(crate) fn without_damaged(
    opened: &OpenedMember,
    request: &pb::RangeRequest,
) -> Result<pb::RangeResponse, Error> {
    let mut reply = opened.reader.range(request)?;
    loop {
        match resolve_range(&reply, opened.values.as_ref()) {
            Ok(response) => return Ok(response),
            Err(damaged) => reply.kvs.retain(|kv| kv.value.address != damaged.address),
        }
    }
}
