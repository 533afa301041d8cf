//! `range`.

use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use ctl::CallError;
use prost::Message;

use super::keys::say_consistency;
use crate::cli::etcd::RangeOptions;
use crate::client::Lane;
use crate::session::BenchSession;

pub(super) async fn run(session: &mut BenchSession, options: &RangeOptions) -> Result<(), String> {
    if options.paginate && options.limit <= 0 {
        return Err("--paginate needs a positive --limit: the keys of a page".to_owned());
    }
    say_consistency(&options.consistency);
    let key = |number: usize| options.keys.get(number).map(|key| Bytes::copy_from_slice(key.as_bytes()));
    let first = key(0).unwrap_or_default();
    let range_end = if options.prefix { api::prefix_end(&first) } else { key(1).unwrap_or_default() };
    let request = pb::RangeRequest {
        key: first,
        range_end,
        limit: options.limit,
        serializable: options.consistency == "s",
        keys_only: options.keys_only,
        count_only: options.count_only,
        ..Default::default()
    };
    let encoded: Rc<[u8]> = request.encode_to_vec().into();
    let (request, paginate, stream) = (Rc::new(request), options.paginate, options.stream);
    let plan = session.plan(options.total, options.rate);
    let phases = session.drive(plan, &["range"], move |lane, ticket, recorders| {
        let (request, encoded) = (Rc::clone(&request), Rc::clone(&encoded));
        async move {
            let outcome = match (paginate, stream) {
                (true, _) => pages(&lane, &request).await.map(drop),
                (_, true) => read_stream(&lane, &encoded).await,
                _ => lane.call(methods::KV_RANGE, &encoded).await.map(drop),
            };
            recorders[0].add_ticket(&ticket, &outcome);
        }
    });
    for phase in phases.await {
        session.show(phase);
    }
    Ok(())
}

/// Reads a whole range in pages, all at the revision of the first, and returns the number of keys.
///
/// # Errors
/// What the server answered.
pub(crate) async fn pages(lane: &Lane, request: &pb::RangeRequest) -> Result<usize, CallError> {
    let (mut page, mut keys) = (request.clone(), 0);
    loop {
        let answer = Bytes::from(lane.call(methods::KV_RANGE, &page.encode_to_vec()).await?);
        let answer = pb::RangeResponse::decode(answer);
        let answer = answer.map_err(|error| CallError::status(13, error.to_string()))?;
        keys += answer.kvs.len();
        let Some(last) = answer.kvs.last().filter(|_| answer.more) else { return Ok(keys) };
        page.key = [&last.key[..], &[0]].concat().into();
        page.revision = answer.header.map_or(0, |header| header.revision);
    }
}

async fn read_stream(lane: &Lane, request: &[u8]) -> Result<(), CallError> {
    let talk = lane.stream(methods::KV_RANGE_STREAM, request, true).await?;
    while talk.next().await?.is_some() {}
    Ok(())
}
