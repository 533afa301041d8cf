//! Background jobs and their results.
//!
//! Work that blocks on the disk and is not a log write is a [`Job`]: a value that the owner of the member runs on the
//! thread of its [lane](JobLane), and whose [`Done`] comes back as [`crate::Input::Background`].

use std::sync::Arc;

use bytes::Bytes;
use log::{
    BackgroundDone, BackgroundJob, CheckpointDone, CheckpointWriter, EntryRepairJob, InstallDone,
    InstallWaiting, JobError, LogId, MAX_CHUNK_BYTES, OpenError, Pin, ReadError, ReadJob, Relocation,
    RelocationDone, SnapshotInstaller,
};
use store::{
    CheckpointSource, CompactionHashScan, Damaged, KeptHash, Limits, MergedCheckpoint, RestoreError,
    StateReplaced, ValueRef, Values,
};

use crate::checkpoint_files::{ChainFiles, GiveUp};
use crate::peer_message::{PeerMessage, ValueName};
pub use crate::relocation::job::{RelocatedValues, RelocationJob};
pub use crate::repair::scrub::job::{ScrubJob, Scrubbed};
use crate::snapshot::receiver::{OldState, Receiver};

/// A background job. Jobs may run in any order, and at the same time.
pub enum Job {
    /// Files of the log: prepare, move, remove.
    Log(BackgroundJob),
    /// Write a checkpoint.
    Checkpoint(Box<CheckpointJob>),
    /// Write one checkpoint in place of several.
    MergeCheckpoints(Box<MergeJob>),
    /// Read entries for a peer that lags behind memory.
    ReadEntries {
        /// The first index asked for.
        from: u64,
        /// Whether it is the one entry alone.
        single: bool,
        /// The read.
        job: ReadJob,
    },
    /// Read values that the next command compares.
    ReadValues {
        /// The values.
        wanted: Vec<ValueRef>,
        /// Where they are.
        values: Arc<dyn Values>,
        /// Keeps their files.
        pin: Pin,
    },
    /// Commit a snapshot that was received.
    Install(Box<SnapshotInstaller>),
    /// Give up what was received of a snapshot.
    AbandonSnapshot(Box<Receiver>),
    /// Drop the state that a snapshot replaced.
    DropState(Box<OldState>),
    /// Hash some of what a compaction has kept.
    HashCompaction(Box<CompactionHashScan>),
    /// Copy the live values of files, so that the files can go.
    Relocate(Box<RelocationJob>),
    /// Write values that were damaged into a new file.
    WriteRepairedValues(Relocation),
    /// Read something for a peer that has lost it.
    ReadForPeer {
        /// The peer.
        to: u64,
        /// What it asked for.
        read: PeerRead,
    },
    /// Read some of the log or of the values again, to find damage.
    Scrub(Box<ScrubJob>),
    /// Write a damaged entry again.
    RepairEntry {
        /// Its index.
        index: u64,
        /// The write.
        job: EntryRepairJob,
    },
}

/// What a peer has lost.
pub enum PeerRead {
    /// A value.
    Value {
        /// As the peer names it.
        name: ValueName,
        /// As we do.
        value: ValueRef,
        /// Where values are.
        values: Arc<dyn Values>,
        /// Keeps its file.
        pin: Pin,
    },
    /// An entry of the log.
    Entry {
        /// Its index.
        index: u64,
        /// Its term.
        term: u64,
        /// The read.
        job: ReadJob,
    },
}

/// The result of a [`Job`].
pub enum Done {
    /// See [`Job::Log`].
    Log(BackgroundDone),
    /// See [`Job::Checkpoint`].
    Checkpoint {
        /// The entry it is of.
        id: LogId,
        /// Its result.
        done: CheckpointDone,
    },
    /// See [`Job::MergeCheckpoints`].
    CheckpointsMerged(CheckpointDone),
    /// See [`Job::ReadEntries`].
    ReadEntries {
        /// The first index asked for.
        from: u64,
        /// Whether it was the one entry alone.
        single: bool,
        /// The entries.
        entries: Result<Vec<log::Entry>, ReadError>,
    },
    /// See [`Job::ReadValues`]: the values, or the first that cannot be read.
    ValuesRead(Result<Vec<(ValueRef, Bytes)>, Damaged>),
    /// See [`Job::Install`].
    Installed(InstallDone),
    /// See [`Job::Install`]: the disk is full. Nothing has changed.
    InstallWaiting(InstallWaiting),
    /// See [`Job::AbandonSnapshot`].
    SnapshotAbandoned(InstallDone),
    /// See [`Job::DropState`].
    StateDropped,
    /// See [`Job::HashCompaction`]: the hash, or what goes on with it; an error if there is none any more.
    CompactionHashed(Result<KeptHash, Option<Box<CompactionHashScan>>>),
    /// See [`Job::Relocate`].
    Relocated(Box<RelocatedValues>),
    /// See [`Job::WriteRepairedValues`].
    RepairedValuesWritten(RelocationDone),
    /// See [`Job::ReadForPeer`].
    ReadForPeer {
        /// The peer.
        to: u64,
        /// The answer to send.
        answer: PeerMessage,
    },
    /// See [`Job::Scrub`].
    Scrubbed(Scrubbed),
    /// See [`Job::RepairEntry`].
    EntryRepaired {
        /// Its index.
        index: u64,
        /// Its result.
        result: Result<(), JobError>,
    },
}

