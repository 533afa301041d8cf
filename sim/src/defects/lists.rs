//! What a defective list would tell.

use std::collections::BTreeMap;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use member::Opened;
use store::resolve_range;

/// Takes the values that were shown first under their keys for those of now: a cache that is not asked by place, length
/// and checksum.
pub(crate) fn serve_kept(kept: &mut BTreeMap<Bytes, Bytes>, response: &mut pb::RangeResponse) {
    for kv in response.kvs.iter_mut().filter(|kv| !kv.value.is_empty()) {
        kv.value = kept.entry(kv.key.clone()).or_insert_with(|| kv.value.clone()).clone();
    }
}

/// A range without the keys whose values cannot be read.
pub(crate) fn without_damaged(
    opened: &Opened,
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
