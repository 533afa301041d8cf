//! A cluster of members in one thread: every job is run at once, every frame is delivered in the next step, time is a
//! number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use log::{Disk, MemDisk, Options, WriteJob};
use member::identity::peer_cluster_id;
use member::jobs::{Done, Job};
use member::proposal_queue::QueueLimits;
use member::snapshot::{Outgoing, Receiver, SendError};
use member::{
    Answer, InitialMember, Input, MIN_SNAPSHOT_LOG_BYTES, MemberConfig, Membership, Notice, Now,
    OpenMemberError, OpenedMember, Output, StartMode, StoreLimits, WaitedCaller,
};

/// The id of the cluster.
const CLUSTER: u64 = 7;

pub(crate) const TICK_NS: u64 = 100_000_000;
pub(crate) const STEP_NS: u64 = 5_000_000;

pub(crate) struct Node {
    pub(crate) opened: OpenedMember,
    pub(crate) disk: MemDisk,
    inputs: Vec<Input>,
    output: Output,
    pub(crate) notices: Vec<Notice>,
    /// Peers whose connections it wanted closed, which the rig leaves open.
    pub(crate) disconnected: Vec<u64>,
    /// It said that it has stopped cleanly.
    pub(crate) has_stopped: bool,
    command_set: u8,
    /// What it said last about who belongs to the cluster.
    pub(crate) membership: Option<Arc<Membership>>,
}

/// A snapshot between two members.
struct Stream {
    from: u64,
    outgoing: Box<Outgoing>,
    state: StreamState,
}

enum StreamState {
    Opening(u64),
    Sending(Box<Receiver>),
    Ending(u64),
}

pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) disks: BTreeMap<u64, MemDisk>,
    size: u64,
    pub(crate) tune: fn(&mut MemberConfig),
    pub(crate) now_ns: u64,
    starts: u64,
    next_token: u64,
    streams: Vec<Stream>,
    /// Steps from one item of a snapshot stream to the next.
    pub(crate) steps_per_item: u64,
    /// Bytes of snapshot streams let through before the stream breaks; each entry breaks one.
    pub(crate) breaks: Vec<u64>,
    /// The next word of a receiver that it has everything is lost.
    pub(crate) lose_end: bool,
    pub(crate) answers: BTreeMap<u64, Answer>,
    /// Frames to this member do not arrive, but are kept in `held`.
    pub(crate) hold: Option<u64>,
    /// Sender and bytes.
    pub(crate) held: Vec<(u64, Bytes)>,
    /// Frames of this kind to this member are lost.
    pub(crate) lost: Option<(u64, u8)>,
    /// These results of jobs, at a member, do not arrive, but are kept in `held_jobs`.
    pub(crate) hold_jobs: HeldJobs,
    /// Member and input.
    pub(crate) held_jobs: Vec<(u64, Input)>,
    /// These jobs of a member do not run, but are kept in `queued_jobs`.
    pub(crate) queue_jobs: QueuedJobs,
    /// Member and job.
    pub(crate) queued_jobs: Vec<(u64, Job)>,
    /// The lineage that a member which joins has asked for.
    pub(crate) told_lineage: u64,
    /// The longest delay of a batch that a leader has told.
    pub(crate) longest_delay_ns: u64,
    /// What members told of callers that had waited, by token.
    pub(crate) waited: BTreeMap<u64, WaitedCaller>,
}

/// Whether the result of a job at a member is held back.
type HeldJobs = Box<dyn Fn(u64, &Done) -> bool>;

/// Whether a job of a member stays in the queue.
type QueuedJobs = Box<dyn Fn(u64, &Job) -> bool>;

/// Results that [`Cluster::hold_jobs`] holds: those of reading values for a batch.
pub(crate) fn values_read(_: u64, done: &Done) -> bool {
    matches!(done, Done::ValuesRead(_))
}

pub(crate) fn options() -> Options {
    Options {
        segment_bytes: 1 << 17,
        tail_bytes: 1 << 12,
        cache_bytes: 0,
        ..Options::new(PathBuf::from("/data"))
    }
}

/// What a member learns when it is connected to a peer that knows this command set.
fn connected_to(peer: u64, command_set: u8) -> [Input; 2] {
    [Input::PeerAnnounced { peer, command_set }, Input::PeerUp(peer)]
}

