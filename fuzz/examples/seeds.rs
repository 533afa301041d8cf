//! Writes the seed corpora, from the product's own encoders: `cargo run --example seeds` in this folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use api::{etcdserverpb as pb, membershippb};
use bytes::Bytes;
use consensus::{
    Body, Change, ConfChange, ConfState, Entry, EntryKind, Message as ConsensusMessage, SnapshotMeta,
};
use dbfile::records::{BUCKETS, SmallRecords};
use dbfile::{DbFile, FileLayout, FileWriter};
use harness::input::fixture::{MemberFixture, config};
use harness::input::image;
use harness::input::script::put_bytes;
use harness::store_checkpoint::{Zeros, limits};
use harness::{commands, config as flags, peer_input, strangers};
use log::MemDisk;
use member::Input;
use member::batch::{self, CommandKind, LogCommand, Origin};
use member::lease::Expiry;
use member::peer_message::{LeaseAnswer, LeaseQuestionFields, PeerMessage, Reason, ValueName};
use member::publication::Publish;
use prost::Message;
use store::{BatchContext, CheckpointKind, Store};
use transport::{FrameHeader, HandshakeAnswer, Hello, PeerIdentity, Refusal, StreamClass, StreamKind};

fn main() {
    directories();
    checkpoints();
    snapshots();
    peer_inputs();
    frames();
    batches();
    streams();
    http2_connections();
    strangers();
    requests();
    settings();
    database_file();
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be written");
    fs::write(folder.join(name), bytes).expect("the corpus can be written");
}

fn put(key: &str, value: &str, lease: i64) -> Bytes {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease,
        ..Default::default()
    };
    request.encode_to_vec().into()
}

/// A member alone, through a checkpoint or two.
fn directories() {
    let disk = MemDisk::new();
    let mut fixture = MemberFixture::open(&disk, config(1, 1, 1)).expect("opens");
    write("log_open", "created", &image::describe(&disk.fork()));
    (0..4).for_each(|_| fixture.wait(1000));
    fixture.propose(CommandKind::LeaseGrant, pb::LeaseGrantRequest { id: 5, ttl: 60 }.encode_to_vec().into());
    for number in 0..40 {
        fixture.propose(
            CommandKind::Put,
            put(&format!("key{}", number % 7), "some value", if number == 9 { 5 } else { 0 }),
        );
        (0..4).for_each(|_| fixture.wait(10));
        let image = image::describe(&disk.fork());
        match number {
            3 | 12 | 22 => write("member_open", &format!("after-{number}"), &image),
            39 => write("log_open", "after-39", &image),
            _ => {}
        }
    }
    let compaction = pb::CompactionRequest { revision: 30, physical: true };
    fixture.propose(CommandKind::Compaction, compaction.encode_to_vec().into());
    (0..40).for_each(|_| fixture.wait(100));
    fixture.give(Input::Stop);
    let image = image::describe(&disk.fork());
    write("log_open", "stopped", &image);
    write("member_open", "stopped", &image);
}

/// Bases and a delta of a store with leases, history and deletions.
fn checkpoints() {
    let values = Arc::new(Zeros::default());
    let (mut store, reader) = Store::new(values, limits());
    let mut index = 1;
    let mut apply = |store: &mut Store, commands: &[store::Command]| {
        store.apply_batch(BatchContext::at(index, 2), commands.to_vec()).expect("nothing is compared");
        index += 1;
    };
    apply(&mut store, &[store::Command::LeaseGrant(pb::LeaseGrantRequest { id: 5, ttl: 60 })]);
    for number in 0..12 {
        let lease = if number % 3 == 0 { 5 } else { 0 };
        let key = format!("key{}", number % 5).into();
        apply(&mut store, &[store::Command::Put(pb::PutRequest { key, lease, ..Default::default() })]);
    }
    let base = checkpoint(&mut store, CheckpointKind::Base);
    write("store_checkpoint", "base", &base);
    apply(
        &mut store,
        &[store::Command::DeleteRange(pb::DeleteRangeRequest { key: "key1".into(), ..Default::default() })],
    );
    let revision = reader.current_revision() - 3;
    apply(&mut store, &[store::Command::Compaction(pb::CompactionRequest { revision, physical: false })]);
    let delta = checkpoint(&mut store, CheckpointKind::Delta);
    write("store_checkpoint", "base-and-delta", &[base, delta].concat());
    while !store.purge_step(100) {}
    write("store_checkpoint", "compacted", &checkpoint(&mut store, CheckpointKind::Base));
}

