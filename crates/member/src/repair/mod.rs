//! Repair: damaged values and entries, fetched again from peers.
//!
//! | file | what |
//! |---|---|
//! | `values` | a damaged value: found in the index, fetched from a peer, written again, its references switched |
//! | `entries` | a damaged log entry, wanted by a follower that lags: fetched and written again in its place |
//! | `recovery` | damaged entries that a start must replay: fetched before the member takes part in anything |
//! | `scrub/` | reads everything again, slowly, and finds damage before anything else does |
//! | `serving` | the other side: reads for peers that have lost something |
//!
//! ```text
//! reader: address 7:4096 is damaged
//!   look up who refers to it          key "a" at revision 12.0, 300 bytes, checksum c
//!   ask peer 2: ValueQuestion(12.0, "a")   no answer within 500 ms: ask peer 3
//!   peer 3: ValueAnswer(.., bytes)    length and checksum fit
//!   a job writes it to 9:128          the reference is switched from 7:4096 to 9:128
//!   the reader is answered: read again
//! ```

pub(crate) mod entries;
pub(crate) mod recovery;
pub(crate) mod scrub;
pub(crate) mod serving;
pub(crate) mod values;

/// Time a peer has to answer, in nanoseconds: a read of its disk and a message each way.
const ANSWER_NS: u64 = 500_000_000;

/// How often all peers are asked before the repair fails.
const MAX_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests;
