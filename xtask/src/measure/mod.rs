//! Measuring Stele and other systems from outside, for `cargo xtask compare` and `cargo xtask scale`.
//!
//! [`cluster`] starts members, [`generator`] puts load on them, [`around`] measures their processes meanwhile, and
//! [`disk_probe`] their disk. What
//! this module tells are figures of one cluster under one load; which loads, and what the figures should be, is its
//! callers' business.

pub(crate) mod access;
pub(crate) mod around;
pub(crate) mod cluster;
pub(crate) mod disk_probe;
pub(crate) mod figures;
pub(crate) mod generator;
pub(crate) mod machine;
pub(crate) mod metrics;
pub(crate) mod processes;
pub(crate) mod report;
