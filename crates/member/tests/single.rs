//! One member over a disk in memory: it elects itself, replicates, survives a restart.

mod alone;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use bytes::Bytes;
use consensus::EntryKind;
use log::{CheckpointKind, Disk, Log, LogId, MemDisk, Options, WriteJob};
use member::batch::CommandKind;
use member::group_commit::delay_ns;
use member::{Answer, Input, MemberConfig, Notice, Now, OpenedMember, Output, OwnSync, Proposal, ScrubRate};
use prost::Message;
use store::{Reply, Response};

use alone::config;

struct Alone {
    opened: OpenedMember,
    now_ns: u64,
    /// From one step to the next.
    step_ns: u64,
    next_token: u64,
    output: Output,
}

fn options() -> Options {
    Options { segment_bytes: 1 << 20, ..Options::new(PathBuf::from("/data")) }
}

impl Alone {
    fn start(disk: &Arc<dyn Disk>, start: u64) -> Alone {
        Alone::start_as(disk, config(start))
    }

    fn start_as(disk: &Arc<dyn Disk>, config: MemberConfig) -> Alone {
        let opened = member::open(disk, &options(), config, &member::Sequential).expect("opens");
        Alone { opened, now_ns: 0, step_ns: 1_000_000, next_token: 1, output: Output::default() }
    }

    fn step(&mut self, inputs: Vec<Input>) -> Vec<(u64, Answer)> {
        self.now_ns += self.step_ns;
        let now = Now { monotonic_ns: self.now_ns, wall_ms: self.now_ns / 1_000_000 };
        let member = &mut self.opened.member;
        for input in inputs {
            member.handle(now, input, &mut self.output).expect("handles");
        }
        member.drive(now, &mut self.output).expect("drives");
        let mut done = Vec::new();
        let writes = std::mem::take(&mut self.output.writes);
        if !writes.is_empty() {
            done.push(Input::WritesSynced(WriteJob::run_all(writes, &|| Duration::ZERO)));
        }
        let jobs = std::mem::take(&mut self.output.background);
        done.extend(jobs.into_iter().map(|job| Input::Background(Box::new(job.run()))));
        let mut answers = std::mem::take(&mut self.output.answers);
        // A step applies a slice; the next one follows without an input.
        if !done.is_empty() || self.opened.member.next_due_ns() == Some(0) {
            answers.extend(self.step(done));
        }
        answers
    }

    fn ask(&mut self, input: impl FnOnce(u64) -> Input) -> Answer {
        let token = self.next_token;
        self.next_token += 1;
        let mut answers = self.step(vec![input(token)]);
        for _ in 0..100 {
            if let Some(at) = answers.iter().position(|(answered, _)| *answered == token) {
                return answers.swap_remove(at).1;
            }
            answers.extend(self.step(Vec::new()));
        }
        panic!("no answer");
    }

    fn propose(&mut self, kind: CommandKind, body: &impl Message) -> Response {
        let body = body.encode_to_vec().into();
        let answer =
            self.ask(|token| Input::Propose(Proposal { token, kind, caller: Default::default(), body }));
        let Answer::Applied(Ok(reply)) = answer else { panic!("refused: {answer:?}") };
        store::resolve(&reply, self.opened.values.as_ref()).expect("values are intact")
    }

    fn put(&mut self, key: &str, value: &str) -> i64 {
        let put = pb::PutRequest {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
            ..Default::default()
        };
        let Response::Put(response) = self.propose(CommandKind::Put, &put) else { panic!("another answer") };
        response.header.expect("header").revision
    }

    fn compact(&mut self, revision: i64, physical: bool) -> Answer {
        let body = pb::CompactionRequest { revision, physical }.encode_to_vec().into();
        self.ask(|token| {
            Input::Propose(Proposal {
                token,
                kind: CommandKind::Compaction,
                caller: Default::default(),
                body,
            })
        })
    }

    fn get(&mut self, key: &str) -> Vec<(String, i64)> {
        assert!(matches!(self.ask(|token| Input::Read { token }), Answer::ReadNow));
        let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
        let reply = self.opened.reader.range(&range).expect("in range");
        let response = store::resolve_range(&reply, self.opened.values.as_ref()).expect("values are intact");
        let text = |kv: api::mvccpb::KeyValue| String::from_utf8(kv.value.to_vec()).expect("text");
        response.kvs.into_iter().map(|kv| (text(kv.clone()), kv.mod_revision)).collect()
    }
}

