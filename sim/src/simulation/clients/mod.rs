//! Events of clients.
//!
//! | file | handles |
//! |---|---|
//! | `draw` | what a client requests next |
//! | `many_keys` | the same in runs with thousands of keys; the pages of a list |
//! | `users` | users and roles that change meanwhile, and who sends what |
//! | `permissions` | answers to commands and lease calls, against the model of users and roles |
//! | `user_reads` | reads of users, between whose steps users and roles may change |
//! | `tokens` | tokens of users, which end while they are used |
//! | `calls/` | calls that are answered in steps: streamed ranges, lists of leases, HashKV |
//! | `requests` | requests and their answers |
//! | `renewals` | clients that keep leases alive |
//! | `ranges` | ranges answered from the state of a member |
//! | `watches` | watching clients |
//! | `watch_requests` | requests on their streams |
//! | `watch_permissions` | what they may watch |

mod calls;
mod draw;
mod many_keys;
mod permissions;
mod ranges;
mod renewals;
mod requests;
mod tokens;
mod user_reads;
mod users;
mod watch_permissions;
mod watch_requests;
mod watches;
