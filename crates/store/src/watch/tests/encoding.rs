//! The hand-written encoding against the generated types.
use std::sync::Arc;

use api::etcdserverpb::{ResponseHeader, WatchResponse};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use prost::Message;

use super::world::{World, message};
use crate::watch::block::EventBlock;
use crate::watch::encode::{self, ResponseHead, ResponseIdentity};
use crate::{Event, EventKind, KvRef, Revision, ValueRef};

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(i64::MAX), Just(-1), 0..300_i64, any::<i64>()]
}

fn kv() -> impl Strategy<Value = KvRef> {
    let key = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    (key, [number(), number(), number(), number()], any::<u64>(), 0..400_u32).prop_map(
        |(key, n, address, len)| KvRef {
            key,
            create_revision: n[0],
            mod_revision: Revision { main: n[1], sub: 0 },
            version: n[2],
            lease: n[3],
            value: ValueRef { address, len, checksum: 0 },
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![Just(EventKind::Put), Just(EventKind::Delete)];
    (kind, kv(), prop::option::of(kv())).prop_map(|(kind, kv, prev)| Event { kind, kv, prev })
}

fn head() -> impl Strategy<Value = ResponseHead> {
    (number(), number(), any::<[bool; 3]>(), number(), ".{0,40}").prop_map(
        |(revision, watch_id, [created, canceled, fragment], compact_revision, reason)| ResponseHead {
            revision,
            watch_id,
            created,
            canceled,
            compact_revision,
            cancel_reason: reason.into(),
            fragment,
        },
    )
}

proptest! {
    #[test]
    fn equals_the_generated_encoding(
        head in head(),
        events in prop::collection::vec(event(), 0..8),
        ids in any::<[u64; 3]>(),
        prev_kv: bool,
    ) {
        let world = World::new();
        let encoded = encode::events(events.iter(), prev_kv, &*world).expect("nothing is damaged");
        let [cluster_id, member_id, raft_term] = ids;
        let front = head.encode(ResponseIdentity { cluster_id, member_id }, raft_term, &mut BytesMut::new(), 1);
        let ours = [front, encoded.slice(0, events.len())].concat();
        let theirs = WatchResponse {
            header: Some(ResponseHeader { cluster_id, member_id, revision: head.revision, raft_term }),
            watch_id: head.watch_id,
            created: head.created,
            canceled: head.canceled,
            compact_revision: head.compact_revision,
            cancel_reason: head.cancel_reason.to_string(),
            fragment: head.fragment,
            events: events.iter().map(|event| message(event, prev_kv)).collect(),
        };
        prop_assert_eq!(ours, theirs.encode_to_vec());
    }

    #[test]
    fn cuts_between_revisions_only(
        mains in prop::collection::vec((1..4_i64, 0..50_u32), 1..40),
        max in 1..400_usize,
    ) {
        let mut main = 0;
        let events: Arc<[Event]> = mains.iter().map(|(step, len)| {
            main += step / 2;
            let value = ValueRef { address: 1, len: *len, checksum: 0 };
            let mod_revision = Revision { main, sub: 0 };
            let kv = KvRef { key: "k".into(), create_revision: 0, mod_revision, version: 1, lease: 0, value };
            Event { kind: EventKind::Put, kv, prev: None }
        }).collect();
        let picked: Vec<u32> = (0..events.len() as u32).collect();
        let blocks = EventBlock::cut(&events, &picked, false, max);
        prop_assert_eq!(blocks.iter().map(EventBlock::len).sum::<usize>(), events.len());
        for pair in blocks.windows(2) {
            prop_assert!(pair[0].last_revision() < pair[1].first_revision());
        }
        for block in &blocks {
            let one = block.first_revision() == block.last_revision();
            prop_assert!(one || block.weight() <= max);
        }
    }
}
