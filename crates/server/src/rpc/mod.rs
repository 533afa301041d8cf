//! The gRPC services: bytes in, bytes out, over [`crate::grpc`], and the threads that serve them.
//!
//! A handler gets the shared [`crate::node::Node`], what the call's metadata said (`Call`) and the request's bytes. No
//! handler knows HTTP/2, so the layer below can be exchanged.
//!
//! | file | holds |
//! |---|---|
//! | `workers.rs` | the RPC workers: one thread per core |
//! | `dispatch.rs` | the table of methods, and how a handler is run |
//! | `rows.rs` | checks while compiling that the table has every method |
//! | `call.rs` | what handlers know of a call |
//! | `call_metrics.rs` | counters of a method, warnings for slow calls |
//! | `request_stats.rs` | what the log says of a request |
//! | `streaming_call.rs` | the two halves of a streaming call |
//! | `streamed_range.rs` | large ranges, sent while they are encoded |
//! | `auth/`, `kv/`, `watch/`, `lease/`, `cluster.rs`, `maintenance/`, `health.rs` | the services |
//! | `backup/` | `Maintenance.Snapshot`: the state as a database file of etcd |
//! | `concurrency/` | the Lock and Election services |
//! | `watcher_repairs.rs` | repairs of values that watchers wait for |
//! | `coalescing_notifier.rs` | wakes the watch streams of a worker together |

mod auth;
mod backup;
mod call;
mod call_metrics;
mod cluster;
mod coalescing_notifier;
mod concurrency;
mod dispatch;
mod health;
mod kv;
mod lease;
mod maintenance;
mod request_stats;
mod rows;
mod streamed_range;
mod streaming_call;
mod watch;
mod watcher_repairs;
mod workers;

pub(crate) use backup::{BackupPart, backup_file_bytes, backup_point, begin_backup, read_entries};
pub(crate) use dispatch::Dispatch;
pub(crate) use workers::RpcWorkers;
