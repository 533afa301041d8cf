//! Members that come and go: from a request to the state and the configuration of every member.
//!
//! A request (add, remove, update, promote) goes to the leader, which checks it and proposes one conf change at a time.
//! When its entry is applied, each member changes two things together: the members in its store, and the configuration
//! of its consensus. Whether a request has an effect is decided again by each member then, from applied state alone.
//!
//! ```text
//! caller -> follower -> leader: rules, health      refused -> caller
//!                        `- conf change, entry 40 -> committed -> applied by every member:
//!                             store: the members, ids that were removed      both, or neither
//!                             consensus: voters and learners
//!                             Output::membership -> connections, gate, what operators see
//! ```
//!
//! Every member must be able to apply such an entry: see `command_sets` and docs/rfcs/0020.
//!
//! | file | what |
//! |---|---|
//! | `request` | what may be asked, and its bytes |
//! | `rules` | which requests have an effect: the same answer on every member |
//! | `health` | which requests the leader refuses because they would cost the quorum, as far as it can see |
//! | `queue` | requests on their way to agreement |
//! | `state` | what a member keeps about changes of membership besides the replicated state |
//! | `applied` | what an applied conf change does |
//! | `command_sets` | which commands every member can apply |
//! | `first_start` | whether a member without data may begin as one of the first members |

pub(crate) mod applied;
pub(crate) mod command_sets;
pub(crate) mod first_start;
pub(crate) mod health;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod state;

#[cfg(test)]
mod tests;
