//! What a peer forwards is checked before it is proposed: an entry of the log always decodes, now and at each replay.

use bytes::Bytes;
use member::batch::{self, CommandKind, LogCommand, Origin};
use member::{Input, Notice};

use crate::rig::Cluster;

/// The kind of a frame with forwarded commands, see `peer_message`.
const FORWARD: u8 = 2;

/// The offset of a batch's version, and of the kind of its first command if it has one origin.
const VERSION_AT: usize = 0;
const KIND_AT: usize = 32;

fn put(member: u64, body: &'static [u8]) -> LogCommand {
    LogCommand {
        origin: Origin { member, run: 1 },
        sequence: 1,
        kind: CommandKind::Put,
        auth: Bytes::new(),
        body: Bytes::from_static(body),
    }
}

fn with(batch: &Bytes, at: usize, byte: u8) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[at] = byte;
    bytes.into()
}

#[test]
fn a_batch_that_members_could_not_apply_is_not_proposed() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.run(200);
    cluster.settle();
    let (leader, follower) = (cluster.leader().expect("somebody leads"), cluster.follower());
    assert_eq!(cluster.nodes[&leader].disconnected, [], "no peer has sent anything bad yet");
    let before = cluster.nodes[&leader].opened.status.applied_index();
    let good = batch::encode(7, &[put(follower, b"")]);
    let batches = [
        with(&good, VERSION_AT, 99),
        with(&good, KIND_AT, 99),
        good.slice(..good.len() - 1),
        Bytes::from_iter(good.iter().copied().chain([0])),
        Bytes::new(),
        batch::encode(7, &[put(leader, b"")]),
        batch::encode(7, &[put(follower, b""), put(leader, b"")]),
        // No append could carry it to the other members.
        batch::encode(7, &[LogCommand { body: vec![0; (32 << 20) + 1].into(), ..put(follower, b"") }]),
    ];
    let count = batches.len();
    for batch in batches {
        let bytes = [&[FORWARD], &batch[..]].concat().into();
        cluster.give(leader, Input::Frame { from: follower, bytes });
    }
    cluster.run(200);
    let node = &cluster.nodes[&leader];
    let rejected = node.notices.iter().filter(|notice| matches!(notice, Notice::BadFrame { .. }));
    assert_eq!(rejected.count(), count);
    assert_eq!(node.disconnected, vec![follower; count], "its connections are closed each time");
    assert_eq!(node.opened.status.applied_index(), before, "nothing was proposed");
}

#[test]
fn a_request_that_does_not_decode_has_no_effect_on_any_member_also_when_it_is_replayed() {
    let mut cluster = Cluster::new(3, |_| {});
    let (leader, follower) = (cluster.leader().expect("somebody leads"), cluster.follower());
    let batch = batch::encode(7, &[put(follower, b"\xff\xff\xff")]);
    cluster.give(leader, Input::Frame { from: follower, bytes: [&[FORWARD], &batch[..]].concat().into() });
    cluster.put("k", "v");
    cluster.settle();
    for id in 1..=3 {
        cluster.stop(id);
        cluster.start(id);
        cluster.settle();
    }
    cluster.put("k", "w");
    cluster.settle();
    cluster.assert_equal();
    assert_eq!(cluster.nodes[&1].opened.reader.current_revision(), 3, "two puts were applied");
}
