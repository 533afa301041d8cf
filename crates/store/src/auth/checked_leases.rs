//! Whether a user may write all keys of a lease, without visiting them all each time.
//!
//! A lease may have a million keys, and each put of a user to it must know that the user may write them all. So a lease
//! remembers, for the users that asked last, up to which slot they may write its keys. The walk goes on there, in the
//! slice that follows or with the next command:
//!
//! ```text
//! ann puts k, lease 7    keys of lease 7 in slots 2 5 9   visited 2, 5, 9     ann: all
//! ann puts m, lease 7    in slot 11                       visited none, m is ann's: all
//! bob puts x, lease 7    in slot 4, ann may not write x   bob: all, ann: below 4
//! ann puts n, lease 7                                     visited 4: refused
//! ```
//!
//! Nothing that is remembered changes an answer: it is what a walk over all keys would find. So members that remember
//! different things, as after a restart, still agree; they only visit different numbers of keys. A change of a user or
//! of its roles makes new merged ranges, for which nothing is remembered.

use std::sync::{Arc, Weak};

use api::Error;

use super::ranges::UserRanges;
use crate::index::KeyIndex;

/// Users for which a lease remembers what was checked; the one that asked first is forgotten for another.
const MAX_CHECKED_USERS: usize = 4;

/// Leases with this many keys or fewer are walked each time and remember nothing: most have one key.
const MAX_UNREMEMBERED_KEYS: usize = 8;

/// Accounted memory of what a lease remembers: a vector of [`MAX_CHECKED_USERS`], with its allocation, and the blocks
/// of ranges that are kept until the lease forgets them.
pub(crate) const CHECKED_LEASE_BYTES: u64 = 512;

/// One user, by its merged ranges.
#[derive(Clone, Debug)]
struct CheckedUser {
    ranges: Weak<UserRanges>,
    /// The user may write all attached keys in slots below this.
    below: u32,
}

/// What a lease remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckedLease(Vec<CheckedUser>);

/// How far a check of a lease got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseCheck {
    /// The user may write all keys.
    Permitted,
    /// As many keys were visited as may be at once; the next check goes on there.
    GoesOn,
}

/// Checks the keys of a lease, given its slots from some slot on. `keys` is how many it has. Takes what it visits off
/// `left`. Returns as [`LeaseCheck`] says.
///
/// # Errors
/// [`Error::PermissionDenied`]
pub(crate) fn check_slots<S: Iterator<Item = u32>>(
    checked: &mut Option<Box<CheckedLease>>,
    keys: usize,
    slots_from: impl Fn(u32) -> S,
    ranges: &Arc<UserRanges>,
    index: &KeyIndex,
    left: &mut usize,
) -> Result<LeaseCheck, Error> {
    if keys <= MAX_UNREMEMBERED_KEYS {
        *left = left.saturating_sub(keys);
        let may_write_all = slots_from(0).all(|slot| ranges.may_write(&index.key(slot)));
        return may_write_all.then_some(LeaseCheck::Permitted).ok_or(Error::PermissionDenied);
    }
    let below = checked.get_or_insert_default().below(ranges);
    for slot in slots_from(*below) {
        *below = slot;
        if *left == 0 {
            return Ok(LeaseCheck::GoesOn);
        }
        *left -= 1;
        if !ranges.may_write(&index.key(slot)) {
            return Err(Error::PermissionDenied);
        }
    }
    *below = u32::MAX;
    Ok(LeaseCheck::Permitted)
}

impl CheckedLease {
    /// Up to which slot the keys were checked for a user.
    fn below(&mut self, ranges: &Arc<UserRanges>) -> &mut u32 {
        let at = self.position(ranges).unwrap_or_else(|| {
            if self.0.len() == MAX_CHECKED_USERS {
                self.0.remove(0);
            }
            self.0.push(CheckedUser { ranges: Arc::downgrade(ranges), below: 0 });
            self.0.len() - 1
        });
        &mut self.0[at].below
    }

    /// The first slot that was not checked for a user.
    pub(crate) fn unchecked_from(&self, ranges: &Arc<UserRanges>) -> u32 {
        self.position(ranges).map_or(0, |at| self.0[at].below)
    }

    fn position(&self, ranges: &Arc<UserRanges>) -> Option<usize> {
        self.0.iter().position(|checked| std::ptr::eq(checked.ranges.as_ptr(), Arc::as_ptr(ranges)))
    }

    /// Notes that a key was attached.
    pub(crate) fn note_attached(&mut self, slot: u32, key: &[u8]) {
        self.0.retain_mut(|checked| {
            // Without its ranges, nothing can ask for this user again.
            let Some(ranges) = checked.ranges.upgrade() else { return false };
            if slot < checked.below && !ranges.may_write(key) {
                checked.below = slot;
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    //! For how many users, and for which leases, something is remembered.
    use super::*;
    use crate::auth::RangePermission;
    use crate::types::Revision;
    use crate::values::ValueRef;

    /// Whether the keys of a lease are all visited for a user who may write them.
    fn visits_all(checked: &mut Option<Box<CheckedLease>>, keys: u32, user: &Arc<UserRanges>) -> bool {
        let mut index = KeyIndex::default();
        for number in 0..keys {
            index.put(&[number as u8], Revision { main: 2, sub: number }, ValueRef::default(), 7);
        }
        let mut left = 100;
        let slots = |from| from..keys.max(from);
        let check = check_slots(checked, keys as usize, slots, user, &index, &mut left);
        assert_eq!(check, Ok(LeaseCheck::Permitted));
        left == 100 - keys as usize
    }

    fn user() -> Arc<UserRanges> {
        let all = RangePermission { start: [0][..].to_vec().into(), end: [0][..].to_vec().into(), kind: 1 };
        Arc::new(UserRanges::of([&all].into_iter()))
    }

    #[test]
    fn leases_of_nine_keys_remember_four_users() {
        let users = [(); 5].map(|()| user());
        let mut checked = None;
        for _ in 0..2 {
            assert!(visits_all(&mut checked, 8, &users[0]));
        }
        assert!(checked.is_none(), "a lease of eight keys remembers nothing");
        assert!(users[..4].iter().all(|user| visits_all(&mut checked, 9, user)));
        assert!(!users[..4].iter().any(|user| visits_all(&mut checked, 9, user)), "they are remembered");
        assert!(visits_all(&mut checked, 9, &users[4]));
        assert!(visits_all(&mut checked, 9, &users[0]), "the first one was forgotten for the fifth");
        assert!(!visits_all(&mut checked, 9, &users[4]));
    }
}
