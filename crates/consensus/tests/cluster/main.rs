//! Whole clusters in memory: see `cluster` for the harness and the invariants it checks at every step.

mod chaos;
mod cluster;
mod hostile;
mod inflight;
mod member;
mod rejections;
mod rng;
mod scenarios;
