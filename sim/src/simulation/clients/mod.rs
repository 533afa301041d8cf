//! Events of clients.
//!
//! | file | handles |
//! |---|---|
//! | `draw` | what a client requests next |
//! | `permissions` | users and roles that change meanwhile |
//! | `requests` | requests and their answers |
//! | `ranges` | ranges answered from the state of a member |
//! | `watches` | watching clients |

mod draw;
mod permissions;
mod ranges;
mod requests;
mod watches;
