//! Reading a stream as a client does, and short ways to ask.
use api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use prost::Message;

use super::world::{CLUSTER, MEMBER, TERM};
use crate::watch::{NextResponse, WatchStream};

/// The next response, `None` when the stream is idle. Panics on a damaged value.
pub(super) fn respond(stream: &mut WatchStream) -> Option<WatchResponse> {
    loop {
        match stream.next(TERM).expect("no value is damaged") {
            NextResponse::Send(encoded) => {
                assert_eq!(encoded.len(), encoded.to_bytes().len());
                let response = WatchResponse::decode(encoded.to_bytes()).expect("it is a response");
                let header = response.header.as_ref().expect("a response has a header");
                assert_eq!((header.cluster_id, header.member_id, header.raft_term), (CLUSTER, MEMBER, TERM));
                return Some(response);
            }
            NextResponse::Busy => continue,
            NextResponse::Idle => return None,
        }
    }
}

/// All responses until the stream is idle.
pub(super) fn drain(stream: &mut WatchStream) -> Vec<WatchResponse> {
    std::iter::from_fn(|| respond(stream)).collect()
}

pub(super) fn revision(response: &WatchResponse) -> i64 {
    response.header.as_ref().map_or(0, |header| header.revision)
}

/// The mod revisions of a response's events.
pub(super) fn revisions(response: &WatchResponse) -> Vec<i64> {
    response.events.iter().flat_map(|event| &event.kv).map(|kv| kv.mod_revision).collect()
}

/// A request to watch one key from a revision on.
pub(super) fn watch(key: &'static str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), start_revision, ..Default::default() }
}

/// A request to watch all keys from a revision on.
pub(super) fn watch_all(start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest { range_end: vec![0].into(), ..watch("", start_revision) }
}
