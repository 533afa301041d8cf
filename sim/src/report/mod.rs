//! What a run leaves behind: its trace, what it tested, and the figures of many runs.
//!
//! | file | is |
//! |---|---|
//! | `trace` | the events of a run: a hash over all, the last ones as text; the violation and the report |
//! | `coverage` | which fault struck during which operation |
//! | `figures` | the sum over a campaign, with the table of faults and operations |

pub(crate) mod coverage;
pub(crate) mod figures;
pub(crate) mod trace;