impl Node {
    /// Whether the two take each other for members of one cluster, as their handshake would say.
    fn accepts(&self, peer: &Node) -> bool {
        let shown = |node: &Node| peer_cluster_id(CLUSTER, node.opened.reader.lineage());
        shown(self) == shown(peer)
    }
}

impl Cluster {
    pub(crate) fn new(size: u64, tune: fn(&mut MemberConfig)) -> Cluster {
        let mut cluster = Cluster {
            nodes: BTreeMap::new(),
            disks: (1..=size).map(|id| (id, MemDisk::new())).collect(),
            size,
            tune,
            now_ns: 0,
            starts: 0,
            next_token: 1,
            streams: Vec::new(),
            steps_per_item: 1,
            breaks: Vec::new(),
            lose_end: false,
            answers: BTreeMap::new(),
            hold: None,
            held: Vec::new(),
            lost: None,
            hold_jobs: Box::new(|_, _| false),
            held_jobs: Vec::new(),
            queue_jobs: Box::new(|_, _| false),
            queued_jobs: Vec::new(),
            told_lineage: 0,
            longest_delay_ns: 0,
            waited: BTreeMap::new(),
        };
        (1..=size).for_each(|id| cluster.start(id));
        cluster.settle();
        cluster
    }

    pub(crate) fn start(&mut self, id: u64) {
        self.start_if_possible(id).expect("it opens");
    }

    /// Starts a member whose disk may fail at any time: then it is not there, or dies later.
    pub(crate) fn start_if_possible(&mut self, id: u64) -> Result<(), OpenMemberError> {
        self.starts += 1;
        let mut config = MemberConfig {
            cluster_id: CLUSTER,
            member_id: id,
            incarnation: 90 + id,
            process_run: self.starts,
            seed: id,
            name: format!("m{id}"),
            client_urls: vec![format!("http://10.0.0.{id}:2379")],
            initial_cluster: (1..=self.size)
                .map(|id| InitialMember {
                    id,
                    name: format!("m{id}"),
                    peer_urls: vec![format!("http://10.0.0.{id}:2380")],
                })
                .collect(),
            tick_ns: TICK_NS,
            election_ticks: 10,
            pre_vote: true,
            checkpoint_commands: 50,
            catchup_entries: 20,
            catchup_bytes: member::MAX_CATCHUP_BYTES,
            snapshot_log_bytes: MIN_SNAPSHOT_LOG_BYTES,
            quota_bytes: 0,
            store_limits: StoreLimits::default(),
            queue_limits: QueueLimits::default(),
            max_unapplied_bytes: member::MAX_UNAPPLIED_BYTES,
            memory_limit_bytes: 0,
            max_last_changes_bytes: member::MAX_LAST_CHANGES_BYTES,
            membership: member::MembershipSettings::default(),
            scrub: member::ScrubRate::default(),
            hashes_large_compactions: false,
            start: StartMode::New,
        };
        (self.tune)(&mut config);
        if let StartMode::Join { lineage } = &mut config.start {
            *lineage = self.told_lineage;
        }
        let disk = self.disks[&id].clone();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let command_set = config.membership.command_set;
        let opened = member::open(&shared, &options(), config, &member::Sequential)?;
        let mut node = Node {
            opened,
            disk,
            inputs: Vec::new(),
            output: Output::default(),
            notices: Vec::new(),
            disconnected: Vec::new(),
            has_stopped: false,
            command_set,
            membership: None,
        };
        for (peer, other) in &mut self.nodes {
            if !other.accepts(&node) {
                continue;
            }
            node.inputs.extend(connected_to(*peer, other.command_set));
            other.inputs.extend(connected_to(id, command_set));
        }
        self.nodes.insert(id, node);
        Ok(())
    }

    /// Kills a member; its disk stays as it is.
    pub(crate) fn stop(&mut self, id: u64) {
        self.nodes.remove(&id);
        for stream in std::mem::take(&mut self.streams) {
            if stream.outgoing.peer() != id {
                self.streams.push(stream);
            } else if let Some(sender) = self.nodes.get_mut(&stream.from) {
                let error = SendError { reason: "the peer is down".into(), damaged: None };
                let sent = stream.outgoing.sent();
                sender.inputs.push(Input::SnapshotSent { sent, result: Err(error) });
            }
        }
        self.streams.retain(|stream| stream.from != id);
        for node in self.nodes.values_mut() {
            node.inputs.push(Input::PeerDown(id));
        }
    }

