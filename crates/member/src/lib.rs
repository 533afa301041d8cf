//! One member as a state machine: inputs in, outputs out; ties log, store and consensus.
pub mod batch;
pub mod identity;
pub mod lease;
pub mod publish;