/// A checkpoint on its way to disk: the member's own chunk, then the store's.
pub struct CheckpointJob {
    pub(crate) id: LogId,
    pub(crate) writer: CheckpointWriter,
    pub(crate) head: Bytes,
    pub(crate) source: CheckpointSource,
}

/// Checkpoints that follow each other, and the one that takes their place.
pub struct MergeJob {
    pub(crate) writer: CheckpointWriter,
    pub(crate) checkpoint: log::Checkpoint,
    pub(crate) give_up: GiveUp,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Done::Log(_) => "Log",
            Done::Checkpoint { .. } => "Checkpoint",
            Done::CheckpointsMerged(_) => "CheckpointsMerged",
            Done::ReadEntries { .. } => "ReadEntries",
            Done::ValuesRead(_) => "ValuesRead",
            Done::Installed(_) => "Installed",
            Done::InstallWaiting(_) => "InstallWaiting",
            Done::SnapshotAbandoned(_) => "SnapshotAbandoned",
            Done::StateDropped => "StateDropped",
            Done::CompactionHashed(_) => "CompactionHashed",
            Done::Relocated(_) => "Relocated",
            Done::RepairedValuesWritten(_) => "RepairedValuesWritten",
            Done::ReadForPeer { .. } => "ReadForPeer",
            Done::Scrubbed(_) => "Scrubbed",
            Done::EntryRepaired { .. } => "EntryRepaired",
        })
    }
}

/// Which jobs wait for each other. Those of one lane run one after another, those of different lanes at the same time:
/// a base checkpoint of a large store must not hold up the next segment of the log, or a follower that lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLane {
    /// Short, and the log, apply or a peer waits for it: preparing segments, reading values to compare and entries for
    /// peers.
    Files,
    /// Long, and neither the log nor a peer waits for it: checkpoints, relocation, installing and dropping snapshots.
    Space,
    /// Damaged data, here or at a peer, and the search for it: scrubbing, and the hashes of compactions. These do not
    /// wait for checkpoints and relocation, because history is not purged before they are done.
    Repair,
}

impl JobLane {
    /// All lanes.
    pub const ALL: [JobLane; 3] = [JobLane::Files, JobLane::Space, JobLane::Repair];
}

impl Job {
    /// The jobs that it waits for.
    pub fn lane(&self) -> JobLane {
        match self {
            Job::Log(_) | Job::ReadEntries { .. } | Job::ReadValues { .. } => JobLane::Files,
            Job::Checkpoint(_) | Job::MergeCheckpoints(_) | Job::Relocate(_) => JobLane::Space,
            Job::Install(_) | Job::AbandonSnapshot(_) | Job::DropState(_) => JobLane::Space,
            Job::WriteRepairedValues(_) | Job::ReadForPeer { .. } | Job::RepairEntry { .. } => {
                JobLane::Repair
            }
            Job::Scrub(_) | Job::HashCompaction(_) => JobLane::Repair,
        }
    }

    /// What operators see it as.
    pub fn kind(&self) -> &'static str {
        match self {
            Job::Log(_) => "log_files",
            Job::Checkpoint(_) => "checkpoint",
            Job::MergeCheckpoints(_) => "merge_checkpoints",
            Job::ReadEntries { .. } => "read_entries",
            Job::ReadValues { .. } => "read_values",
            Job::Install(_) => "install_snapshot",
            Job::AbandonSnapshot(_) => "abandon_snapshot",
            Job::DropState(_) => "drop_state",
            Job::HashCompaction(_) => "hash_compaction",
            Job::Relocate(_) => "relocate",
            Job::WriteRepairedValues(_) => "write_repaired_values",
            Job::ReadForPeer { .. } => "read_for_peer",
            Job::Scrub(_) => "scrub",
            Job::RepairEntry { .. } => "repair_entry",
        }
    }

    /// Runs the job; blocks on the disk.
    pub fn run(self) -> Done {
        match self {
            Job::Log(job) => Done::Log(job.run()),
            Job::Checkpoint(job) => Done::Checkpoint { id: job.id, done: job.write() },
            Job::MergeCheckpoints(job) => Done::CheckpointsMerged(job.write()),
            Job::ReadEntries { from, single, job } => Done::ReadEntries { from, single, entries: job.run() },
            Job::ReadValues { wanted, values, pin } => {
                let read = values.read_many(&wanted);
                drop(pin);
                Done::ValuesRead(read.map(|bytes| wanted.into_iter().zip(bytes).collect()))
            }
            Job::HashCompaction(scan) => Done::CompactionHashed(hash_some(scan)),
            Job::Relocate(job) => Done::Relocated(Box::new(job.run())),
            Job::WriteRepairedValues(job) => Done::RepairedValuesWritten(job.run()),
            Job::ReadForPeer { to, read } => Done::ReadForPeer { to, answer: read.run() },
            Job::Scrub(job) => Done::Scrubbed(job.run()),
            Job::RepairEntry { index, job } => Done::EntryRepaired { index, result: job.run() },
            Job::Install(installer) => installer.commit().map_or_else(Done::InstallWaiting, Done::Installed),
            Job::AbandonSnapshot(receiver) => Done::SnapshotAbandoned(receiver.abandon()),
            Job::DropState(state) => {
                drop(state);
                Done::StateDropped
            }
        }
    }
}

