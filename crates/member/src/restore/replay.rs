//! A state from elsewhere, and what is applied to it before the directory is whole: entries of its cluster, for a
//! restore to any of them, or requests that etcd had logged behind its database.
//!
//! ```text
//! StateRestore   base: the state after entry 900 of the old cluster
//! into_replay
//! apply_entry    901: payload -> data segment, whole; commands -> store, whose values are parts of that payload
//! apply_entry    902: ...
//! finish         the state -> base checkpoint at the first entry of the new cluster
//! ```
//!
//! A request of etcd goes the same way: its bytes are the payload, and it is the one command.
//!
//! Commands about members, the cluster version and the command set are passed over, as in the base: they belong to the
//! old cluster. All others are applied as its members applied them, with the terms of their entries, so the data after
//! an entry has the hash that it had there.
//!
//! A payload is written as a whole, with values that later ones replaced, and what is dead of it is relocated away
//! later, as in a log. Values that transactions compare are read back from the files that are being written.

use bytes::Bytes;
use consensus::{EntryKind, Start};
use log::StoredValue;
use store::{BatchContext, Caller, DataState, ImportReplay, ImportTotals, Outcome, ValueRef};

use super::{RestoreParts, StateRestore, write_state};
use crate::apply::{callers, decode_all};
use crate::open::OpenMemberError;
use crate::proposals::batch::{self, BatchError, CommandKind, LogCommand};

/// A state to which entries or requests are applied. See the module.
pub struct StateReplay {
    parts: RestoreParts,
    replay: ImportReplay,
    /// Commands applied of the entry that was applied last, if it was applied in part.
    part: u64,
}

impl StateRestore {
    /// Ends the versions; entries or requests may follow.
    ///
    /// # Errors
    /// A state that no store has.
    pub fn into_replay(self) -> Result<StateReplay, OpenMemberError> {
        let StateRestore { parts, state } = self;
        let (restored, totals) = state.finish()?;
        Ok(StateReplay { parts, replay: ImportReplay::new(restored, totals), part: 0 })
    }
}

impl StateReplay {
    /// The data as it is now. Its entry is one of the new cluster.
    pub fn data(&self) -> DataState {
        self.replay.data()
    }

    /// How many commands were applied of the last entry, if it was left before its end; else 0.
    pub fn part(&self) -> u64 {
        self.part
    }

