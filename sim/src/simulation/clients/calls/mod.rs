//! Calls that are answered in steps, as a server makes them. Between the steps anything may happen.
//!
//! | file | handles |
//! |---|---|
//! | `lease_lists` | the steps of any such call; lists of leases |
//! | `streams` | streamed ranges |
//! | `hashes` | HashKV |

mod hashes;
mod lease_lists;
mod streams;
