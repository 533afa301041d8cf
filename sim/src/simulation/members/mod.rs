//! Events of members.
//!
//! | file | handles |
//! |---|---|
//! | `step` | one step of a member: inputs in, decision, outputs carried out, invariants checked |
//! | `observe` | what a member shows after a step: events, revision, state hash, notices |
//! | `jobs` | the log thread and the background thread |
//! | `links` | frames sent and delivered; links dialled and lost |
//! | `streams` | the control and the bulk stream of a link fail apart |
//! | `snapshots` | snapshot streams |
//! | `first_start` | whether a member without data may begin |
//! | `lifecycle` | processes that start and end, power losses, lost directories |

mod first_start;
mod jobs;
mod lifecycle;
mod links;
mod observe;
mod snapshots;
mod step;
pub(in crate::simulation) mod streams;
