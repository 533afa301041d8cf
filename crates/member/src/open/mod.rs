//! From a data directory to a running member: create it if it is new, load the checkpoint, replay what is committed.
//!
//! A new cluster begins at one entry that no member wrote, [`Start::BOOTSTRAP`]: a checkpoint at that index, equal on
//! all members, holds the members that `--initial-cluster` names. A member that joins begins with a checkpoint at index
//! 0, which only names its peers, and receives a snapshot. So every start after the first is the same: checkpoint, then
//! the committed entries after it, then consensus over the rest.

mod error;
mod replay;

use std::collections::BTreeSet;
use std::sync::Arc;

use consensus::{ConfState, Consensus, Start};
use log::{CheckpointKind, Disk, HardState, Identity, Log, LogId, Options, Recovered};
use store::watch::Hub;
use store::{AppliedId, Limits, Parallel, Reader, Store, Values};

pub use self::error::OpenMemberError;
use self::replay::{DamagedCompare, ReplayRange, Replayed, replay};
use crate::checkpoint_files::{ChainFiles, GiveUp};
use crate::conf_state;
use crate::config::{MemberConfig, StartMode};
use crate::jobs::CheckpointJob;
use crate::member::{Member, Parts};
use crate::repair::recovery::{FinishedStart, LogRecovery, UnfinishedStart};
use crate::status::MemberStatus;
use crate::values::LogValues;

/// A member and what others use of it.
pub struct OpenedMember {
    /// The member.
    pub member: Member,
    /// Reads the store.
    pub reader: Reader,
    /// Reads values.
    pub values: Arc<dyn Values>,
    /// Reads the log; pins its files.
    pub log: log::Reader,
    /// Opens watch streams.
    pub hub: Hub,
    /// The numbers others may look at.
    pub status: Arc<MemberStatus>,
    /// Whose data directory it is.
    pub identity: Identity,
    /// What the operator should read.
    pub warnings: Vec<String>,
    /// What the state was made from.
    pub loading: Loading,
}

/// What a start had to read, for operators who wonder how long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// The entry whose state the checkpoint holds.
    pub checkpoint_index: u64,
    /// Bytes of the checkpoint's files.
    pub checkpoint_bytes: u64,
    /// Entries applied on top of it.
    pub replayed_entries: u64,
}

/// The store's state as the checkpoint and the committed entries give it.
pub(crate) struct Loaded {
    store: Store,
    pub(crate) reader: Reader,
    conf_state: ConfState,
    replayed: Replayed,
    pub(crate) loading: Loading,
}

/// Opens (or creates) the member that `config` describes. Independent tasks of loading the checkpoint run on
/// `parallel`.
///
/// # Errors
/// [`OpenMemberError`], which says what was found.
pub fn open(
    disk: &Arc<dyn Disk>,
    options: &Options,
    mut config: MemberConfig,
    parallel: &dyn Parallel,
) -> Result<OpenedMember, OpenMemberError> {
    if !Log::exists(disk.as_ref(), options)? {
        let MemberConfig { cluster_id, member_id, incarnation, .. } = config;
        Log::create(disk, options, Identity { cluster_id, member_id, incarnation })?;
    }
    let mut opened = Log::open(disk, options)?;
    if opened.recovered.checkpoint.is_none() {
        check_identity(&opened.recovered.identity, &config)?;
        begin(opened, &config)?;
        opened = Log::open(disk, options)?;
    }
    let log::Opened { mut log, reader: log_reader, recovered } = opened;
    // A directory knows whose it is; flags count for a new one alone.
    let Identity { cluster_id, member_id, incarnation } = recovered.identity;
    config = MemberConfig { cluster_id, member_id, incarnation, ..config };
    let values = Arc::new(LogValues::new(log_reader));
    let is_forced = config.start == StartMode::ForceNewCluster;
    let forced = is_forced.then_some(member_id);
    let mut loaded = load(&log, &recovered, &values, (config.store_limits, forced), parallel)?;
    let unfinished_start = unfinished_start(&log, &recovered, &loaded, (member_id, is_forced))?;
    if loaded.reader.was_removed(member_id) {
        return Err(OpenMemberError::Removed { member_id });
    }
    let mut warnings: Vec<String> = recovered.warnings.iter().map(ToString::to_string).collect();
    if let Some(compare) = &loaded.replayed.damaged {
        if is_forced || peers_of(&loaded.reader, member_id).is_empty() {
            loaded.check_replayed()?;
        }
        warnings.push(compare.warning());
    }
    let consensus = match unfinished_start {
        Some(_) => waiting_consensus(&recovered.hard_state, &loaded, &config)?,
        None => {
            // The references are counted now: files that nothing refers to can be freed.
            log.loaded()?;
            if is_forced {
                force_new_cluster(&mut log, &mut loaded, &config)?;
            }
            let rest = std::mem::take(&mut loaded.replayed.rest);
            let from = (loaded.replayed.applied, loaded.conf_state.clone());
            start_consensus(&log, &recovered.hard_state, from, rest, &config)?
        }
    };
    Ok(assemble(log, consensus, loaded, values, config, (warnings, unfinished_start)))
}

