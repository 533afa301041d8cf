//! Leases and their keys.

use super::*;

#[test]
fn grants_are_refused_for_what_cannot_be() {
    let mut lessor = Lessor::default();
    assert_eq!(lessor.grant(0, 10), Err(Error::LeaseNotFound));
    assert_eq!(lessor.grant(1, MAX_LEASE_TTL + 1), Err(Error::LeaseTtlTooLarge));
    assert_eq!(lessor.grant(1, MAX_LEASE_TTL), Ok(MAX_LEASE_TTL));
    assert_eq!(lessor.grant(1, 5), Err(Error::LeaseExists));
    assert_eq!(lessor.grant(-2, -5), Ok(1), "a negative id is an id, a TTL is at least a second");
}

#[test]
fn keys_follow_their_lease() {
    let mut lessor = Lessor::default();
    lessor.grant(1, 10).unwrap();
    lessor.grant(2, 10).unwrap();
    lessor.reattach(7, 0, 1);
    lessor.reattach(8, 0, 1);
    lessor.reattach(7, 1, 2);
    assert_eq!(lessor.slots(1).collect::<Vec<_>>(), [8]);
    assert_eq!(lessor.revoke(2), Ok(vec![7]));
    assert_eq!(lessor.revoke(2), Err(Error::LeaseNotFound));
}

#[test]
fn a_remainder_is_recorded_and_taken_back() {
    let mut lessor = Lessor::default();
    lessor.grant(1, 10).unwrap();
    assert_eq!(lessor.checkpoint(1, 4), Some(4));
    assert_eq!(lessor.get(1), Some(LeaseInfo { id: 1, ttl: 10, remaining: 4 }));
    assert_eq!(lessor.checkpoint(1, 0), Some(0));
    assert_eq!(lessor.get(1), Some(LeaseInfo { id: 1, ttl: 10, remaining: 0 }));
    assert_eq!(lessor.checkpoint(1, 99), Some(10), "no more than was granted");
    assert_eq!(lessor.checkpoint(9, 4), None);
}