#[test]
fn what_was_put_is_there_after_a_restart() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    assert_eq!(alone.put("a", "1"), 2);
    assert_eq!(alone.put("b", "2"), 3);
    assert_eq!(alone.put("a", "3"), 4);
    assert_eq!(alone.get("a"), [("3".to_owned(), 4)]);
    let hash = alone.opened.reader.state_hash();
    drop(alone);

    let mut again = Alone::start(&disk, 2);
    assert_eq!(again.get("a"), [("3".to_owned(), 4)]);
    assert_eq!(again.get("b"), [("2".to_owned(), 3)]);
    assert_eq!(again.put("c", "4"), 5);
    assert_ne!(again.opened.reader.state_hash(), hash);
}

#[test]
fn an_answer_says_when_its_command_was_on_disk() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    alone.put("a", "1");
    let written = |alone: &Alone| alone.output.counts.waited.last().expect("a caller waited").own_sync;
    // Written in one step, and known to be on disk in the next, which applies.
    assert_eq!(written(&alone), OwnSync { began_us: 1_000, ended_us: 0 });
    alone.step_ns = 1_234_567;
    alone.put("b", "1");
    assert_eq!(written(&alone), OwnSync { began_us: 1_235, ended_us: 0 });
    alone.get("b");
    assert_eq!(written(&alone), OwnSync::default(), "a read writes nothing");
}

#[test]
fn a_restart_counts_nothing_that_was_applied_before() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    let counts = |alone: &Alone| {
        let (counts, status) = (alone.opened.reader.counts(), &alone.opened.status);
        (counts.puts, counts.purged, status.compacted_at_s() > 0)
    };
    alone.now_ns = 2_000_000_000;
    let revision = (0..10).map(|_| alone.put("k", "v")).last().expect("there were puts");
    alone.compact(revision, true);
    assert_eq!(counts(&alone), (10, 9, true));
    // The commit of the last entry is not recorded: it is applied again after the start, and counted.
    alone.put("last", "v");
    drop(alone);
    let mut again = Alone::start(&disk, 2);
    again.now_ns = 2_000_000_000;
    again.put("k", "v");
    (0..10).for_each(|_| drop(again.step(Vec::new())));
    assert_eq!(again.opened.reader.purged(), revision);
    assert_eq!(counts(&again), (2, 0, false));
    assert_eq!(again.output.counts.purged_ns, None);
    again.compact(revision + 2, true);
    assert_eq!(counts(&again), (2, 1, true));
}

#[test]
fn a_graceful_stop_writes_a_checkpoint() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    for number in 0..100 {
        alone.put(&format!("key{number}"), "value");
    }
    alone.step(vec![Input::Stop]);
    for _ in 0..10 {
        alone.step(Vec::new());
    }
    assert!(alone.output.stopped);
    drop(alone);
    let mut again = Alone::start(&disk, 2);
    assert_eq!(again.get("key99"), [("value".to_owned(), 101)]);
}

#[test]
fn a_graceful_stop_leaves_a_long_checkpoint_out() {
    for (max_last_changes_bytes, checkpoints) in [(1 << 20, 1), (1, 0)] {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
        let mut alone = Alone::start_as(&disk, MemberConfig { max_last_changes_bytes, ..config(1) });
        for number in 0..100 {
            alone.put(&format!("key{number}"), "value");
        }
        alone.output.notices.clear();
        alone.step(vec![Input::Stop]);
        assert!(alone.output.stopped);
        let notices = alone.output.notices.iter();
        let written = notices.filter(|notice| matches!(notice, Notice::Checkpoint { .. })).count();
        assert_eq!(written, checkpoints, "past {max_last_changes_bytes} bytes");
        drop(alone);
        assert_eq!(Alone::start(&disk, 2).get("key99"), [("value".to_owned(), 101)]);
    }
}