/// What must be repaired before the rest of the log can be replayed; `None` if it is whole.
///
/// # Errors
/// There is no other member that could have a damaged entry, or none that is asked.
fn unfinished_start(
    log: &Log,
    recovered: &Recovered,
    loaded: &Loaded,
    (member_id, is_forced): (u64, bool),
) -> Result<Option<UnfinishedStart>, OpenMemberError> {
    let Some(first) = recovered.damaged.first() else { return Ok(None) };
    let peers = peers_of(&loaded.reader, member_id);
    // An operator who forces a new cluster has given the others up.
    if peers.is_empty() || is_forced {
        let read = log.entries_from(first.index).next().and_then(Result::err);
        let reason = read.map_or_else(|| "an entry is damaged".to_owned(), |error| error.to_string());
        return Err(OpenMemberError::Read { reason });
    }
    let recovery = LogRecovery::new(&recovered.damaged, peers);
    Ok(Some(UnfinishedStart { recovery, conf_state: loaded.conf_state.clone(), finish: finish_start }))
}

/// The other members.
fn peers_of(reader: &Reader, member_id: u64) -> BTreeSet<u64> {
    let members = reader.members().into_iter().map(|member| member.id);
    members.filter(|id| *id != member_id).collect()
}

impl Loaded {
    /// Refuses a state that ends before a committed entry.
    ///
    /// # Errors
    /// [`OpenMemberError::Replay`]: the entry compares a value that is damaged on this member.
    pub(crate) fn check_replayed(&self) -> Result<(), OpenMemberError> {
        self.replayed.damaged.as_ref().map_or(Ok(()), |compare| Err(compare.refusal()))
    }
}

/// Consensus that knows the log as far as it was replayed. It takes part in nothing until it is replaced by one that
/// knows all of it.
fn waiting_consensus(
    hard_state: &HardState,
    loaded: &Loaded,
    config: &MemberConfig,
) -> Result<Consensus, OpenMemberError> {
    let LogId { index, term } = loaded.replayed.applied;
    let start = Start {
        hard_state: consensus::HardState { term: hard_state.term, vote: hard_state.vote, commit: index },
        conf_state: loaded.conf_state.clone(),
        applied: index,
        previous: (index, term),
        terms: Vec::new(),
        recent: Vec::new(),
    };
    Ok(Consensus::new(&settings(config), start)?)
}

/// Replays the rest of a log that was repaired, and starts consensus.
fn finish_start(
    log: &mut Log,
    store: &mut Store,
    (applied, mut conf_state): (LogId, ConfState),
    config: &MemberConfig,
) -> Result<FinishedStart, String> {
    let hard_state = log.hard_state();
    let finish = || {
        let state = (store, &mut conf_state);
        let range = ReplayRange { commit: hard_state.commit, last: u64::MAX, forced: None };
        let Replayed { applied, rest, damaged } = replay(log, state, applied, range)?;
        log.loaded()?;
        let consensus = start_consensus(log, &hard_state, (applied, conf_state), rest, config)?;
        let warning = damaged.as_ref().map(DamagedCompare::warning);
        let begun = damaged.and_then(|compare| compare.begun);
        Ok(FinishedStart { consensus, applied, begun, warning })
    };
    finish().map_err(|error: OpenMemberError| error.to_string())
}

