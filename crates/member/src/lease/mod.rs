//! Leases as the leader keeps them: deadlines, renewals, and what the log records of them.
//!
//! The store replicates which leases exist. Only the leader watches time, from the moment it has applied an entry of
//! its own term (`LeaderLeases`). A follower sends its clients' questions to the leader (`LeaseForwarding`).
//!
//! ```text
//! client      follower                       leader
//! KeepAlive ->  LeaseQuestion, forwarded ->   queue of the ReadIndex component
//!                                             round won: LeaderLeases::decide
//!                                               renewed: answered at once, no log entry
//!                                               remainder in the log: its removal is proposed, the question is held
//!               <- LeaseAnswer <-               expiry proposed: the question is held until it is applied
//! ```

mod clock;
mod expiry;
mod forwarding;
mod leader;
mod renewals;

#[cfg(test)]
mod tests;

pub use clock::{KeepAlive, LeaseClock, MAX_RECORDED_PER_COMMAND, RECORD_INTERVAL_NS};
pub use expiry::Expiry;
pub(crate) use forwarding::{LeaseForwarding, RETRY_NS};
pub(crate) use leader::{Decision, LeaderLeases};
pub use renewals::{MAX_RENEWALS_IN_FLIGHT, RenewalCalls, RenewalStream};

use crate::proposals::batch::Origin;

/// A question about one lease and where its answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseQuestion {
    /// The process that forwarded it; `None` for a caller of this process.
    pub(crate) peer: Option<Origin>,
    /// The peer's sequence number, or the caller's token.
    pub(crate) sequence: u64,
    /// Lease id.
    pub(crate) lease: i64,
    /// Renew, or only look up.
    pub(crate) renew: bool,
}