#[test]
fn a_lease_runs_out_and_takes_its_keys_along() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    alone.propose(CommandKind::LeaseGrant, &pb::LeaseGrantRequest { ttl: 5, id: 77 });
    let put = pb::PutRequest { key: "k".into(), value: "v".into(), lease: 77, ..Default::default() };
    alone.propose(CommandKind::Put, &put);
    alone.now_ns += 4_000_000_000;
    let renewed = alone.ask(|token| Input::Lease { token, lease: 77, renew: true });
    assert!(matches!(renewed, Answer::Lease(member::peer_message::LeaseAnswer::Alive { granted_s: 5, .. })));
    alone.now_ns += 4_500_000_000;
    assert_eq!(alone.get("k").len(), 1, "renewed");
    alone.now_ns += 1_000_000_000;
    alone.step(Vec::new());
    assert_eq!(alone.get("k"), []);
}

fn proposal(token: u64) -> Input {
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    Input::Propose(Proposal {
        token,
        kind: CommandKind::Put,
        caller: Default::default(),
        body: put.encode_to_vec().into(),
    })
}

/// A command that arrives after a large batch waits for the group-commit delay, and only time wakes the member then.
#[test]
fn a_command_after_a_large_batch_leaves_after_the_delay() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    alone.put("a", "1");
    alone.step_ns = 1_000;
    let left_ns = alone.now_ns + alone.step_ns;
    let batch = alone.step((1_000..1_100).map(proposal).collect());
    assert_eq!(batch.len(), 100, "they leave at once, together");
    assert_eq!(alone.step(vec![proposal(2_000)]).len(), 0);
    let due_ns = alone.opened.member.next_due_ns().expect("something waits");
    assert_eq!(due_ns, left_ns + delay_ns(100));
    alone.now_ns = due_ns - alone.step_ns - 1;
    assert_eq!(alone.step(Vec::new()).len(), 0, "too soon");
    assert_eq!(alone.opened.member.next_due_ns(), Some(due_ns));
    alone.now_ns = due_ns - alone.step_ns;
    let answers = alone.step(Vec::new());
    assert!(matches!(answers[..], [(2_000, Answer::Applied(Ok(_)))]), "{answers:?}");
}

/// The clients of several full batches do not wait for each other's clock: each batch leaves when one before it is
/// committed.
#[test]
fn full_batches_follow_each_other_without_delay() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    alone.put("a", "1");
    alone.step_ns = 1_000;
    let begun_ns = alone.now_ns;
    let answers = alone.step((1_000..6_000).map(proposal).collect());
    assert_eq!(answers.len(), 5_000);
    assert!(alone.now_ns - begun_ns < delay_ns(1_000), "within {} ns", alone.now_ns - begun_ns);
}

#[test]
fn refusals_reach_the_caller() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    let body = pb::LeaseRevokeRequest { id: 5 }.encode_to_vec().into();
    let answer = alone.ask(|token| {
        Input::Propose(Proposal { token, kind: CommandKind::LeaseRevoke, caller: Default::default(), body })
    });
    assert!(matches!(answer, Answer::Applied(Err(api::Error::LeaseNotFound))));
    let compacted = alone.compact(1, true);
    assert!(matches!(compacted, Answer::Applied(Ok(Reply::Compaction { .. }))), "{compacted:?}");
}

/// A purge of several steps outlasts the request timeout, and the compaction is answered when its history is gone.
#[test]
fn a_physical_compaction_is_answered_however_long_the_purge_takes() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    let revision = (0..2_000).map(|_| alone.put("hot", "value")).last().expect("there were puts");
    alone.step_ns = config(1).request_timeout_ns() / 4;
    let answer = alone.compact(revision, true);
    assert!(matches!(answer, Answer::Applied(Ok(Reply::Compaction { .. }))), "{answer:?}");
    assert_eq!(alone.opened.reader.purged(), revision);
    let again = alone.compact(revision, true);
    assert!(matches!(again, Answer::Applied(Err(api::Error::Compacted))), "{again:?}");
}