fn checkpoint(store: &mut Store, kind: CheckpointKind) -> Vec<u8> {
    let mut source = store.begin_checkpoint(kind);
    std::iter::from_fn(|| source.next()).collect::<Vec<_>>().concat()
}

/// Three members, of which the first is cut off until the others have forgotten what it needs.
fn snapshots() {
    let mut cluster = Cluster::of(3);
    cluster.cut = Some(1);
    cluster.run(400);
    for number in 0..60 {
        cluster.propose(put(&format!("key{}", number % 5), "some value", 0));
        cluster.run(5);
    }
    cluster.cut = None;
    cluster.members.insert(1, peer_input::member());
    cluster.members.values_mut().for_each(|fixture| (1..=3).for_each(|id| fixture.give(Input::PeerUp(id))));
    cluster.run(400);
    let (from, mut outgoing) = cluster.snapshots.pop().expect("the first member is sent a snapshot");
    let mut script = vec![from as u8];
    put_bytes(&mut script, &outgoing.header());
    while let Some(bytes) = outgoing.next_bytes().expect("values are intact") {
        put_bytes(&mut script, &bytes);
    }
    write("snapshot_stream", "whole", &script);
}

/// What a follower and a leader hear.
fn peer_inputs() {
    for (name, late) in [("follower", 1), ("leader", 0)] {
        let mut cluster = Cluster::of(3);
        if late == 0 {
            cluster.early = Some(1);
        }
        cluster.run(450);
        for number in 0..3 {
            cluster.propose(put(&format!("key{number}"), "v", 0));
            cluster.run(12);
        }
        let script = std::mem::take(&mut cluster.heard);
        assert!(script.len() < 16 << 10, "{name}: a seed is small");
        write("peer_input", name, &script);
    }
}

/// Members that hear each other one step later; what the first one hears is written down.
struct Cluster {
    members: BTreeMap<u64, MemberFixture>,
    snapshots: Vec<(u64, Box<member::snapshot::Outgoing>)>,
    /// Who hears and says nothing.
    cut: Option<u64>,
    /// For whom time begins before it does for the others.
    early: Option<u64>,
    heard: Vec<u8>,
    waited: u64,
}

impl Cluster {
    fn of(size: u64) -> Cluster {
        let open = |id| (id, MemberFixture::open(&MemDisk::new(), config(id, size, 1)).expect("opens"));
        let mut members: BTreeMap<u64, MemberFixture> = (1..=size).map(open).collect();
        for (id, fixture) in &mut members {
            (1..=size).filter(|peer| peer != id).for_each(|peer| fixture.give(Input::PeerUp(peer)));
        }
        Cluster { members, snapshots: Vec::new(), cut: None, early: None, heard: Vec::new(), waited: 0 }
    }

    fn propose(&mut self, body: Bytes) {
        let leader = self.members.iter().find(|(id, fixture)| fixture.opened.status.leader() == **id);
        let leader = *leader.expect("there is a leader").0;
        if leader == 1 {
            self.flush_wait();
            self.heard.push(2);
            put_bytes(&mut self.heard, &body);
        }
        self.members.get_mut(&leader).expect("it leads").propose(CommandKind::Put, body);
    }