    pub(crate) fn step(&mut self) {
        self.now_ns += STEP_NS;
        let ids: Vec<u64> = self.nodes.keys().copied().collect();
        for id in ids {
            self.step_node(id);
        }
        if (self.now_ns / STEP_NS).is_multiple_of(self.steps_per_item) {
            self.move_streams();
        }
    }

    fn step_node(&mut self, id: u64) {
        let now = Now { monotonic_ns: self.now_ns, wall_ms: self.now_ns / 1_000_000 };
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut frames = Vec::new();
        loop {
            for input in std::mem::take(&mut node.inputs) {
                if node.opened.member.handle(now, input, &mut node.output).is_err() {
                    return self.stop(id);
                }
            }
            if node.opened.member.drive(now, &mut node.output).is_err() {
                return self.stop(id);
            }
            let output = std::mem::take(&mut node.output);
            if !output.writes.is_empty() {
                let done = WriteJob::run_all(output.writes, &|| Duration::ZERO);
                node.inputs.push(Input::WritesSynced(done));
            }
            for job in output.background {
                if (self.queue_jobs)(id, &job) {
                    self.queued_jobs.push((id, job));
                    continue;
                }
                let done = job.run();
                let is_held = (self.hold_jobs)(id, &done);
                let input = Input::Background(Box::new(done));
                if is_held { self.held_jobs.push((id, input)) } else { node.inputs.push(input) }
            }
            let delays = output.counts.proposed.iter().map(|batch| batch.delay_ns);
            self.longest_delay_ns = delays.fold(self.longest_delay_ns, u64::max);
            self.waited.extend(output.counts.waited.into_iter().map(|caller| (caller.token, caller)));
            frames.extend(output.frames);
            self.answers.extend(output.answers);
            node.has_stopped |= output.stopped;
            node.notices.extend(output.notices);
            node.disconnected.extend(output.disconnect);
            node.membership = output.membership.or(node.membership.take());
            for outgoing in output.snapshots {
                self.streams.push(Stream { from: id, outgoing, state: StreamState::Opening(0) });
            }
            if node.inputs.is_empty() {
                break;
            }
        }
        let refuses = |to: &u64| self.nodes.get(to).is_some_and(|peer| !peer.accepts(&self.nodes[&id]));
        let refused: BTreeSet<u64> = frames.iter().map(|(to, ..)| *to).filter(refuses).collect();
        for (to, _, buffers) in frames.into_iter().filter(|(to, ..)| !refused.contains(to)) {
            let bytes = Bytes::from(buffers.concat());
            if self.lost == Some((to, bytes[0])) {
                continue;
            }
            if self.hold == Some(to) {
                self.held.push((id, bytes));
            } else if let Some(peer) = self.nodes.get_mut(&to) {
                peer.inputs.push(Input::Frame { from: id, bytes });
            }
        }
    }

    fn move_streams(&mut self) {
        for mut stream in std::mem::take(&mut self.streams) {
            match self.move_stream(&mut stream) {
                None => self.streams.push(stream),
                Some(result) => {
                    let sent = stream.outgoing.sent();
                    if let Some(node) = self.nodes.get_mut(&stream.from) {
                        node.inputs.push(Input::SnapshotSent { sent, result });
                    }
                }
            }
        }
    }

