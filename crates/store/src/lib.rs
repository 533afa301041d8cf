//! The replicated state machine: what a committed batch of commands does to keys, revisions, leases and
//! watchers.
//!
//! One [`Store`] writes, any number of [`Reader`]s read; they share an index behind one read-write lock.
//! Values are not here: the store holds references to them and asks [`Values`] for the bytes, never under its
//! lock.
//!
//! ```text
//! Store::apply_batch(commands) -> Applied { outcomes, events, leases }     the log's only way in
//! resolve(reply)               -> the client's response, with values       on the RPC worker
//! Reader::list(request)        -> the client's response, encoded           on the RPC worker
//! Reader::range, history, hash_kv, live_references                         any thread, in chunks
//! Store::purge_step, begin_checkpoint, relocate                            upkeep, in small steps
//! ```
//!
//! # Invariants
//!
//! - The state after a batch is a function of the state before it and the batch. Nothing local (the clock,
//!   memory, a damaged value, how far purging came) decides an outcome.
//! - Every version that a read at the compact revision or later can see is retained; so is what pins see.
//! - The index retains each value reference it holds exactly once with [`Values`].
//!
//! # What it does not know
//!
//! Files, raft, clocks, threads. Deadlines of leases belong to whoever proposes their expiry.

mod alarms;
mod apply;
mod checkpoint;
mod command;
mod compare;
mod encode;
mod hash;
mod index;
mod lease;
mod members;
mod purge;
mod range;
mod reader;
mod resolve;
mod revlog;
mod state;
mod store;
mod types;
mod version_hash;
pub mod watch;
mod wire;

#[cfg(test)]
mod testing;

pub use checkpoint::{
    CheckpointKind, CheckpointSource, Restoration, RestoreError, Restored, chunk_values, with_addresses,
};
pub use command::{
    Applied, BatchContext, Command, DeleteReply, LeaseChange, OpReply, Outcome, PutReply, Reply, TxnReply,
};
pub use encode::Pieces;
pub use index::VERSION_OVERHEAD_BYTES;
pub use lease::{LeaseInfo, MAX_LEASE_TTL};
pub use members::{Member, MemberChange};
pub use range::{ByValue, RangeReply};
pub use reader::{
    Counts, HashKv, HashKvReply, RangeStream, ReadTxn, Reader, Reference, Retained, StreamChunk, VersionWalk,
};
pub use resolve::{Response, resolve, resolve_kv, resolve_range, resolve_txn};
pub use state::{Limits, Position};
pub use store::Store;
pub use types::{
    Access, Compacted, Damaged, Event, EventKind, History, KeyRange, KvRef, Revision, ValueRef, ValueSlot,
    Values,
};