#[test]
fn a_physical_compaction_that_comes_too_late_waits_for_the_purge_too() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    let revision = (0..2_000).map(|_| alone.put("hot", "value")).last().expect("there were puts");
    let first = alone.compact(revision, false);
    assert!(matches!(first, Answer::Applied(Ok(Reply::Compaction { .. }))), "{first:?}");
    assert!(alone.opened.reader.purged() < revision, "a purge takes several steps");
    let second = alone.compact(revision, true);
    assert!(matches!(second, Answer::Applied(Err(api::Error::Compacted))), "{second:?}");
    assert_eq!(alone.opened.reader.purged(), revision);
}

/// Keys live in checkpoints alone once their log is freed: without these the data would be larger than its files.
#[test]
fn the_size_of_the_files_includes_the_checkpoints() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start_as(&disk, MemberConfig { checkpoint_commands: 10, ..config(1) });
    // The last ones may wait for a checkpoint behind a merge.
    for number in 0..120 {
        alone.put(&format!("{number}{}", "k".repeat(1_000)), "");
    }
    // What a checkpoint replaced is removed in the background.
    (0..20).for_each(|_| assert_eq!(alone.step(Vec::new()).len(), 0));
    let dir = PathBuf::from("/data/member/checkpoint");
    let files = disk.list(&dir).expect("the disk is well");
    let length =
        |name: &String| disk.open(&dir.join(name)).and_then(|file| file.length()).expect("it is there");
    let is_checkpoint = |name: &&String| name.ends_with(".base") || name.ends_with(".delta");
    let checkpoints: u64 = files.iter().filter(is_checkpoint).map(length).sum();
    assert!(checkpoints > 100_000, "the keys are there");
    assert_eq!(alone.opened.status.file_bytes(), alone.opened.log.file_bytes() + checkpoints);
    assert!(alone.opened.reader.referenced_bytes() <= alone.opened.status.file_bytes());
}

#[test]
fn a_data_directory_knows_whose_it_is() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start(&disk, 1);
    alone.put("a", "1");
    drop(alone);
    let strange = MemberConfig { cluster_id: 0, member_id: 0, initial_cluster: Vec::new(), ..config(2) };
    let mut again = Alone::start_as(&disk, strange);
    assert_eq!((again.opened.identity.cluster_id, again.opened.identity.member_id), (7, 1));
    assert_eq!(again.get("a"), [("1".to_owned(), 2)]);
}

/// A key that changes forever makes deltas far smaller than the base: they are merged, and the base stays.
#[test]
fn a_chain_of_small_deltas_is_merged() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start_as(&disk, MemberConfig { checkpoint_commands: 1, ..config(1) });
    for number in 0..20 {
        alone.put(&format!("{number}{}", "k".repeat(10_000)), "");
    }
    let list = || disk.list(&PathBuf::from("/data/member/checkpoint")).expect("the disk is well");
    let bases = || list().into_iter().filter(|name| name.ends_with(".base")).collect::<Vec<_>>();
    (0..5).for_each(|_| assert_eq!(alone.step(Vec::new()).len(), 0));
    let (base, mut most) = (bases(), 0);
    for _ in 0..600 {
        alone.put("hot", "value");
        alone.step(Vec::new());
        most = most.max(list().iter().filter(|name| name.ends_with(".delta")).count());
        assert_eq!(bases(), base, "the keys that do not change are not written again");
    }
    // Those that were merged are removed a little later.
    assert!((15..=48).contains(&most), "{most} deltas");
    drop(alone);
    assert_eq!(Alone::start(&disk, 2).get("hot"), [("value".to_owned(), 621)]);
}

/// Every checksum holds, but replaying would begin at another entry than the state ends with.
#[test]
fn a_checkpoint_of_another_entry_than_its_state_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    drop(Alone::start(&disk, 1));
    let mut opened = Log::open(&disk, &options()).expect("the disk is well");
    let checkpoint = opened.recovered.checkpoint.expect("a member begins with one");
    let mut writer = opened.log.begin_checkpoint(CheckpointKind::Base, LogId { index: 9, term: 1 });
    for chunk in checkpoint.files().expect("the disk is well").into_iter().flatten() {
        writer.write(&chunk.expect("the disk is well")).expect("the disk is well");
    }
    opened.log.checkpoint_done(writer.finish()).expect("the disk is well");
    drop(opened.log);
    let refused = member::open(&disk, &options(), config(2), &member::Sequential)
        .err()
        .expect("it is refused")
        .to_string();
    assert!(refused.contains("of entry 1 of term 1, its file of entry 9 of term 1"), "{refused}");
}

