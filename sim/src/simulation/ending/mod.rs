//! Events of the end of a run.
//!
//! ```text
//! faults stop --32 s (longer with long leases)--> final writes --6 s--> convergence --> final reads, at most 30 s
//! ```
//!
//! | file | handles |
//! |---|---|
//! | `convergence` | faults stop; every member answers a last write and has applied the same |
//! | `final_read` | every member has every current value |

mod convergence;
mod final_read;
