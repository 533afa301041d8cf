//! Events of clients.
//!
//! | file | handles |
//! |---|---|
//! | `draw` | what a client requests next |
//! | `requests` | requests and their answers |
//! | `ranges` | ranges answered from the state of a member |
//! | `watches` | watching clients |

mod draw;
mod ranges;
mod requests;
mod watches;