/// Versions of a compaction's hash that one job hashes, or keys at which it looks for them: some milliseconds, so
/// that other jobs of the lane need not wait long. The job that completes a window of up to a million versions also
/// sorts it, for some tens of milliseconds, without the store's lock.
pub(crate) const MAX_HASH_STEPS: usize = 16_384;

fn hash_some(mut scan: Box<CompactionHashScan>) -> Result<KeptHash, Option<Box<CompactionHashScan>>> {
    match scan.advance(MAX_HASH_STEPS) {
        Ok(Some(hash)) => Ok(hash),
        Ok(None) => Err(Some(scan)),
        Err(StateReplaced) => Err(None),
    }
}

impl CheckpointJob {
    pub(crate) fn write(mut self) -> CheckpointDone {
        let chunks = [self.head].into_iter().chain(self.source);
        let written = chunks.map(Ok).try_for_each(|chunk| write_chunk(&mut self.writer, chunk));
        finish(self.writer, written)
    }
}

impl MergeJob {
    pub(crate) fn write(mut self) -> CheckpointDone {
        let written = merge(&mut self.writer, &self.checkpoint, &self.give_up, &self.limits);
        finish(self.writer, written)
    }
}

/// Writes the chunks of the checkpoint that holds what those of `checkpoint` hold together. Looks at `give_up` with
/// each chunk that it reads, so it ends after a few megabytes at most.
fn merge(
    writer: &mut CheckpointWriter,
    checkpoint: &log::Checkpoint,
    give_up: &GiveUp,
    limits: &Limits,
) -> Result<(), JobError> {
    let files = ChainFiles::open(checkpoint, give_up).map_err(unreadable)?;
    let error_of = |error: RestoreError| match files.take_error() {
        Some(error) => unreadable(error),
        None if give_up.is_asked() => JobError::GivenUp,
        None => JobError::Unreadable(error.to_string()),
    };
    writer.write(&files.head)?;
    let mut merged = MergedCheckpoint::new(files.chain.clone(), limits).map_err(error_of)?;
    merged.try_for_each(|chunk| write_chunk(writer, chunk.map_err(error_of)))?;
    // The end mark of a file is read behind the last chunk. A restart would refuse it.
    files.take_error().map_or(Ok(()), |error| Err(unreadable(error)))
}

/// A call that failed may succeed later, for example when descriptors are free again; anything else is damage.
fn unreadable(error: OpenError) -> JobError {
    match error {
        OpenError::Io { action, path, source } => JobError::Io { action, path, source: Arc::new(source) },
        damage => JobError::Unreadable(damage.to_string()),
    }
}

fn write_chunk(writer: &mut CheckpointWriter, chunk: Result<Bytes, JobError>) -> Result<(), JobError> {
    // The history of one key may be longer than a chunk of a file; the store puts it together again.
    chunk?.chunks(MAX_CHUNK_BYTES).try_for_each(|part| writer.write(part))
}

fn finish(writer: CheckpointWriter, written: Result<(), JobError>) -> CheckpointDone {
    match written {
        Ok(()) => writer.finish(),
        Err(error) => writer.abandon(error),
    }
}

impl PeerRead {
    /// Reads. Data that is damaged here too is answered as if this member did not have it.
    fn run(self) -> PeerMessage {
        match self {
            PeerRead::Value { name, value, values, pin } => {
                let read = values.read(&value).ok();
                drop(pin);
                PeerMessage::ValueAnswer(name, read)
            }
            PeerRead::Entry { index, term, job } => {
                let entry = job.run().ok().and_then(|entries| entries.into_iter().next());
                PeerMessage::EntryAnswer {
                    index,
                    term,
                    entry: entry.map(|entry| (entry.kind, entry.payload)),
                }
            }
        }
    }
}
