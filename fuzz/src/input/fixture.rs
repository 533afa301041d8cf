//! A member on a disk in memory. Jobs run at once unless they are held back; time is a number.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::{Disk, MemDisk, Options, WriteJob};
use member::batch::CommandKind;
use member::proposal_queue::QueueLimits;
use member::snapshot::Outgoing;
use member::{
    Answer, InitialMember, Input, MemberConfig, Now, OpenMemberError, OpenedMember, Output, Proposal,
    StoreLimits,
};

use crate::input::image::DATA_DIR;

/// One tick; an election takes ten to twenty.
const TICK_NS: u64 = 100_000_000;

/// Rounds of jobs and completions in one step; the rest of the work continues in the next step.
const MAX_ROUNDS: usize = 64;

/// The member under test; its frames to other members are collected.
pub struct MemberFixture {
    /// What the member was opened as.
    pub opened: OpenedMember,
    /// What it answered.
    pub answers: Vec<(u64, Answer)>,
    /// The frames that it sent.
    pub frames: Vec<(u64, Bytes)>,
    /// Snapshots it wants to send.
    pub snapshots: Vec<Box<Outgoing>>,
    /// Whether write jobs are held back.
    pub holds_writes: bool,
    /// It stopped or cannot go on.
    pub is_over: bool,
    now_ns: u64,
    next_token: u64,
    inputs: Vec<Input>,
    held: Vec<WriteJob>,
}

/// Small files, so that images are small.
pub fn options() -> Options {
    Options { segment_bytes: 8 << 10, tail_bytes: 1 << 10, reserve_segments: 0, ..Options::new(DATA_DIR) }
}

/// Member `id` of a cluster of `size`, in run `process_run` of its process.
pub fn config(id: u64, size: u64, process_run: u64) -> MemberConfig {
    let member = |id| InitialMember {
        id,
        name: format!("m{id}"),
        peer_urls: vec![format!("http://10.0.0.{id}:2380")],
    };
    MemberConfig {
        cluster_id: 7,
        member_id: id,
        incarnation: 90 + id,
        process_run,
        seed: id,
        name: format!("m{id}"),
        client_urls: vec![format!("http://10.0.0.{id}:2379")],
        initial_cluster: (1..=size).map(member).collect(),
        tick_ns: TICK_NS,
        election_ticks: 10,
        pre_vote: true,
        checkpoint_commands: 8,
        catchup_entries: 4,
        catchup_bytes: member::MAX_CATCHUP_BYTES,
        snapshot_log_bytes: 64 << 10,
        quota_bytes: 0,
        store_limits: StoreLimits::default(),
        queue_limits: QueueLimits::default(),
        max_unapplied_bytes: member::MAX_UNAPPLIED_BYTES,
        memory_limit_bytes: 0,
        max_last_changes_bytes: member::MAX_LAST_CHANGES_BYTES,
        membership: member::MembershipSettings::default(),
        scrub: member::ScrubRate::default(),
        hashes_large_compactions: false,
        start: member::StartMode::New,
    }
}

impl MemberFixture {
    /// Opens a member, or creates it.
    ///
    /// # Errors
    /// Those of [`member::open`].
    pub fn open(disk: &MemDisk, config: MemberConfig) -> Result<MemberFixture, OpenMemberError> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let opened = member::open(&shared, &options(), config, &store::Sequential)?;
        Ok(MemberFixture {
            opened,
            answers: Vec::new(),
            frames: Vec::new(),
            snapshots: Vec::new(),
            holds_writes: false,
            is_over: false,
            now_ns: 0,
            next_token: 1,
            inputs: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Gives an input and lets the member act.
    pub fn give(&mut self, input: Input) {
        self.inputs.push(input);
        self.act();
    }

    /// Gives an input that is answered; returns its token.
    pub fn ask(&mut self, input: impl FnOnce(u64) -> Input) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.give(input(token));
        token
    }

    /// Proposes a command; returns its token.
    pub fn propose(&mut self, kind: CommandKind, body: Bytes) -> u64 {
        self.ask(|token| Input::Propose(Proposal { token, kind, caller: store::Caller::Anonymous, body }))
    }

    /// The answer to a token, if it was given.
    pub fn take_answer(&mut self, token: u64) -> Option<Answer> {
        let at = self.answers.iter().position(|(answered, _)| *answered == token)?;
        Some(self.answers.swap_remove(at).1)
    }

    /// Lets time pass.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now_ns += milliseconds * 1_000_000;
        self.act();
    }

    fn act(&mut self) {
        for _ in 0..MAX_ROUNDS {
            if self.is_over || !self.round() {
                return;
            }
        }
    }

    /// Handles all inputs and runs the jobs that follow. True if there are more inputs.
    fn round(&mut self) -> bool {
        let now = Now { monotonic_ns: self.now_ns, wall_ms: self.now_ns / 1_000_000 };
        let mut output = Output::default();
        let member = &mut self.opened.member;
        for input in std::mem::take(&mut self.inputs) {
            if member.handle(now, input, &mut output).is_err() {
                self.is_over = true;
                return false;
            }
        }
        self.is_over = member.drive(now, &mut output).is_err() || output.stopped;
        self.held.append(&mut output.writes);
        if !self.holds_writes && !self.held.is_empty() {
            let done = WriteJob::run_all(std::mem::take(&mut self.held), &|| Duration::ZERO);
            self.inputs.push(Input::WritesSynced(done));
        }
        let done = output.background.into_iter().map(|job| Input::Background(Box::new(job.run())));
        self.inputs.extend(done);
        self.answers.append(&mut output.answers);
        self.snapshots.append(&mut output.snapshots);
        let frames = output.frames.into_iter().map(|(to, _, chunks)| (to, chunks.concat().into()));
        self.frames.extend(frames);
        !self.inputs.is_empty()
    }
}
