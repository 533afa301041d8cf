//! Events of clients.
//!
//! | file | handles |
//! |---|---|
//! | `draw` | what a client requests next |
//! | `users` | users and roles that change meanwhile, and who sends what |
//! | `permissions` | answers to commands and lease calls, against the model of users and roles |
//! | `user_reads` | reads of users, between whose steps users and roles may change |
//! | `tokens` | tokens of users, which end while they are used |
//! | `streams` | streamed ranges |
//! | `lease_lists` | calls that are answered in steps, listings of leases |
//! | `requests` | requests and their answers |
//! | `ranges` | ranges answered from the state of a member |
//! | `watches` | watching clients |
//! | `watch_permissions` | what they may watch |

mod draw;
mod lease_lists;
mod permissions;
mod ranges;
mod requests;
mod streams;
mod tokens;
mod user_reads;
mod users;
mod watch_permissions;
mod watches;
