//! The only source of chance: numbers that follow from the seed.
//!
//! Each concern (network, disks, clients, ...) draws from a stream of its own, so that taking one fault out
//! of a
//! schedule does not redraw everything else; that is what makes shrinking work.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a stream of numbers is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The shape of the run: sizes, rates, weights.
    Plan = 1,
    /// Which faults strike and when.
    Faults,
    /// Delays of frames and connections.
    Network,
    /// Delays of the disk and what a crash leaves of it.
    Disk,
    /// What clients ask for and how long they wait.
    Clients,
    /// What members are told at their start.
    Members,
    /// The shape of long runs.
    Long,
    /// What is in focus, and which faults wait for it.
    Aim,
    /// What is kept of values, and which ranges are answered as lists.
    Lists,
}

/// A stream of numbers.
pub(crate) struct Rng(ChaCha8Rng);

impl Rng {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64, stream: Stream) -> Rng {
        let mut inner = ChaCha8Rng::seed_from_u64(seed);
        inner.set_stream(stream as u64);
        Rng(inner)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// A number from `low` to `high`, both possible.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// An index drawn by weight.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        0
    }
}
