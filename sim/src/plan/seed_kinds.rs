//! Which seeds get what: a seed's number alone decides the kind of its run.
//!
//! ```text
//!  last digit      0      1    2      3      4    5      6    7    8      9
//!  long run        x
//!  focused run     x           x      x           x                x
//!  slices                      x      x           x                x
//! ```
//!
//! Seeds with the remainder 11 or 17 modulo 20 change the membership, those with 13 permissions. In those with the
//! remainder 6, 12, 13 or 15 modulo 16 the two streams of a link fail apart. In those with 4 modulo 40 a directory is
//! lost beside a member that lags. Those with 7 modulo 16 have thousands of keys; in those
//! of them with 23 modulo 32 little may wait to be applied. In those that end in 5, and those with 33 modulo 40,
//! clients send many requests at once on their streams.
//!
//! Seeds in `seeds.txt` once found a bug and must keep drawing the same plan. So a new kind of fault or of run is given
//! to some remainders only, and all other seeds draw what they drew before.

/// One seed in this many is a long run.
const LONG_RUN_EVERY: u64 = 10;

/// Last digits of the seeds of focused runs: faults wait for one operation, see `plan/focus.rs`.
const FOCUSED_LAST_DIGITS: [u64; 5] = [0, 2, 3, 5, 8];

/// Remainders modulo 8 of the seeds that draw the fault `Isolate`.
const ISOLATING_REMAINDERS: [u64; 3] = [2, 6, 7];

/// Remainders modulo 16 of the seeds in which the two streams of a link fail apart.
const STREAMS_APART_REMAINDERS: [u64; 4] = [6, 12, 13, 15];

/// Whether the control and the bulk stream between two members fail apart in this seed's run.
pub(super) fn streams_fail_apart(seed: u64) -> bool {
    STREAMS_APART_REMAINDERS.contains(&(seed % 16))
}

/// Remainder modulo 16 of the seeds with seven members.
const SEVEN_MEMBERS_REMAINDER: u64 = 14;

/// Remainders modulo 20 of the seeds whose runs change the membership.
const MEMBERSHIP_REMAINDERS: [u64; 2] = [11, 17];

/// Whether an operator changes the membership in this seed's run.
pub(super) fn changes_members(seed: u64) -> bool {
    MEMBERSHIP_REMAINDERS.contains(&(seed % 20))
}

/// That of them in whose runs members that move give up their old URLs, and one of three voters may be lost.
const MOVING_REMAINDER: u64 = 11;

/// Whether moves change what is dialled in this seed's run.
pub(super) fn moves_for_good(seed: u64) -> bool {
    seed % 20 == MOVING_REMAINDER
}

/// Remainder modulo 20 of the seeds whose runs have users, and change their permissions.
const PERMISSIONS_REMAINDER: u64 = 13;

/// Whether permissions change in this seed's run.
pub(super) fn changes_permissions(seed: u64) -> bool {
    seed % 20 == PERMISSIONS_REMAINDER
}

/// Remainder modulo 40 of the seeds in whose runs a directory is lost beside a member that lags.
const LAGGING_REMAINDER: u64 = 4;

/// Whether a directory is lost in this seed's run while another member does not know yet whose it was.
pub(super) fn lags_at_a_wipe(seed: u64) -> bool {
    seed % 40 == LAGGING_REMAINDER
}

/// Remainder modulo 32 of the seeds in which members take no entries while a few batches wait to be applied. They have
/// thousands of keys, so applying takes long.
const FEW_UNAPPLIED_REMAINDER: u64 = 23;

/// Whether the members of this seed's run let only few entries wait to be applied.
pub(super) fn bounds_unapplied(seed: u64) -> bool {
    seed % 32 == FEW_UNAPPLIED_REMAINDER
}

/// Whether a seed stands for a long run.
pub(super) fn is_long(seed: u64) -> bool {
    seed.is_multiple_of(LONG_RUN_EVERY)
}

/// Whether a seed stands for a focused run.
pub(super) fn is_focused(seed: u64) -> bool {
    FOCUSED_LAST_DIGITS.contains(&(seed % 10))
}

/// Whether the members apply commands in slices of other sizes, small ones among them.
pub(super) fn slices(seed: u64) -> bool {
    is_focused(seed) && !is_long(seed)
}

/// Whether the cluster of this seed's run has seven members, the most that etcd recommends.
pub(super) fn has_seven_members(seed: u64) -> bool {
    seed % 16 == SEVEN_MEMBERS_REMAINDER
}

/// Remainder modulo 16 of the seeds with thousands of keys.
const MANY_KEYS_REMAINDER: u64 = 7;

/// Whether clients use thousands of keys in this seed's run.
pub(super) fn has_many_keys(seed: u64) -> bool {
    seed % 16 == MANY_KEYS_REMAINDER
}

/// Last digit of the seeds in which clients send many requests at once on a stream; and the remainder modulo 40 of
/// those of them that change permissions.
const PIPELINING_LAST_DIGIT: u64 = 5;
const PIPELINING_PERMISSIONS_REMAINDER: u64 = 33;

/// Whether clients send many requests at once on their streams in this seed's run.
pub(super) fn pipelines(seed: u64) -> bool {
    seed % 10 == PIPELINING_LAST_DIGIT || seed % 40 == PIPELINING_PERMISSIONS_REMAINDER
}

/// Whether members of this seed's run are isolated now and then.
pub(super) fn isolates(seed: u64) -> bool {
    ISOLATING_REMAINDERS.contains(&(seed % 8))
}
