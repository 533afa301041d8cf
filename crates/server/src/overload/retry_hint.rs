//! When a refused client should try again.
//!
//! Clients that are refused together must not come back together, so each hint is longer than asked for by a part of
//! its own: up to half of it.

use std::cell::Cell;
use std::time::Duration;

/// Least hint: sooner, a client costs more than it gains.
const MIN_HINT: Duration = Duration::from_millis(100);

/// Longest hint: nothing is known about what is later.
const MAX_HINT: Duration = Duration::from_secs(5);

/// Parts into which the spread is divided; a prime, so that steps of [`SPREAD_STEP`] reach them all.
const SPREAD_PARTS: u32 = 101;

/// From one hint to the next of the same thread: about the golden ratio of the parts, so that neighbours are apart.
const SPREAD_STEP: u32 = 62;

thread_local! {
    static SPREAD: Cell<u32> = const { Cell::new(0) };
}

/// The hint for a client that may be admitted after `wait`.
pub(crate) fn retry_after(wait: Duration) -> Duration {
    let part = SPREAD.get();
    SPREAD.set((part + SPREAD_STEP) % SPREAD_PARTS);
    let least = wait.clamp(MIN_HINT, MAX_HINT);
    least + least * part / (2 * SPREAD_PARTS)
}

#[cfg(test)]
mod tests {
    //! Bounds and spread.
    use super::*;

    #[test]
    fn hints_are_bounded_and_differ() {
        let hints =
            |wait| (0..SPREAD_PARTS).map(|_| retry_after(wait)).collect::<std::collections::BTreeSet<_>>();
        let second = Duration::from_secs(1);
        let all = hints(second);
        assert_eq!(all.len(), SPREAD_PARTS as usize, "no two clients in a row come back together");
        assert!(all.iter().all(|hint| (second..second * 3 / 2).contains(hint)));
        assert!(hints(Duration::ZERO).iter().all(|hint| *hint >= MIN_HINT));
        assert!(hints(Duration::from_secs(3_600)).iter().all(|hint| *hint < MAX_HINT * 3 / 2));
    }
}