    fn move_stream(&mut self, stream: &mut Stream) -> Option<Result<(), SendError>> {
        let failed = |reason: String| Some(Err(SendError { reason, damaged: None }));
        let to = stream.outgoing.peer();
        let state = std::mem::replace(&mut stream.state, StreamState::Opening(0));
        let Some(node) = self.nodes.get_mut(&to) else { return failed("the peer is down".into()) };
        match state {
            StreamState::Opening(0) => {
                let token = self.next_token;
                self.next_token += 1;
                let header = stream.outgoing.header();
                node.inputs.push(Input::SnapshotOffered { token, from: stream.from, header });
                stream.state = StreamState::Opening(token);
            }
            StreamState::Opening(token) => match self.answers.remove(&token) {
                Some(Answer::SnapshotFrom(receiver)) => {
                    if !stream.outgoing.resume(receiver.offset()) {
                        node.inputs.push(Input::SnapshotBroken(receiver));
                        return failed("too far back".into());
                    }
                    stream.state = StreamState::Sending(receiver);
                }
                Some(Answer::SnapshotRefused(reason)) => return failed(reason),
                _ => stream.state = StreamState::Opening(token),
            },
            StreamState::Sending(mut receiver) => match stream.outgoing.next_bytes() {
                Err(error) => {
                    node.inputs.push(Input::SnapshotBroken(receiver));
                    return Some(Err(error));
                }
                Ok(None) => {
                    let token = self.next_token;
                    self.next_token += 1;
                    node.inputs.push(Input::SnapshotWhole { token, receiver });
                    stream.state = StreamState::Ending(token);
                }
                Ok(Some(bytes)) => {
                    if let Some(at) = self.breaks.first().copied()
                        && receiver.offset() + bytes.len() as u64 > at
                    {
                        self.breaks.remove(0);
                        let part = at.saturating_sub(receiver.offset()) as usize;
                        receiver.take(&bytes[..part]).expect("the bytes are good");
                        node.inputs.push(Input::SnapshotBroken(receiver));
                        return None;
                    }
                    if let Err(reason) = receiver.take(&bytes) {
                        node.inputs.push(Input::SnapshotBroken(receiver));
                        return failed(reason);
                    }
                    stream.state = StreamState::Sending(receiver);
                }
            },
            StreamState::Ending(token) => match self.answers.remove(&token) {
                Some(Answer::SnapshotTaken) if std::mem::take(&mut self.lose_end) => {
                    return failed("its end is lost".into());
                }
                Some(Answer::SnapshotTaken) => return Some(Ok(())),
                Some(Answer::SnapshotRefused(reason)) => return failed(reason),
                _ => stream.state = StreamState::Ending(token),
            },
        }
        None
    }

    pub(crate) fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    /// Runs until something is so.
    pub(crate) fn until(&mut self, what: &str, mut so: impl FnMut(&mut Cluster) -> bool) {
        for _ in 0..20_000 {
            if so(self) {
                return;
            }
            self.step();
        }
        panic!("it never came to this: {what}");
    }

    /// Runs until a leader leads and all who run have applied the same.
    pub(crate) fn settle(&mut self) {
        self.until("all agree", |cluster| {
            let applied: BTreeSet<u64> =
                cluster.nodes.values().map(|node| node.opened.status.applied_index()).collect();
            let leaders: BTreeSet<u64> =
                cluster.nodes.values().map(|node| node.opened.status.leader()).collect();
            cluster.leader().is_some() && applied.len() == 1 && leaders.len() == 1
        });
    }

    /// The member that leads the newest term.
    pub(crate) fn leader(&self) -> Option<u64> {
        let leading = self.nodes.iter().filter(|(id, node)| node.opened.status.leader() == **id);
        leading.max_by_key(|(_, node)| node.opened.status.term()).map(|(id, _)| *id)
    }

    /// Some member that does not lead.
    pub(crate) fn follower(&self) -> u64 {
        let leader = self.leader();
        *self.nodes.keys().find(|id| Some(**id) != leader).expect("there are followers")
    }

    pub(crate) fn send(&mut self, at: u64, input: impl FnOnce(u64) -> Input) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.give(at, input(token));
        token
    }

    /// Gives a member an input at its next step.
    pub(crate) fn give(&mut self, at: u64, input: Input) {
        self.nodes.get_mut(&at).expect("it runs").inputs.push(input);
    }

    /// Lets the results of jobs arrive that were held back, and those that come.
    pub(crate) fn release_jobs(&mut self) {
        self.hold_jobs = Box::new(|_, _| false);
        for (at, input) in std::mem::take(&mut self.held_jobs) {
            self.give(at, input);
        }
    }

    /// Holds back the frames to a member until one of this kind is held, then loses the others and returns it.
    pub(crate) fn capture(&mut self, to: u64, kind: u8) -> Input {
        self.hold = Some(to);
        let is_it = |(_, bytes): &&(u64, Bytes)| bytes[0] == kind;
        self.until("a frame of that kind", |cluster| cluster.held.iter().any(|held| is_it(&held)));
        let (from, bytes) = self.held.iter().find(is_it).cloned().expect("one is held");
        self.hold = None;
        self.held.clear();
        Input::Frame { from, bytes }
    }

    pub(crate) fn ask(&mut self, at: u64, input: impl FnOnce(u64) -> Input) -> Answer {
        let token = self.send(at, input);
        self.until("an answer", |cluster| cluster.answers.contains_key(&token));
        self.answers.remove(&token).expect("it is there")
    }

    /// Whether a receiver has all of a snapshot, and its member has still to hear of it.
    pub(crate) fn has_whole_stream(&self) -> bool {
        self.streams.iter().any(|stream| matches!(stream.state, StreamState::Ending(_)))
    }
}
