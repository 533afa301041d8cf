//! What others see of a lease.

/// A lease without its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Its id.
    pub id: i64,
    /// Granted TTL in seconds.
    pub ttl: i64,
    /// Recorded remaining seconds; 0 if none is recorded, and the full TTL counts.
    pub remaining: i64,
}
