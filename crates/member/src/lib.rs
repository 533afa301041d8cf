//! One member as a state machine: [`Input`] in, [`Output`] out.
//!
//! A [`Member`] ties `log`, `store` and `consensus` together and decides everything a member decides: what to write,
//! what to send, whom to answer, when to campaign, when a lease has run out, when to write a checkpoint. It does none
//! of it: jobs, frames and answers come out as data, and what became of them comes in again. Time is an argument. So
//! the same code runs on threads and sockets in `server` and, thousands of times faster, in the simulator.
//!
//! ```text
//! loop {
//!     inputs.for_each(|input| member.handle(now, input, &mut out)?);
//!     member.drive(now, &mut out)?;
//!     // run out.writes in order, one at a time, out.background on another thread,
//!     // send out.frames, deliver out.answers; sleep until member.next_due_ns() or an input
//! }
//! ```
//!
//! It knows no threads, sockets or clocks, and no file system but the one handed in.

mod apply;
mod callers;
mod checkpoint_files;
mod conf_state;
mod config;
pub mod identity;
mod io;
pub mod jobs;
mod leadership;
pub mod lease;
mod maintenance;
mod member;
mod membership;
mod open;
mod own_syncs;
pub mod peer_message;
mod proposals;
mod read_index;
mod relocation;
mod repair;
pub mod restore;
pub mod snapshot;
mod status;
mod values;
mod write_positions;

#[cfg(test)]
mod tests;

pub use consensus::MessageClass;

pub use config::{
    DEFAULT_CATCHUP_ENTRIES, DEFAULT_CHECKPOINT_COMMANDS, InitialMember, MAX_CATCHUP_BYTES,
    MAX_LAST_CHANGES_BYTES, MAX_UNAPPLIED_BYTES, MIN_SNAPSHOT_LOG_BYTES, MemberConfig, MembershipSettings,
    ScrubRate, StartMode,
};
pub use io::{Answer, Input, MemberFatal, Notice, Now, Output, Proposal, SnapshotEvent, WantedEntries};
pub use maintenance::memory::MemoryUse;
pub use maintenance::publication;
pub use member::Member;
pub use membership::applied::Membership;
pub use membership::command_sets::{NEWEST_COMMAND_SET, WITH_AUTH};
pub use membership::first_start::{FirstStart, ListedMembers, MemberStanding};
pub use membership::queue::MAX_WAITING_CHANGES;
pub use membership::request::{MAX_PEER_URL_BYTES, MAX_PEER_URLS, MembershipRequest};
pub use open::{Loading, OpenMemberError, OpenedMember, open};
pub use own_syncs::OwnSync;
pub use proposals::auth_command::encode_auth;
pub use proposals::caller::MAX_NAME_BYTES;

pub use proposals::{batch, group_commit, queue as proposal_queue};
pub use repair::scrub::job::ScrubTotals;
pub use status::MemberStatus;
pub use status::step_counts::{ProposedBatch, StepCounts, WaitedCaller};
pub use store::{Limits as StoreLimits, Parallel, Sequential, Task};