/// A start that was cut short has made the log, and nothing else. The flags of this start decide how the cluster
/// begins, so they must be of the same member.
fn check_identity(found: &Identity, config: &MemberConfig) -> Result<(), OpenMemberError> {
    let (cluster_id, member_id) = (config.cluster_id, config.member_id);
    match (found.cluster_id, found.member_id) == (cluster_id, member_id) {
        true => Ok(()),
        false => Err(OpenMemberError::OtherFlags { found: *found, cluster_id, member_id }),
    }
}

/// Writes the checkpoint that a new cluster begins with; or that of a member that joins, which only names its peers.
fn begin(opened: log::Opened, config: &MemberConfig) -> Result<(), OpenMemberError> {
    let ids = config.initial_cluster.iter().map(|member| member.id);
    let ((index, term), conf) = match config.start {
        StartMode::New => (Start::BOOTSTRAP, ConfState::of_voters(ids)),
        StartMode::Join { .. } => {
            let Start { previous, conf_state, .. } = Start::joining();
            (previous, conf_state)
        }
        StartMode::ForceNewCluster => return Err(OpenMemberError::NothingToForce),
    };
    let log::Opened { mut log, reader, .. } = opened;
    let (mut store, _) = Store::new(Arc::new(LogValues::new(reader)), Limits::default());
    let members = config.initial_cluster.iter().map(|member| store::ClusterMember {
        id: member.id,
        peer_urls: member.peer_urls.clone(),
        ..store::ClusterMember::default()
    });
    store.bootstrap(AppliedId { index, term }, members, config.membership.command_set);
    if let StartMode::Join { lineage } = config.start {
        store.join_lineage(lineage);
    }
    write_base(&mut log, &mut store, LogId { index, term }, &conf)
}

/// Writes the state as a base.
fn write_base(log: &mut Log, store: &mut Store, id: LogId, conf: &ConfState) -> Result<(), OpenMemberError> {
    let writer = log.begin_checkpoint(CheckpointKind::Base, id);
    let source = store.begin_checkpoint(store::CheckpointKind::Base);
    let job = CheckpointJob { id, writer, head: conf_state::encode(conf), source };
    log.checkpoint_done(job.write())?;
    Ok(())
}

/// Goes on with this member alone: all entries that it has count as committed, and the other members as removed. A base
/// records that at once, with a lineage that no cluster has had. After a crash before its end, nothing has changed.
fn force_new_cluster(
    log: &mut Log,
    loaded: &mut Loaded,
    config: &MemberConfig,
) -> Result<(), OpenMemberError> {
    let member_id = config.member_id;
    if loaded.conf_state == ConfState::default() {
        return Err(OpenMemberError::NothingToForce);
    }
    let lineage = config.process_run.max(1);
    let forced = loaded.store.force_alone(member_id, lineage);
    forced.map_err(|_| OpenMemberError::Removed { member_id })?;
    loaded.conf_state = ConfState::of_voters([member_id]);
    write_base(log, &mut loaded.store, loaded.replayed.applied, &loaded.conf_state)?;
    loaded.store.checkpoint_written();
    Ok(())
}

/// Loads the checkpoint and replays entries after it: the committed ones, or all for a member that is `forced`.
///
/// # Errors
/// What cannot be read, or applied.
pub(crate) fn load(
    log: &Log,
    recovered: &Recovered,
    values: &Arc<LogValues>,
    (limits, forced): (Limits, Option<u64>),
    parallel: &dyn Parallel,
) -> Result<Loaded, OpenMemberError> {
    let checkpoint = recovered.checkpoint.as_ref().ok_or_else(|| no_checkpoint("there is none"))?;
    let (mut store, reader, mut conf_state) = restore(checkpoint, values, limits, parallel)?;
    let last = recovered.damaged.first().map_or(u64::MAX, |damaged| damaged.index - 1);
    let range = ReplayRange { commit: recovered.hard_state.commit, last, forced };
    let replayed = replay(log, (&mut store, &mut conf_state), checkpoint.id, range)?;
    let loading = Loading {
        checkpoint_index: checkpoint.id.index,
        checkpoint_bytes: checkpoint.bytes(),
        replayed_entries: replayed.applied.index - checkpoint.id.index,
    };
    Ok(Loaded { store, reader, conf_state, replayed, loading })
}