    fn run(&mut self, steps: usize) {
        for step in 0..steps {
            for (id, fixture) in &mut self.members {
                if self.early.is_none_or(|early| early == *id || step > 250) {
                    fixture.wait(peer_input::WAIT_MS);
                }
            }
            self.waited += 1;
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        let mut frames = Vec::new();
        for (from, fixture) in &mut self.members {
            frames.extend(fixture.frames.drain(..).map(|(to, frame)| (*from, to, frame)));
            self.snapshots.extend(fixture.snapshots.drain(..).map(|snapshot| (*from, snapshot)));
        }
        for (from, to, frame) in frames {
            if self.cut == Some(from) || self.cut == Some(to) {
                continue;
            }
            if to == 1 {
                self.flush_wait();
                peer_input::put_frame(&mut self.heard, from, &frame);
            }
            if let Some(fixture) = self.members.get_mut(&to) {
                fixture.give(Input::Frame { from, bytes: frame });
            }
        }
    }

    fn flush_wait(&mut self) {
        while self.waited > 0 {
            let units = self.waited.min(255);
            self.heard.extend([peer_input::WAIT, units as u8]);
            self.waited -= units;
        }
    }
}

fn frames() {
    let name = ValueName { main: 5, sub: 1, len: 2, checksum: 9, key: Bytes::from_static(b"k") };
    let frames = [
        PeerMessage::Forward(batch::encode(7, &sample_commands())),
        PeerMessage::Refused { reason: Reason::NoSpace, run: 7, sequences: vec![1, 2] },
        PeerMessage::ReadQuestion(7, 3),
        PeerMessage::ReadAnswer(7, 3, Some(8)),
        PeerMessage::LeaseQuestions(7, vec![LeaseQuestionFields { sequence: 1, lease: 2, renew: true }]),
        PeerMessage::LeaseAnswers(7, vec![(1, LeaseAnswer::Alive { remaining_s: 5, granted_s: 9 })]),
        PeerMessage::StateHash { index: 1, hash: 2 },
        PeerMessage::ValueQuestion(name.clone()),
        PeerMessage::ValueAnswer(name, Some(Bytes::from_static(b"vv"))),
        PeerMessage::EntryQuestion { index: 1, term: 2 },
        PeerMessage::EntryAnswer { index: 1, term: 2, entry: Some((0, Bytes::from_static(b"payload"))) },
    ];
    for (number, frame) in frames.iter().enumerate() {
        write("peer_frame", &format!("frame-{number:02}"), &frame.encode().concat());
    }
    for (number, body) in bodies().into_iter().enumerate() {
        let message = ConsensusMessage { from: 2, to: 1, term: 3, body };
        write(
            "peer_frame",
            &format!("message-{number}"),
            &PeerMessage::of_consensus(message.encode()).concat(),
        );
    }
    let change = ConfChange::single(Change::AddLearner(4), Bytes::from_static(b"context"));
    write("peer_frame", "conf-change", &change.encode());
}

fn bodies() -> Vec<Body> {
    let entry = |index, kind, payload: &'static [u8]| Entry { term: 2, index, kind, payload: payload.into() };
    let entries = vec![entry(2, EntryKind::Batch, b"batch"), entry(3, EntryKind::Empty, b"")];
    let conf_state = ConfState::of_voters([1, 2, 3]);
    vec![
        Body::Append { previous_index: 1, previous_term: 1, commit: 1, entries },
        Body::AppendRejected { index: 3, hint_index: 2, hint_term: 1, commit: 1 },
        Body::Vote { pre: true, transfer: false, last_index: 3, last_term: 2, commit: 1, commit_term: 1 },
        Body::VoteResponse { pre: false, granted: true, commit: 1, commit_term: 1 },
        Body::Snapshot(SnapshotMeta { index: 9, term: 2, conf_state }),
        Body::LeadershipCheck { round: 4 },
    ]
}

fn sample_commands() -> Vec<LogCommand> {
    let command = |sequence, kind, body| LogCommand {
        origin: Origin { member: 1 + sequence % 2, run: 5 },
        sequence,
        kind,
        auth: Bytes::new(),
        body,
    };
    let delete = pb::DeleteRangeRequest { key: "a".into(), range_end: "z".into(), prev_kv: true };
    vec![
        command(1, CommandKind::Put, put("key", "value", 0)),
        command(2, CommandKind::DeleteRange, delete.encode_to_vec().into()),
        command(3, CommandKind::LeaseExpire, Expiry { term: 2, leases: vec![5, 6] }.encode()),
    ]
}

fn publish() -> Publish {
    let client_urls = vec!["http://10.0.0.1:2379".into()];
    Publish { member: 1, incarnation: 91, name: "m1".into(), client_urls }
}

fn batches() {
    write("batch", "three", &batch::encode(7, &sample_commands()));
    write("batch", "none", &batch::encode(0, &[]));
    write("batch", "publish", &publish().encode());
    write("batch", "expiry", &Expiry { term: 2, leases: vec![5, 6] }.encode());
}

fn streams() {
    let from = PeerIdentity { cluster_id: 7, member_id: 1, incarnation: 91 };
    let hello = Hello::new(from, 2, StreamKind::Messages(StreamClass::Bulk));
    write("transport_frame", "hello", &hello.encode());
    write(
        "transport_frame",
        "answer",
        &HandshakeAnswer { from, verdict: Ok(transport::MAX_VERSION) }.encode(),
    );
    let refusal = Refusal::new(transport::RefusalReason::VersionTooOld, "you are too old".to_owned());
    write("transport_frame", "refusal", &HandshakeAnswer { from, verdict: Err(refusal) }.encode());
    let stream: Vec<u8> =
        [(transport::FrameKind::Message, "a message"), (transport::FrameKind::Ping, "01234567")]
            .into_iter()
            .flat_map(|(kind, body)| {
                let header = FrameHeader::of(kind, &[body.into()], 1024).expect("it is short");
                [&header.encode()[..], body.as_bytes()].concat()
            })
            .collect();
    write("transport_frame", "stream", &stream);
}

fn http2_connections() {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 1, 0]);
    // `:method: POST`, `:scheme: http`, a path that is added to the table; then the same by reference.
    let first = b"\x83\x86\x44\x0d/etcdserverpb\x40\x02te\x08trailers";
    let call = |stream, head: &[u8]| {
        [frame(1, 4, stream, head), frame(0, 1, stream, b"\0\0\0\0\x02\x0a\0")].concat()
    };
    let calls = [&[7][..], &settings, &call(1, first), &call(3, b"\x83\x86\xbf\xbe")].concat();
    write("http2", "calls", &calls);
    let huffman = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let parts = [frame(1, 0, 1, &huffman[..5]), frame(9, 4, 1, &huffman[5..])].concat();
    let control = [frame(6, 0, 0, b"12345678"), frame(8, 0, 1, &[0, 0, 1, 0]), frame(3, 0, 1, &[0, 0, 0, 8])];
    write("http2", "control", &[&[1][..], &settings, &parts, &control.concat()].concat());
}