    /// Applies the next entry. Stops behind the command that makes the revision `until`, and returns whether it did.
    ///
    /// # Errors
    /// The entry is none that this release can apply; or the disk.
    pub fn apply_entry(&mut self, entry: &log::Entry, until: Option<i64>) -> Result<bool, OpenMemberError> {
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
        let context = self.write_payload(&entry.payload)?;
        let context = BatchContext { term: entry.term, ..context };
        let highest = self.data().revision.saturating_add_unsigned(store_commands.len() as u64);
        if until.is_none_or(|until| highest < until) {
            self.apply(BatchContext { callers, ..context }, store_commands)?;
            return Ok(false);
        }
        for (at, command) in store_commands.into_iter().enumerate() {
            let caller = callers.get(at).cloned();
            self.apply(
                BatchContext { callers: caller.into_iter().collect(), ..context.clone() },
                vec![command],
            )?;
            if until.is_some_and(|until| self.data().revision >= until) {
                self.part = at as u64 + 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Applies a request of etcd, as a member applies one that was committed: it may be refused. Its values are slices
    /// of `bytes`, which become a part of the lineage.
    ///
    /// # Errors
    /// The disk.
    pub fn apply_request(
        &mut self,
        caller: Caller,
        command: store::Command,
        bytes: &Bytes,
    ) -> Result<Outcome, OpenMemberError> {
        let has_values = matches!(command, store::Command::Put(_) | store::Command::Txn(_));
        let context = match has_values && !bytes.is_empty() {
            true => self.write_payload(bytes)?,
            false => BatchContext { payload: bytes.clone(), ..BatchContext::at(0, Start::BOOTSTRAP.1) },
        };
        self.replay.note_history(bytes);
        let mut outcomes = self.apply(BatchContext { callers: vec![caller], ..context }, vec![command])?;
        // One command has one outcome.
        Ok(outcomes.pop().expect("the command has an outcome"))
    }

    /// Writes the payload of commands, and returns what they are applied with.
    fn write_payload(&mut self, payload: &Bytes) -> Result<BatchContext, OpenMemberError> {
        let address = self.parts.installer.write_value(payload, crc32c::crc32c(payload))?;
        let begun = BatchContext::at(0, Start::BOOTSTRAP.1);
        Ok(BatchContext { payload: payload.clone(), payload_address: address, ..begun })
    }

    fn apply(
        &mut self,
        context: BatchContext,
        commands: Vec<store::Command>,
    ) -> Result<Vec<Outcome>, OpenMemberError> {
        let installer = &mut self.parts.installer;
        self.replay.apply(context, commands, |value| {
            let ValueRef { address, len, checksum } = *value;
            Ok(installer.read_value(StoredValue { address, len, checksum })?.into())
        })
    }

    /// Raises the newest revision by so much, and compacts at it, so that no client which knows a later revision than
    /// that of the state sees revisions fall.
    ///
    /// # Errors
    /// No store reaches that revision.
    pub fn raise_revision(&mut self, by: u64) -> Result<(), OpenMemberError> {
        Ok(self.replay.raise_revision(by)?)
    }

    /// Ends it: the directory is whole when this returns, and holds a member of a new cluster. The lineage tells states
    /// apart: all members of a cluster must have the same. Without a given one it is computed from the state, its
    /// versions and its requests.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(self, lineage: Option<u64>) -> Result<ImportTotals, OpenMemberError> {
        let RestoreParts { log, installer, conf } = self.parts;
        let (store, totals) = self.replay.finish(lineage);
        write_state(installer, &conf, &store)?;
        drop(log);
        Ok(totals)
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
        replay: StateReplay,
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
            assert!(!replay.apply_entry(entry, Some(5)).expect("it is applied"));
        }
        assert!(replay.apply_entry(&entries[2], Some(5)).expect("it is applied"), "`three` makes revision 5");
        let data = replay.data();
        assert_eq!((data.revision, replay.part()), (5, 3));
        let totals = replay.finish(Some(77)).expect("the disk is intact");
        assert_eq!((totals.revision, totals.keys), (5, 3));
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
    fn a_raised_revision_is_compacted() {
        let Restored { disk, options, mut replay } = empty();
        let puts = [put("a", "one"), put("b", "two"), put("a", "three")];
        assert!(replay.apply_entry(&entry(70, &puts), Some(4)).expect("it is applied"));
        assert!(replay.raise_revision(u64::MAX).is_err(), "no store reaches it");
        replay.raise_revision(1_000).expect("a store reaches it");
        let totals = replay.finish(Some(77)).expect("the disk is intact");
        assert_eq!((totals.revision, totals.compacted, totals.keys), (1_004, 1_004, 2));
        let reader = open_offline(&disk, &options, &Sequential).expect("it is a whole directory").reader;
        assert_eq!((reader.current_revision(), reader.compacted()), (1_004, 1_004));
        let (kept, _) = reader.live_references(|_| true, &Default::default(), usize::MAX);
        assert_eq!(kept.len(), 2, "the first version of `a` is compacted");
    }

    #[test]
    fn requests_compare_values_that_were_just_written() {
        let Restored { disk, options, mut replay } = empty();
        let mut lineages = Vec::new();
        for request in [put("b", "two"), swap("b", "two"), swap("b", "other")] {
            let (_, commands) = decode_all(vec![request.clone()]);
            let command = commands.into_iter().next().expect("it is one command");
            let outcome = replay.apply_request(Caller::Anonymous, command, &request.body);
            lineages.push(outcome.expect("the disk is intact").is_ok());
        }
        assert_eq!(lineages, [true, true, true]);
        let totals = replay.finish(None).expect("the disk is intact");
        assert_eq!((totals.revision, totals.keys), (3, 2), "the last compare does not hold");
        let opened = open_offline(&disk, &options, &Sequential).expect("it is a whole directory");
        let (references, _) = opened.reader.live_references(|_| true, &Default::default(), usize::MAX);
        for found in references {
            assert_eq!(opened.values.read(&found.value).expect("it is intact"), "two");
        }
        assert_ne!(opened.reader.lineage(), 0);
    }

    #[test]
    fn what_this_release_cannot_apply_is_refused() {
        let mut replay = empty().replay;
        let newer = log::Entry { payload: [&[99][..], &[0; 15]].concat().into(), ..entry(8, &[]) };
        let unknown = log::Entry { kind: 9, ..entry(8, &[]) };
        for refused in [newer, unknown] {
            let error = replay.apply_entry(&refused, None).expect_err("it is not known").to_string();
            assert!(error.contains("entry 8 cannot be replayed"), "{error}");
        }
        let garbage = log::Entry { payload: "garbage that is no batch".into(), ..entry(9, &[]) };
        assert!(replay.apply_entry(&garbage, None).is_err(), "its first byte names a command set");
    }
}