fn no_checkpoint(why: &str) -> OpenMemberError {
    OpenMemberError::Checkpoint(why.to_owned())
}

/// Loads a checkpoint.
fn restore(
    checkpoint: &log::Checkpoint,
    values: &Arc<LogValues>,
    limits: Limits,
    parallel: &dyn Parallel,
) -> Result<(Store, Reader, ConfState), OpenMemberError> {
    let files = ChainFiles::open(checkpoint, &GiveUp::default())?;
    let restored = Store::restore(values.clone(), limits, files.chain.iter().cloned(), parallel);
    if let Some(error) = files.take_error() {
        return Err(error.into());
    }
    let (store, reader) = restored.map_err(|error| OpenMemberError::Checkpoint(error.to_string()))?;
    let conf_state = conf_state::decode(&files.head)
        .ok_or_else(|| no_checkpoint("its head is not one this release knows"))?;
    let (AppliedId { index, term }, id) = (reader.applied(), checkpoint.id);
    if (index, term) != (id.index, id.term) {
        let state = format!("its state is of entry {index} of term {term}");
        return Err(OpenMemberError::Checkpoint(format!(
            "{state}, its file of entry {} of term {}",
            id.index, id.term
        )));
    }
    Ok((store, reader, conf_state))
}

fn start_consensus(
    log: &Log,
    hard_state: &HardState,
    (applied, conf_state): (LogId, ConfState),
    recent: Vec<consensus::Entry>,
    config: &MemberConfig,
) -> Result<Consensus, OpenMemberError> {
    let first = log.first_index();
    let previous_term = log.term(first - 1).unwrap_or(applied.term);
    let start = Start {
        hard_state: consensus::HardState {
            term: hard_state.term,
            vote: hard_state.vote,
            commit: applied.index,
        },
        conf_state,
        applied: applied.index,
        previous: (first - 1, previous_term),
        terms: term_runs(log),
        recent,
    };
    Ok(Consensus::new(&settings(config), start)?)
}

fn settings(config: &MemberConfig) -> consensus::Config {
    consensus::Config {
        id: config.member_id,
        election_tick: config.election_ticks as usize,
        heartbeat_tick: 1,
        pre_vote: config.pre_vote,
        check_quorum: true,
        seed: config.seed,
    }
}

/// The terms of the log's entries as (last index, term) of each run of equal terms.
fn term_runs(log: &Log) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for index in log.first_index()..=log.last_index() {
        let Some(term) = log.term(index) else { continue };
        match runs.last_mut() {
            Some(run) if run.1 == term => run.0 = index,
            _ => runs.push((index, term)),
        }
    }
    runs
}

fn assemble(
    log: Log,
    consensus: Consensus,
    loaded: Loaded,
    values: Arc<LogValues>,
    config: MemberConfig,
    (warnings, unfinished_start): (Vec<String>, Option<UnfinishedStart>),
) -> OpenedMember {
    let Loaded { store, reader, replayed, loading, .. } = loaded;
    let log_reader = log.reader();
    let history = Arc::new(reader.clone());
    let hub = Hub::new(history, values.clone(), config.cluster_id, config.member_id, config.seed);
    let status = Arc::new(MemberStatus::default());
    let MemberConfig { cluster_id, member_id, incarnation, .. } = config;
    let identity = Identity { cluster_id, member_id, incarnation };
    let member = Member::new(Parts {
        config,
        status: status.clone(),
        log,
        consensus,
        store,
        reader: reader.clone(),
        values: values.clone(),
        hub: hub.clone(),
        applied: replayed.applied,
        applying: replayed.damaged.and_then(|compare| compare.begun),
        unfinished_start,
    });
    OpenedMember { member, reader, values, log: log_reader, hub, status, identity, warnings, loading }
}
