//! One member as a process: flags, threads, gRPC and HTTP, metrics, shutdown.
//!
//! [`main`] is a table of contents: parse the flags, open the member, connect its peers, listen, run the raft loop
//! until a signal, drain. What a member *decides* is in the crate `member`; this crate gives it time, threads, sockets
//! and a disk.
//!
//! | module | does |
//! |---|---|
//! | `config` | flags, variables and the configuration file become one checked value |
//! | `startup` | opens the member, connects everything below, shuts down cleanly |
//! | `raft_loop` | the path of a request to the thread that owns the member, and back: read this one first |
//! | `node` | what all services share |
//! | `grpc` | HTTP/2 and gRPC, without the meaning of a call |
//! | `rpc` | the methods, without HTTP/2; the RPC workers |
//! | `overload` | what is refused early, and the limits of one client |
//! | `auth` | authentication at the edge: passwords, tokens, and the permissions that a method needs |
//! | `tls` | certificates and handshakes of all listeners, and of connections to members |
//! | `gateway` | HTTP requests with JSON, as calls of the methods |
//! | `http` | health, version, metrics, over HTTP/1 |
//! | `peers` | frames and snapshots between the transport and the raft loop |
//! | `metrics`, `logging` | what operators read |
//! | `live_settings` | settings that change while the member runs |
//! | `file_stamps` | whether files have changed since they were read |
//! | `directory_mode` | warns of a data directory that other users can access |
//! | `call_times` | the phases of a call |
//! | `spans` | calls as spans of OpenTelemetry, exported to a collector |
//! | `grpc_client` | the few calls that a member makes itself |
//! | `auto_compaction` | compacts history by itself |
//! | `backup` | copies the cluster into an archive, while this member leads |
//! | `corruption` | compares this member's data with that of its peers |
//! | `untrusted` | readers of what strangers send, for the fuzz targets |

mod auth;
mod auto_compaction;
mod backup;
mod call_times;
pub mod config;
mod corruption;
mod directory_mode;
mod file_stamps;
mod gateway;
mod grpc;
mod grpc_client;
mod http;
mod live_settings;
mod logging;
pub mod metrics;
mod node;
mod overload;
mod peers;
mod raft_loop;
mod rpc;
mod spans;
mod startup;
mod tls;
pub mod untrusted;

pub use startup::{PANIC_REPORT_TIMEOUT, main, report_panic};
