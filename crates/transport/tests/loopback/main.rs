//! The whole crate over real sockets: members on loopback, and others that break the rules.

mod cluster;
mod encryption;
mod ends;
mod hostile;
mod refusals;
mod snapshots;
mod streams;
mod tls;
