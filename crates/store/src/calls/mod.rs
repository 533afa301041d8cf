//! Calls of clients that are answered in several steps, each of which needs permissions: what is decided in a step.
//!
//! A server does the rest: it waits, looks the caller up, sends, and has damaged values repaired between the steps. So
//! the simulator runs the same steps, with users and roles that change in between.
//!
//! ```text
//! find         the keys of the next response, at the revision of the stream
//!              (the caller is looked up)
//! encode_as    ann may still read the range: here is the response
//! find         the keys of the next one
//!              revoke k from ann, auth revision 5
//! encode_as    permission denied: nothing is sent any more
//! ```
//!
//! | file | answers |
//! |---|---|
//! | `leases` | `LeaseLeases` |
//! | `ranges` | `RangeStream` |
//! | `watches` | the responses of a watch stream |
//! | `served_watches` | its requests and responses: which goes next |

mod leases;
mod ranges;
mod served_watches;
mod watches;

#[cfg(test)]
mod tests;

pub use leases::LeaseList;
pub use ranges::PermittedRange;
pub use served_watches::{MAX_REQUESTS_AT_ONCE, ServedStep, ServedWatches, WatchRequests};
pub use watches::{PermittedWatches, WatchCaller};
