//! A state from elsewhere, and entries of its cluster applied to it: a restore to any entry that was backed up.
//!
//! ```text
//! StateRestore   base: the state after entry 900 of the old cluster
//! into_replay
//! apply 901      payload -> data segment, whole; commands -> store, whose values are parts of that payload
//! apply 902      ...
//! finish         the state -> base checkpoint at the first entry of the new cluster
//! ```
//!
//! Commands about members, the cluster version and the command set are passed over, as in the base: they belong to the
//! old cluster. All others are applied as its members applied them, with the terms of their entries, so the data after
//! an entry has the hash that it had there.
//!
//! A payload is written as a whole, with values that later ones replaced, and what is dead of it is relocated away
//! later, as in a log.

use std::sync::Arc;

use bytes::Bytes;
use consensus::{ConfState, EntryKind, Start};
use log::{Log, SnapshotInstaller, StoredValue};
use store::{
    AppliedId, BatchContext, Caller, Damaged, DataState, Limits, Reader, Slice, Store, ValueRef, Values,
};

use super::{RestoreParts, StateRestore, write_state};
use crate::apply::{callers, decode_all};
use crate::open::OpenMemberError;
use crate::proposals::batch::{self, BatchError, CommandKind, LogCommand};

/// Changes below the compact revision that are dropped after each entry: more than an entry can make.
const MAX_PURGE_STEPS: usize = 16_384;

/// A state to which entries are applied. See the module.
pub struct EntryReplay {
    log: Log,
    installer: Box<SnapshotInstaller>,
    store: Store,
    reader: Reader,
    conf: ConfState,
    /// Counts applications for the store, which wants indexes that rise: a batch may be applied in parts.
    next_index: u64,
    /// Commands applied of the entry that was applied last, if it was applied in part.
    part: u64,
}

/// Nothing is read during a replay but what [`Slice::NeedsValues`] asks for, and files are kept as they are.
struct UnreadValues;

impl Values for UnreadValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let reason = "values are not read during a restore".into();
        Err(Damaged { address: value.address, len: value.len, key: None, reason, is_transient: false })
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

impl StateRestore {
    /// Goes on with entries, after the last version.
    ///
    /// # Errors
    /// A state that no store has.
    pub fn into_replay(self) -> Result<EntryReplay, OpenMemberError> {
        let StateRestore { parts: RestoreParts { log, installer, conf }, state, .. } = self;
        let (restored, _) = state.finish()?;
        let (mut store, _) = Store::new(Arc::new(UnreadValues), Limits::default());
        drop(store.install(restored));
        Ok(EntryReplay::new(log, installer, store, conf))
    }
}

impl EntryReplay {
    fn new(log: Log, installer: Box<SnapshotInstaller>, mut store: Store, conf: ConfState) -> EntryReplay {
        store.begin_replay();
        let reader = store.reader();
        let next_index = Start::BOOTSTRAP.0 + 1;
        EntryReplay { log, installer, store, reader, conf, next_index, part: 0 }
    }

    /// The data as it is now. Its entry is one of the new cluster.
    pub fn data(&self) -> DataState {
        // Between two entries there always is one.
        self.reader.data_state().expect("no entry is being applied")
    }

    /// The number of live keys.
    pub fn keys(&self) -> u64 {
        self.reader.counts().keys
    }

    /// How many commands were applied of the last entry, if it was left before its end; else 0.
    pub fn part(&self) -> u64 {
        self.part
    }

