//! Requests of the Lease service.

use crate::Error;
use crate::etcdserverpb::LeaseGrantRequest;

/// Greatest time to live in seconds, about 285 years: in nanoseconds it still fits 63 bits.
pub const MAX_LEASE_TTL: i64 = 9_000_000_000;

/// Checks a new lease. Any id is allowed, 0 asks the server for one. A small, zero or negative
/// time to live is allowed too: it is raised to the minimum when granted.
///
/// # Errors
/// [`Error::LeaseTtlTooLarge`]
pub fn lease_grant(request: &LeaseGrantRequest) -> Result<(), Error> {
    if request.ttl > MAX_LEASE_TTL { Err(Error::LeaseTtlTooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(ttl: i64, id: i64) -> Result<(), Error> {
        lease_grant(&LeaseGrantRequest { ttl, id })
    }

    #[test]
    fn only_a_too_large_time_to_live_is_refused() {
        assert_eq!(grant(MAX_LEASE_TTL, 1), Ok(()));
        assert_eq!(grant(MAX_LEASE_TTL + 1, 1), Err(Error::LeaseTtlTooLarge));
        assert_eq!(grant(i64::MAX, 0), Err(Error::LeaseTtlTooLarge));
        assert_eq!(grant(0, 0), Ok(()));
        assert_eq!(grant(i64::MIN, i64::MIN), Ok(()));
    }
}
