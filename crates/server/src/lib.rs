//! One member as a process: flags, threads, gRPC and HTTP, metrics, shutdown.
//!
//! [`main`] is a table of contents: parse the flags, open the member, connect its peers, listen, run the raft loop
//! until a signal, drain. What a member *decides* is in the crate `member`; this crate gives it time, threads, sockets
//! and a disk.
//!
//! | module | does |
//! |---|---|
//! | `config` | flags, variables and the configuration file become one checked value |
//! | `startup` | opens the member, connects everything below, shuts down in good order |
//! | `raft_loop` | the path of a request to the thread that owns the member, and back: read this one first |
//! | `node` | what all services share |
//! | `grpc` | HTTP/2 and gRPC, without the meaning of a call |
//! | `rpc` | the methods, without HTTP/2; the RPC workers |
//! | `http` | health, version, metrics, over HTTP/1 |
//! | `peers` | frames and snapshots between the transport and the raft loop |
//! | `metrics`, `logging` | what operators read |
//! | `auto_compaction` | compacts history by itself |

mod auto_compaction;
pub mod config;
mod grpc;
mod http;
mod logging;
pub mod metrics;
mod node;
mod peers;
mod raft_loop;
mod rpc;
mod startup;

pub use startup::main;
