//! Background jobs of a lone member that take long: what begins meanwhile, and what goes on when they end.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use log::{Disk, MemDisk, WriteJob};
use member::batch::CommandKind;
use member::jobs::Job;
use member::{Input, MemberConfig, Now, OpenedMember, Output, Proposal};
use prost::Message;

use crate::rig::options;

#[path = "../alone/mod.rs"]
mod alone;

use alone::{TICK_NS, config};

struct Lone {
    opened: OpenedMember,
    now_ns: u64,
    next_token: u64,
}

impl Lone {
    fn start(config: MemberConfig) -> Lone {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::default());
        let opened = member::open(&disk, &options(), config, &member::Sequential).expect("opens");
        Lone { opened, now_ns: 0, next_token: 1 }
    }

    /// Handles inputs and all that follows from them at once. Returns the jobs of the `held` kinds that begin, in
    /// order, and runs all others.
    fn step(&mut self, mut inputs: Vec<Input>, held: &[&str]) -> Vec<Job> {
        let now = Now { monotonic_ns: self.now_ns, wall_ms: 0 };
        let (mut jobs, mut output) = (Vec::new(), Output::default());
        loop {
            for input in inputs.drain(..) {
                self.opened.member.handle(now, input, &mut output).expect("handles");
            }
            self.opened.member.drive(now, &mut output).expect("drives");
            let writes = std::mem::take(&mut output.writes);
            if !writes.is_empty() {
                inputs.push(Input::WritesSynced(WriteJob::run_all(writes, &|| Duration::ZERO)));
            }
            for job in std::mem::take(&mut output.background) {
                match held.contains(&job.kind()) {
                    true => jobs.push(job),
                    false => inputs.push(done(job)),
                }
            }
            if inputs.is_empty() {
                return jobs;
            }
        }
    }

    fn proposal(&mut self, kind: CommandKind, body: &impl Message) -> Input {
        let token = self.next_token;
        self.next_token += 1;
        let body = body.encode_to_vec().into();
        Input::Propose(Proposal { token, kind, caller: Default::default(), body })
    }

    fn put(&mut self, key: String, value: String) -> Input {
        let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        self.proposal(CommandKind::Put, &put)
    }

    fn compaction(&mut self, revision: i64) -> Input {
        self.proposal(CommandKind::Compaction, &pb::CompactionRequest { revision, physical: false })
    }
}

fn done(job: Job) -> Input {
    Input::Background(Box::new(job.run()))
}

/// A checkpoint and a copy run one after the other, and nothing is purged from the beginning of a checkpoint to its
/// end: so it neither waits for a copy that runs, nor for the next one.
#[test]
fn a_checkpoint_that_frees_files_begins_before_a_copy_and_never_during_one() {
    const STEP_NS: u64 = 50_000_000;
    /// A copy takes 12 s: longer than a checkpoint that frees anything is waited for.
    const COPY_STEPS: u64 = 240;
    let mut lone = Lone::start(config(1));
    lone.step(Vec::new(), &[]);
    let (mut done_later, mut copy, mut begun) = (Vec::new(), None, Vec::new());
    for step in 0..2_400_u64 {
        lone.now_ns += STEP_NS;
        let mut inputs = std::mem::take(&mut done_later);
        for number in step * 5..step * 5 + 5 {
            // Of each file a twentieth lives on, so that it is emptied; where all of it is "key", it can go.
            let is_kept = number.is_multiple_of(20) && number % 4_000 < 2_000;
            let key = if is_kept { format!("kept{number}") } else { format!("key{}", number % 20) };
            inputs.push(lone.put(key, "v".repeat(2_000)));
        }
        if step % 200 == 199 {
            inputs.push(lone.compaction(step as i64 * 4));
        }
        for job in lone.step(inputs, &["checkpoint", "relocate"]) {
            let is_checkpoint = job.kind() == "checkpoint";
            assert!(!is_checkpoint || copy.is_none(), "step {step}: it would wait for a copy");
            begun.push(job.kind());
            if is_checkpoint {
                done_later.push(done(job));
            } else {
                copy = Some((step, done(job)));
            }
        }
        done_later.extend(copy.take_if(|(since, _)| step >= *since + COPY_STEPS).map(|(_, done)| done));
    }
    let count = |wanted| begun.iter().filter(|kind| **kind == wanted).count();
    assert!(count("relocate") >= 2 && count("checkpoint") >= 2, "{begun:?}");
}

