//! The fuzz targets. Each public module but `input` is one target, `strangers` six: its head says what it reads and
//! what must hold. docs/internals/fuzzing.md says how to run them.

pub mod batch;
pub mod commands;
pub mod config;
pub mod database_file;
pub mod http2;
pub mod log_open;
pub mod member_open;
pub mod peer_frame;
pub mod peer_input;
pub mod snapshot_stream;
pub mod store_checkpoint;
pub mod strangers;
pub mod transport_frame;

pub mod input;
