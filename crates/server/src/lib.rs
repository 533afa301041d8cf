//! One member as a process: flags, threads, gRPC and HTTP, metrics, shutdown.
//!
//! `main` is a table of contents: parse the flags, open the member, connect its peers, listen, decide until a signal,
//! drain. What a member *decides* is in the crate `member`; here it is given time, threads, sockets and a disk.

pub mod auto_compaction;
mod compactor;
pub mod config;
mod describe;
mod driver;
mod grpc;
pub mod http;
pub mod listen;
pub mod logging;
pub mod metrics;
mod node;
mod notices;
mod observed;
mod peers;
mod rpc;
mod run;
mod serve;
mod snapshots;
mod workers;

pub use run::main;