/// Their seeds are taken by their targets, too.
fn strangers() {
    for (target, name, bytes) in strangers::seeds() {
        write(target, name, &bytes);
        match target {
            "tokens" => strangers::tokens::run(&bytes),
            "gateway" => strangers::gateway_requests::run(&bytes),
            "grpc_request" => strangers::grpc_request::run(&bytes),
            "hpack" => strangers::hpack::run(&bytes),
            "certificates" => strangers::certificates::run(&bytes),
            _ => strangers::first_bytes::run(&bytes),
        }
    }
}

fn requests() {
    let script = |name: &str, requests: &[(u8, Vec<u8>)]| {
        let mut script = Vec::new();
        for (number, body) in requests {
            script.push(*number);
            put_bytes(&mut script, body);
        }
        write("commands", name, &script);
    };
    let put = |key: &str, value: &str, lease| (CommandKind::Put as u8, put(key, value, lease).to_vec());
    let delete = pb::DeleteRangeRequest { key: "a".into(), range_end: "z".into(), prev_kv: true };
    let range = pb::RangeRequest { key: "a".into(), range_end: "z".into(), limit: 2, ..Default::default() };
    let watch = pb::WatchCreateRequest {
        key: "a".into(),
        range_end: "z".into(),
        start_revision: 1,
        prev_kv: true,
        progress_notify: true,
        fragment: true,
        ..Default::default()
    };
    let watch = (commands::WATCH, watch.encode_to_vec());
    script("puts", &[watch.clone(), put("a", "1", 0), put("b", "2", 0), put("a", "3", 0)]);
    let read = range.encode_to_vec();
    let delete = (CommandKind::DeleteRange as u8, delete.encode_to_vec());
    let hash = (commands::HASH_KV, pb::HashKvRequest { revision: 0 }.encode_to_vec());
    let compact = pb::CompactionRequest { revision: 3, physical: true }.encode_to_vec();
    let compact = (CommandKind::Compaction as u8, compact);
    let ranges = [(commands::RANGE, read.clone()), (commands::RANGE_STREAM, read)];
    script("reads", &[&[put("a", "1", 0), put("b", "", 0)], &ranges[..], &[hash.clone()]].concat());
    script("history", &[put("a", "1", 0), put("a", "2", 0), delete, compact, watch, hash]);
    let grant = (CommandKind::LeaseGrant as u8, pb::LeaseGrantRequest { id: 5, ttl: 2 }.encode_to_vec());
    let revoke = (CommandKind::LeaseRevoke as u8, pb::LeaseRevokeRequest { id: 5 }.encode_to_vec());
    let wait = (commands::WAIT, vec![0; 4]);
    script("leases", &[grant.clone(), put("a", "1", 5), wait, grant, put("b", "2", 5), revoke]);
    script("transactions", &[put("a", "1", 0), (CommandKind::Txn as u8, txn().encode_to_vec())]);
    let alarm = pb::AlarmRequest { action: 1, member_id: 1, alarm: 1 }.encode_to_vec();
    let version = membershippb::ClusterVersionSetRequest { ver: "3.7.0".into() }.encode_to_vec();
    let publish = (CommandKind::Publish as u8, publish().encode().to_vec());
    let expiry = (CommandKind::LeaseExpire as u8, Expiry { term: 2, leases: vec![5, 6] }.encode().to_vec());
    let (alarm, version) = ((CommandKind::Alarm as u8, alarm), (CommandKind::ClusterVersion as u8, version));
    script("members", &[alarm, version, publish, expiry]);
}

