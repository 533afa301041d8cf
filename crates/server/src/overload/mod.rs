//! Overload: what is refused early, and why. Refusals say `too many requests`, and when to try again.
//!
//! | file | holds |
//! |---|---|
//! | `queue_wait.rs` | how long a new request would wait in the queues of the raft loop, by their length and drain rate |
//! | `range_wait.rs` | the same for long ranges |
//! | `connection_ranges.rs` | how many of one connection are in that queue |
//! | `worker_wait/` | how long it waits before an RPC worker reads it, and the share that is admitted then |
//! | `retry_hint.rs` | when a refused client should try again |
//! | `clients/` | limits of one client: requests, bytes and open calls |
//!
//! A number is measured where the clock is read anyway, once for an iteration of the raft loop or for a long range, or
//! every 50 ms of a worker; a request that is admitted compares it and reads no clock. What is refused, and in which
//! words, is decided by `node/waits.rs` and `rpc/dispatch.rs`. Not here: limits of bytes and counts, which the queues
//! themselves keep.

mod clients;
mod connection_ranges;
mod queue_wait;
mod range_wait;
mod retry_hint;
mod worker_wait;

pub(crate) use clients::{ClientAccount, ClientAccounts, ClientLimits, ClientName, ExceededLimit, OpenCall};
pub(crate) use connection_ranges::ConnectionRanges;
pub(crate) use queue_wait::{Finished, QueueWaits, WaitEstimate};
pub(crate) use range_wait::RangeWait;
pub(crate) use retry_hint::retry_after;
pub(crate) use worker_wait::{LongestWorkerWait, admit_on_own_worker, may_refuse, measure_own_worker};
