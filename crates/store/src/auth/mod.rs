//! Users, roles, and who may do what: the replicated part of authentication.
//!
//! A role names ranges of keys that may be read, written, or both. A user has a password and roles. While auth is
//! enabled, each command of a client carries its *caller*: a user, and the auth revision that its member had when it
//! looked at the caller's token. The caller is checked when the command is applied, against the state at that entry:
//!
//! ```text
//! entry 7   revoke "writer" from ann                    auth revision 5
//! entry 8   put k, caller (ann, 4)                      refused, revision is old: on all members
//! entry 9   put k, caller (ann, 5)                      refused, no permission
//! ```
//!
//! Every change raises the auth revision, so a permission that was looked up before a change never writes after it.
//! Rules and errors are etcd's (`server/auth/store.go`); RFC 0027 names the differences.
//!
//! **Look-ups.** The ranges of a user's roles are merged into two sorted sets, for reading and for writing, when they
//! are first needed after a change of the user or of one of these roles. Users with the same roles share them. A
//! look-up is a binary search, however many users and roles there are.
//!
//! **Secrets.** The state holds bcrypt hashes of passwords and SHA-256 hashes of tokens, never passwords or tokens. The
//! hashes of tokens are local to this process: they are neither in checkpoints nor in the state hash, because their end
//! depends on this member's clock.
//!
//! | file | holds |
//! |---|---|
//! | `types` | users, roles and commands at the boundary |
//! | `state` | users, roles and the revision |
//! | `rules` | what changes them |
//! | `ranges` | merged sets of ranges |
//! | `shared_ranges` | one such set for all users with the same roles |
//! | `users` | users by name |
//! | `frozen` | users and roles as they were at one moment |
//! | `checked_leases` | what leases remember of who may write all of their keys |
//! | `permissions` | what a caller may do |
//! | `commands` | whether a caller may have a command carried out |
//! | `tokens` | which token belongs to which user |

mod checked_leases;
mod commands;
mod frozen;
mod permissions;
mod ranges;
mod rules;
mod shared_ranges;
mod state;
mod tokens;
mod types;
mod users;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use checked_leases::{CHECKED_LEASE_BYTES, CheckedLease, LeaseCheck, check_slots};
pub(crate) use commands::{check_txn, leases_of};
pub(crate) use frozen::FrozenAuth;
pub use permissions::Caller;
pub(crate) use permissions::Permit;
pub(crate) use ranges::UserRanges;
pub(crate) use state::AuthState;
pub use tokens::{TokenHash, TokenLookup, TokenPosition};
pub use types::{AuthCommand, AuthRole, AuthUser, RangePermission};
