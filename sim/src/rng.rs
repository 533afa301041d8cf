//! The only source of randomness: numbers that follow from the seed.
//!
//! Each concern (network, disks, clients, ...) draws from a stream of its own. So leaving one fault out of a schedule
//! does not redraw anything else, which is what makes shrinking work.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a stream of numbers is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RngStream {
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
    /// Delays of steps, and the identities of directories and processes.
    Members,
    /// The shape of long runs.
    Long,
    /// The operation in focus, and which faults wait for it.
    Focus,
    /// The value cache, and which ranges are answered in encoded form.
    Ranges,
    /// Who becomes a member when, and what the operator asks for.
    Membership,
    /// Calls that are answered in steps, and tokens.
    Calls,
    /// The shape of runs with many keys.
    Keys,
    /// Requests that are sent together on a stream.
    Pipelines,
}

/// A stream of numbers.
pub(crate) struct Rng(ChaCha8Rng);

impl Rng {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64, stream: RngStream) -> Rng {
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

    /// A number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with a probability of `percent` in 100.
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
