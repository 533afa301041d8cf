//! A small seeded generator: the same seed gives the same run.

#![expect(clippy::disallowed_methods, reason = "a person may name a seed to run")]

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True `percent` times of a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Some seeds from `first` on: `count` of them, or as many as `CHAOS_SEEDS` says for a longer hunt.
pub(crate) fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let count = std::env::var("CHAOS_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(count);
    first..first + count
}
