//! One member as a state machine: inputs in, outputs out; ties log, store and consensus.
pub mod batch;
pub mod frame;
pub mod identity;
pub mod inbox;
pub mod lease;
pub mod publish;
pub mod waiting;
