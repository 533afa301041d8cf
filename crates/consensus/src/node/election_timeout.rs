//! Election timeouts, drawn from a seed, the member and the term. The raft library draws them from a thread's random
//! generator, which no simulation can repeat, so the timeout is set again after every call into it. The draw differs
//! from term to term, so two candidates that split the vote once do not split it forever.

/// The election timeout in ticks: from `election_tick` to twice that, exclusively.
pub(crate) fn election_timeout(seed: u64, id: u64, term: u64, election_tick: usize) -> usize {
    let draw = mix(mix(mix(seed) ^ id) ^ term);
    election_tick + (draw % election_tick as u64) as usize
}

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_spread_over_their_range() {
        let mut seen = [0; 10];
        for term in 0..1000 {
            seen[election_timeout(7, 3, term, 10) - 10] += 1;
        }
        assert!(seen.iter().all(|&times| (50..200).contains(&times)), "{seen:?}");
    }
}
