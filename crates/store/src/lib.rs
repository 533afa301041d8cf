//! The replicated state machine: what a committed batch of commands does to keys, revisions, leases and watchers.
//!
//! One [`Store`] writes, any number of [`Reader`]s read. They share the state behind one read-write lock. The bytes of
//! values are not in it: the store holds references and reads values through [`Values`], never under its lock.
//!
//! ```text
//! Store::begin_batch(commands), apply_slice(keys) -> outcomes, events      the raft loop, for each committed batch
//! resolve(reply)               -> the client's response, with values       the RPC worker
//! Reader::encode_range(request)-> the client's response, encoded           the RPC worker
//! Reader::range, events, hash_kv, live_references                          any thread, in chunks
//! Store::purge_step, begin_checkpoint, relocate                            maintenance, not during a command
//! watch::Hub::publish(events)  -> the event buffers of watch streams       the raft loop, after apply
//! ```
//!
//! # Where to find what
//!
//! | module | holds |
//! |---|---|
//! | `types`, `values`, `command` | the types at the boundary: revisions, events, references, commands and replies |
//! | `index/` | the key index: records, counted B+ tree, revision log |
//! | `state/`, `lessor`, `hash/` | the replicated state and its lock, leases, the state hash and the hash of HashKV |
//! | `apply/`, `compare` | what commands do to the state |
//! | `auth/` | users, roles, and who may do what |
//! | `range/`, `resolve`, `wire` | which keys a range selects, and the encoded answer |
//! | `reader/` | all reads |
//! | `calls/` | calls that are answered in several steps, with permissions that may change in between |
//! | `memory` | what is accounted as the memory of the state |
//! | `purge` | dropping compacted history |
//! | `checkpoint/` | the state as bytes: base and deltas |
//! | `import/` | a state that comes from elsewhere, version by version |
//! | `parallel` | work in independent tasks, which the caller runs |
//! | `store/` | the writer's handle, which composes these |
//! | [`watch`] | the watch hub: from applied events to encoded watch responses |
//!
//! # Invariants
//!
//! - The state after a batch is a function of the state before it and the batch. Nothing local (clock, memory, a
//!   damaged value, how far purging came) affects an outcome.
//! - Every version that a read at the compact revision or later can see is retained; so is every version that a pinned
//!   revision sees.
//! - The index retains each value reference that it holds exactly once with [`Values`].
//!
//! [`Store::check`] and [`Store::check_all`] verify the invariants of the state.
//!
//! # What it does not know
//!
//! Files, Raft, clocks, threads. The deadlines of leases belong to the lease clock, which proposes their expiry.

mod apply;
mod auth;
mod calls;
mod checkpoint;
mod command;
mod compare;
mod hash;
mod import;
mod index;
mod lessor;
mod memory;
mod parallel;
mod purge;
mod range;
mod reader;
mod resolve;
mod state;
mod store;
mod types;
mod values;
pub mod watch;
mod wire;

#[cfg(test)]
mod testing;

pub use auth::{
    AuthCommand, AuthRole, AuthUser, Caller, RangePermission, TokenHash, TokenLookup, TokenPosition,
};
pub use calls::{
    LeaseList, MAX_REQUESTS_AT_ONCE, PermittedRange, PermittedWatches, ServedStep, ServedWatches,
    WatchCaller, WatchRequests,
};
pub use checkpoint::{
    CheckpointKind, CheckpointSource, MergedCheckpoint, Restoration, RestoreError, Restored, chunk_key,
    chunk_values, with_addresses,
};
pub use command::{
    Applied, BatchContext, Command, DeleteReply, LeaseChange, MAX_TXN_ANSWER_BYTES, OpReply, Outcome,
    PutReply, Reply, Slice, TxnReply,
};
pub use import::{ImportReplay, ImportTotals, ImportedMembers, StateImport};
pub use index::VERSION_OVERHEAD_BYTES;
pub use lessor::{LeaseInfo, MAX_LEASE_TTL};
pub use memory::StoreMemory;
pub use parallel::{Parallel, Sequential, Task};
pub use range::{ChunkSink, NextChunk, RangeReply, ReplyOrder};
pub use reader::{
    CapturedState, CompactionHashScan, HashKvReply, HashKvScan, LeaseAccess, LeaseKeyScan, RangeStream,
    ReadTxn, Reader, Reference, RetainedVersion, StoreCounts, StreamChunk, VersionPosition, VersionWalk,
};
pub use resolve::{Response, resolve, resolve_kv, resolve_range, resolve_txn};
pub use state::{
    ClusterMember, DEFAULT_SLICE_KEYS, DOWNGRADE_COMMAND_SET, DataState, FIRST_COMMAND_SET, KeptHash, Limits,
    MAX_KEPT_HASHES, MemberChange, StateReplaced,
};
pub use store::{ReplacedState, Store};
pub use types::{AppliedId, Event, EventKind, KeyRange, KvRef, Revision};
pub use values::{Access, Damaged, ValueRef, ValueSlot, Values};
pub use watch::{Compacted, History};
