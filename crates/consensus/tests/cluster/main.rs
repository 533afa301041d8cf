//! Whole clusters in memory: see `cluster` for the harness and the invariants it checks at every step.

mod chaos;
mod cluster;
mod member;
mod rng;
mod scenarios;
