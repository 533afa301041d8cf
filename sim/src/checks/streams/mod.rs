//! What goes next on a stream with many requests.
//!
//! | file | invariant of |
//! |---|---|
//! | `renewals` | keep-alive streams |
//! | `watch_requests` | watch streams |

pub(crate) mod renewals;
pub(crate) mod watch_requests;
