//! What members run on, simulated: machines with disks and clocks, the network between them, requests, and the queue of
//! events that is time.
//!
//! These are parts with state and no knowledge of the run that uses them: each method takes what it needs.

pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod lease_stream;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod watch_caller;
pub(crate) mod watch_stream;
