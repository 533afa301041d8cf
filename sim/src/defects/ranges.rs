//! Ranges, as a defective member would answer them.

use std::collections::BTreeMap;

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;
use member::OpenedMember;
use store::{PermittedRange, Reader, resolve_range};

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

/// What is left of a streamed range of which these keys have arrived, at the newest revision; `None` at its end.
pub(crate) fn rest_at_newest(
    reader: &Reader,
    request: &pb::RangeRequest,
    arrived: &pb::RangeResponse,
) -> Option<PermittedRange> {
    let last = arrived.kvs.last().filter(|_| arrived.header.is_none())?;
    let key = Bytes::from([&last.key[..], &[0]].concat());
    let limit = (request.limit - arrived.kvs.len() as i64).max(0);
    let rest = pb::RangeRequest { key, revision: 0, limit, ..request.clone() };
    let stream = reader.range_stream(&rest).ok()?;
    Some(PermittedRange::new(reader, request, stream))
}