/// The process ended after it had made the log, and before the checkpoint with the members.
#[test]
fn a_start_that_was_cut_short_is_not_finished_with_the_flags_of_another_member() {
    let begun = |cluster_id, member_id| {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
        let identity = log::Identity { cluster_id, member_id, incarnation: 5 };
        Log::create(&disk, &options(), identity).expect("the disk is well");
        disk
    };
    let config = || config(1);
    let (cluster_id, member_id) = (config().cluster_id, config().member_id);
    for disk in [begun(cluster_id + 1, member_id), begun(cluster_id, member_id + 1)] {
        let opened = member::open(&disk, &options(), config(), &member::Sequential);
        let refused = opened.err().expect("it is refused").to_string();
        assert!(refused.contains("use the original flags"), "{refused}");
    }
    let opened = member::open(&begun(cluster_id, member_id), &options(), config(), &member::Sequential);
    assert_eq!(opened.expect("the flags are those of then").identity.incarnation, 5);
}

/// With a large `--snapshot-count` a start replays any number of entries.
#[test]
fn more_than_a_million_entries_behind_the_checkpoint_are_replayed() {
    const ENTRIES: u64 = (1 << 20) + 1_000;
    const PART: u64 = 10_000;
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let options = Options { segment_bytes: 64 << 20, ..options() };
    drop(member::open(&disk, &options, config(1), &member::Sequential).expect("a new member"));
    let mut opened = Log::open(&disk, &options).expect("the disk is well");
    let first = opened.recovered.last_index + 1;
    let end = first + ENTRIES;
    for from in (first..end).step_by(PART as usize) {
        let to = (from + PART).min(end);
        let entry =
            |index| log::Entry { term: 1, index, kind: EntryKind::Empty as u8, payload: Bytes::new() };
        let entries: Vec<_> = (from..to).map(entry).collect();
        let hard_state = log::HardState { term: 1, vote: 1, commit: to - 1 };
        let mut sizes = log::RecordSizes::default();
        sizes.add_hard_state();
        entries.iter().for_each(|_| sizes.add_entry(0));
        while !opened.log.make_room(&sizes, None) {
            let job = opened.log.next_job().expect("a segment is to be made");
            opened.log.background_done(job.run()).expect("the disk is well");
        }
        let append = opened.log.append(Some(hard_state), entries);
        opened.log.complete(WriteJob::run_all(vec![append.job], &|| Duration::ZERO)).expect("it is well");
    }
    drop(opened.log);
    let opened = member::open(&disk, &options, config(2), &member::Sequential).expect("it opens");
    assert_eq!(opened.reader.applied().index, end - 1);
}

/// A tick that ends a pause late would make the scrub slower than its rate.
#[test]
fn the_scrub_reads_on_as_soon_as_its_pause_is_over() {
    const SECOND_NS: u64 = 1_000_000_000;
    let scrub = ScrubRate { round_ns: 600 * SECOND_NS, ..ScrubRate::default() };
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
    let mut alone = Alone::start_as(&disk, MemberConfig { scrub, ..config(1) });
    (0..600).for_each(|number| _ = alone.put(&format!("key{number}"), "value"));
    alone.step_ns = 0;
    // When some were read, and how many bytes until then.
    let mut reads = vec![(0, 0)];
    while alone.opened.member.status().scrub_rounds() == 0 {
        alone.now_ns = alone.opened.member.next_due_ns().expect("a tick").max(alone.now_ns);
        alone.step(Vec::new());
        let bytes = alone.opened.member.status().scrubbed_bytes();
        if reads.last().is_some_and(|(_, before)| *before < bytes) {
            reads.push((alone.now_ns, bytes));
        }
    }
    assert!(reads.len() >= 4, "three parts of the values, at least: {reads:?}");
    for read in reads.windows(3) {
        let pause_ns = (read[1].1 - read[0].1) * SECOND_NS / scrub.bytes_per_second;
        assert_eq!(read[2].0 - read[1].0, pause_ns, "{reads:?}");
    }
}