fn txn() -> pb::TxnRequest {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    use pb::request_op::Request;
    let op = |request| pb::RequestOp { request: Some(request) };
    let compare = pb::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Value as i32,
        key: "a".into(),
        target_union: Some(TargetUnion::Value("1".into())),
        ..Default::default()
    };
    let put = pb::PutRequest { key: "b".into(), value: "2".into(), prev_kv: true, ..Default::default() };
    let range = pb::RangeRequest { key: "a".into(), sort_target: 3, sort_order: 2, ..Default::default() };
    let inner = pb::TxnRequest { success: vec![op(Request::RequestPut(put))], ..Default::default() };
    pb::TxnRequest {
        compare: vec![compare],
        success: vec![op(Request::RequestTxn(inner)), op(Request::RequestRange(range.clone()))],
        failure: vec![op(Request::RequestRange(range))],
    }
}

fn settings() {
    let config = |name: &str, texts: &[(u8, &str)]| {
        let mut script = Vec::new();
        for (sort, text) in texts {
            script.push(*sort);
            put_bytes(&mut script, text.as_bytes());
        }
        write("config", name, &script);
    };
    let argument = flags::ARGUMENT;
    let cluster = "--initial-cluster=a=http://10.0.0.1:2380,b=http://[::1]:2380";
    let urls = ["--initial-advertise-peer-urls", "http://10.0.0.1:2380"].map(|text| (argument, text));
    config("cluster", &[&[(argument, "--name=a"), (argument, cluster)], &urls[..]].concat());
    let durations = [
        "--grpc-keepalive-min-time=1h30m",
        "--warning-apply-duration=1.5s",
        "--auto-compaction-retention=10m",
    ];
    config("durations", &durations.map(|text| (argument, text)));
    let numbers =
        ["--quota-backend-bytes=0x1000", "--max-txn-ops=10", "--election-timeout=500", "--pre-vote=false"];
    config("numbers", &numbers.map(|text| (argument, text)));
    config(
        "variables",
        &[(flags::VARIABLE, "ETCD_NAME=m1"), (flags::VARIABLE, "ETCD_LISTEN_CLIENT_URLS=unix://sock:1")],
    );
    let file = "name: m1\nheartbeat-interval: 100\nlisten-client-urls: http://127.0.0.1:2379\n\
                client-transport-security:\n  auto-tls: false\nauto-compaction-retention: \"1h\"\n";
    config("file", &[(flags::FILE, file)]);
}

/// The records of a real etcd, written by our writer.
fn database_file() {
    let snapshot: &[u8] = include_bytes!("../../crates/dbfile/tests/golden/etcd.snapshot.db");
    let records = SmallRecords::read(&DbFile::open(snapshot).expect("intact")).expect("etcd's");
    let mut layout = FileLayout::default();
    for bucket in BUCKETS {
        layout.bucket(bucket).expect("buckets ascend");
        records.visit(bucket, &mut |key, value| layout.pair(key.len(), value.len())).expect("it fits");
    }
    let mut writer =
        FileWriter::new(Vec::new(), layout.finish().expect("it fits")).expect("memory takes all");
    for bucket in BUCKETS {
        writer.bucket(bucket).expect("buckets ascend");
        records.visit(bucket, &mut |key, value| writer.pair(key, value)).expect("records are in order");
    }
    write("database_file", "records", &writer.finish().expect("as laid out"));
}