    /// Applies the next entry. Stops behind the command that makes the revision `until`, and returns whether it did.
    ///
    /// # Errors
    /// The entry is none that this release can apply; or the disk.
    pub fn apply(&mut self, entry: &log::Entry, until: Option<i64>) -> Result<bool, OpenMemberError> {
        let refused = |reason: String| OpenMemberError::Replay { index: entry.index, reason };
        let kind = EntryKind::from_u8(entry.kind)
            .ok_or_else(|| refused(format!("it is of kind {}, which is not known here", entry.kind)))?;
        self.part = 0;
        if kind != EntryKind::Batch {
            return Ok(false);
        }
        let commands = data_commands(&entry.payload).map_err(|error| refused(error.to_string()))?;
        let (decoded, store_commands) = decode_all(commands);
        if store_commands.is_empty() {
            return Ok(false);
        }
        let callers = callers(&decoded);
        let written = self.installer.write_value(&entry.payload, crc32c::crc32c(&entry.payload));
        let payload = (written.map_err(OpenMemberError::from)?, entry.payload.clone());
        let revision = self.data().revision;
        let highest = revision.saturating_add_unsigned(store_commands.len() as u64);
        if until.is_none_or(|until| highest < until) {
            self.apply_commands(entry.term, &payload, store_commands, callers)?;
            self.store.purge_step(MAX_PURGE_STEPS);
            return Ok(false);
        }
        for (at, command) in store_commands.into_iter().enumerate() {
            let caller = callers.get(at).cloned();
            self.apply_commands(entry.term, &payload, vec![command], caller.into_iter().collect())?;
            if until.is_some_and(|until| self.data().revision >= until) {
                self.part = at as u64 + 1;
                return Ok(true);
            }
        }
        self.store.purge_step(MAX_PURGE_STEPS);
        Ok(false)
    }

    fn apply_commands(
        &mut self,
        term: u64,
        payload: &(u64, Bytes),
        commands: Vec<store::Command>,
        callers: Vec<Caller>,
    ) -> Result<(), OpenMemberError> {
        let context = BatchContext {
            payload: payload.1.clone(),
            payload_address: payload.0,
            callers,
            ..BatchContext::at(self.next_index, term)
        };
        self.next_index += 1;
        self.store.begin_batch(context, commands);
        loop {
            match self.store.apply_slice(&mut 0) {
                Slice::Partial { .. } => {}
                Slice::NeedsValues(wanted) => {
                    let mut values = Vec::with_capacity(wanted.len());
                    for value in wanted {
                        let ValueRef { address, len, checksum } = value;
                        let bytes = self.installer.read_value(StoredValue { address, len, checksum })?;
                        values.push((value, bytes.into()));
                    }
                    self.store.supply_values(values.into_iter());
                }
                Slice::Last(_) => return Ok(()),
            }
        }
    }

    /// Ends it: the directory is whole when this returns, and holds a member of a new cluster. Members of the cluster
    /// must be made with the same `lineage`, not 0, which tells states apart.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self, lineage: u64) -> Result<DataState, OpenMemberError> {
        let data = self.data();
        let EntryReplay { log, installer, mut store, conf, .. } = self;
        store.end_replay();
        while !store.purge_step(MAX_PURGE_STEPS) {}
        let (index, term) = Start::BOOTSTRAP;
        store.begin_cluster(AppliedId { index, term }, lineage.max(1));
        write_state(installer, &conf, &store)?;
        drop(log);
        Ok(data)
    }
}

/// When an entry was proposed, by the clock of its leader, in milliseconds since 1970; `None` if it has no commands.
pub fn entry_clock_ms(entry: &log::Entry) -> Option<u64> {
    let is_batch = EntryKind::from_u8(entry.kind) == Some(EntryKind::Batch);
    if is_batch { batch::clock_ms(&entry.payload) } else { None }
}

/// The commands of a batch but for those about the cluster. As for members, a batch that does not decode has none.
///
/// # Errors
/// It was written by a newer release.
fn data_commands(payload: &Bytes) -> Result<Vec<LogCommand>, BatchError> {
    let mut commands = match batch::decode(payload) {
        Err(error @ BatchError::Version(_)) => return Err(error),
        decoded => decoded.map(|batch| batch.commands).unwrap_or_default(),
    };
    commands.retain(|command| {
        !matches!(
            command.kind,
            CommandKind::ClusterVersion
                | CommandKind::Publish
                | CommandKind::CommandSet
                | CommandKind::DowngradeInfo
        )
    });
    Ok(commands)
}

#[cfg(test)]
mod tests {
    //! Entries are applied to a state from elsewhere as to their own, and may be left in their middle.
    use std::sync::Arc;

    use api::etcdserverpb as pb;
    use log::{Disk, Identity, MemDisk, Options};
    use prost::Message;
    use store::Sequential;

    use super::*;
    use crate::config::InitialMember;
    use crate::proposals::batch::Origin;
    use crate::restore::{StateRestore, open_offline};

