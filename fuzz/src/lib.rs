//! What the fuzz targets do with their bytes. Each module is one target: its head says what is read and what must
//! hold. docs/internals/fuzzing.md says how to run them.

pub mod batch;
pub mod commands;
pub mod config;
pub mod log_open;
pub mod member_open;
pub mod peer_frame;
pub mod peer_input;
pub mod snapshot_stream;
pub mod store_checkpoint;
pub mod transport_frame;

mod bounded;
pub mod image;
pub mod mend;
pub mod rig;
pub mod script;