/// While a checkpoint is written nothing is purged. It goes on with its end, not with the next tick.
#[test]
fn history_is_purged_as_soon_as_a_checkpoint_is_written() {
    const COMPACTED: i64 = 8;
    let mut lone = Lone::start(MemberConfig { checkpoint_commands: 10, ..config(1) });
    let mut checkpoints = Vec::new();
    for _ in 0..12 {
        lone.now_ns += TICK_NS;
        let put = lone.put("key".into(), "value".into());
        checkpoints.extend(lone.step(vec![put], &["checkpoint"]));
    }
    assert_eq!(checkpoints.len(), 1, "ten commands were applied");
    let compaction = lone.compaction(COMPACTED);
    let mut inputs = vec![compaction];
    for _ in 0..20 {
        lone.now_ns += TICK_NS;
        lone.step(std::mem::take(&mut inputs), &["checkpoint"]);
    }
    let reader = lone.opened.reader.clone();
    let revisions = (reader.compacted(), reader.purged());
    assert!(revisions.0 == COMPACTED && revisions.1 < COMPACTED, "{revisions:?}");
    let written = checkpoints.into_iter().map(done).collect();
    lone.step(written, &[]);
    // Long before the next tick.
    lone.now_ns += TICK_NS / 10;
    lone.step(Vec::new(), &[]);
    assert_eq!(reader.purged(), COMPACTED);
}

/// A hash of a large compaction takes many jobs, and holds the history back that later compactions free.
#[test]
fn the_next_compaction_ends_the_hash_of_the_one_before() {
    /// More than one job looks at.
    const KEYS: usize = 40_000;
    let mut lone = Lone::start(config(1));
    lone.step(Vec::new(), &[]);
    for first in (0..KEYS).step_by(1_000) {
        lone.now_ns += TICK_NS;
        let puts = (first..first + 1_000).map(|number| lone.put(format!("k{number}"), "v".into())).collect();
        lone.step(puts, &[]);
    }
    let reader = lone.opened.reader.clone();
    let compact_until_purged = |lone: &mut Lone, held: &[&str]| {
        let revision = reader.current_revision();
        let mut inputs = vec![lone.compaction(revision)];
        for _ in 0..1_000 {
            let jobs = lone.step(std::mem::take(&mut inputs), held);
            if reader.purged() == revision {
                return jobs;
            }
            lone.now_ns += TICK_NS / 10;
        }
        panic!("revision {revision} was not purged");
    };
    compact_until_purged(&mut lone, &[]);
    let put = lone.put("k0".into(), "new".into());
    lone.step(vec![put], &[]);
    let mut held = compact_until_purged(&mut lone, &["hash_compaction"]);
    let hash = held.pop().expect("it is hashed");
    let given_up = reader.purged();
    // It pins the compact revision, so that nothing more is purged.
    let pin = reader.hash_kv(0).expect("the newest revision can be hashed");
    let put = lone.put("k0".into(), "newer".into());
    lone.step(vec![put], &[]);
    let mut inputs = vec![lone.compaction(reader.current_revision())];
    while reader.compacted() < reader.current_revision() {
        lone.now_ns += TICK_NS / 10;
        lone.step(std::mem::take(&mut inputs), &[]);
    }
    let (mut inputs, mut begun) = (vec![done(hash)], 0);
    for _ in 0..20 {
        let jobs = lone.step(std::mem::take(&mut inputs), &["hash_compaction"]);
        begun += jobs.len();
        inputs.extend(jobs.into_iter().map(done));
        lone.now_ns += TICK_NS / 10;
    }
    assert_eq!(reader.purged(), given_up);
    assert_eq!(begun, 0, "it would only be given up again");
    drop(pin);
    for _ in 0..30 {
        lone.now_ns += TICK_NS / 10;
        lone.step(std::mem::take(&mut inputs), &[]);
    }
    assert_eq!(reader.purged(), reader.current_revision());
    let kept: Vec<i64> = reader.kept_hashes().iter().map(|kept| kept.revision).collect();
    assert_eq!(kept.first(), Some(&reader.current_revision()), "the last compaction is hashed");
    assert!(!kept.contains(&given_up), "{kept:?} without the one before it, {given_up}");
}

/// What followers, watchers and replies may need soon is kept in memory while a member writes, and freed once it is
/// idle.
#[test]
fn memory_that_only_a_load_needs_is_freed_when_the_member_is_idle() {
    const VALUES: usize = 48;
    let mut lone = Lone::start(config(1));
    lone.step(Vec::new(), &[]);
    for number in 0..VALUES {
        lone.now_ns += TICK_NS;
        let put = lone.put(format!("key{number}"), "v".repeat(100_000));
        lone.step(vec![put], &[]);
    }
    let log_bytes = |lone: &Lone| {
        let memory = lone.opened.status.memory();
        memory.iter().find(|(component, _)| *component == "log").expect("it is accounted").1
    };
    assert!(log_bytes(&lone) > 4 << 20, "{}", log_bytes(&lone));
    for _ in 0..30 {
        lone.now_ns += TICK_NS;
        lone.step(Vec::new(), &[]);
    }
    assert!(log_bytes(&lone) < (1 << 20) + (64 << 10), "{}", log_bytes(&lone));
}