    fn command(kind: CommandKind, request: &impl Message) -> LogCommand {
        let (origin, body) = (Origin { member: 9, run: 9 }, request.encode_to_vec().into());
        LogCommand { origin, sequence: 1, kind, auth: Bytes::new(), body }
    }

    fn put(key: &'static str, value: &'static str) -> LogCommand {
        let request = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        command(CommandKind::Put, &request)
    }

    fn swap(key: &'static str, value: &'static str) -> LogCommand {
        let target_union = Some(pb::compare::TargetUnion::Value(value.into()));
        let target = pb::compare::CompareTarget::Value as i32;
        let compare = pb::Compare { target, key: key.into(), target_union, ..Default::default() };
        let put = pb::PutRequest { key: "swapped".into(), value: value.into(), ..Default::default() };
        let success = vec![pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }];
        let txn = pb::TxnRequest { compare: vec![compare], success, ..Default::default() };
        command(CommandKind::Txn, &txn)
    }

    fn entry(index: u64, commands: &[LogCommand]) -> log::Entry {
        log::Entry {
            term: 5,
            index,
            kind: EntryKind::Batch as u8,
            payload: batch::encode(index * 10, commands),
        }
    }

    struct Restored {
        disk: Arc<dyn Disk>,
        options: Options,
        replay: EntryReplay,
    }

    fn empty() -> Restored {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let options = Options { segment_bytes: 1 << 16, ..Options::new("/data") };
        let identity = Identity { cluster_id: 1, member_id: 2, incarnation: 3 };
        let members = [InitialMember { id: 2, name: "a".to_owned(), peer_urls: Vec::new() }];
        let begun =
            StateRestore::begin(&disk, &options, identity, &members, None).expect("the disk is empty");
        Restored { disk, options, replay: begun.into_replay().expect("nothing is a state") }
    }

    #[test]
    fn entries_are_applied_up_to_a_revision_in_their_middle() {
        let Restored { disk, options, mut replay } = empty();
        let publish = command(CommandKind::CommandSet, &pb::PutRequest::default());
        let entries = [
            entry(70, &[publish, put("a", "one"), put("b", "two")]),
            log::Entry { term: 5, index: 71, kind: EntryKind::Empty as u8, payload: Bytes::new() },
            entry(72, &[swap("b", "two"), swap("b", "other"), put("a", "three"), put("c", "four")]),
        ];
        assert_eq!(entry_clock_ms(&entries[2]), Some(720));
        for entry in &entries[..2] {
            assert!(!replay.apply(entry, Some(5)).expect("it is applied"));
        }
        assert!(replay.apply(&entries[2], Some(5)).expect("it is applied"), "`three` makes revision 5");
        assert_eq!((replay.data().revision, replay.part(), replay.keys()), (5, 3, 3));
        let data = replay.finish(77).expect("the disk is intact");
        let opened = open_offline(&disk, &options, &Sequential).expect("it is a whole directory");
        assert_eq!((opened.reader.current_revision(), opened.reader.lineage()), (5, 77));
        assert_eq!(opened.reader.data_state().expect("nothing is applied").hash, data.hash);
        assert_eq!(opened.reader.members().len(), 1);
        let (references, _) = opened.reader.live_references(|_| true, &Default::default(), usize::MAX);
        let values: Vec<Bytes> =
            references.iter().map(|found| opened.values.read(&found.value).expect("it is intact")).collect();
        assert_eq!(values, ["one", "three", "two", "two"]);
    }

    #[test]
    fn what_this_release_cannot_apply_is_refused() {
        let mut replay = empty().replay;
        let newer = log::Entry { payload: [&[99][..], &[0; 15]].concat().into(), ..entry(8, &[]) };
        let unknown = log::Entry { kind: 9, ..entry(8, &[]) };
        for refused in [newer, unknown] {
            let error = replay.apply(&refused, None).expect_err("it is not known").to_string();
            assert!(error.contains("entry 8 cannot be replayed"), "{error}");
        }
        let garbage = log::Entry { payload: "garbage that is no batch".into(), ..entry(9, &[]) };
        assert!(replay.apply(&garbage, None).is_err(), "its first byte names a command set");
    }
}
