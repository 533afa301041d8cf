//! Authentication at the edge: passwords and tokens, and what a method needs.
//!
//! What the members agree on is in the store (`store/src/auth`): users, roles, and the hashes of passwords and tokens.
//! Here is what needs a clock, randomness, or much time: drawing tokens, hashing and checking passwords.
//!
//! ```text
//! Authenticate(ann, password)   bcrypt, on a thread for blocking work, bounded          passwords, sources
//!                               token "kXq...e", its SHA-256 into the log                tokens
//!                               answer: "kXq...e.12", 12 being the entry
//! Put, metadata token           SHA-256, look-up in the store -> caller (ann, 5)         credentials
//!                               applied only if ann may write the key at that entry
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `credentials` | what a call says about its caller |
//! | `jwt` | issuing and checking signed tokens |
//! | `passwords` | hashing and checking passwords, off the threads that serve calls |
//! | `sources` | where the clients come from that have passwords checked, and how many may wait |
//! | `tokens` | drawing and reading simple tokens |

mod credentials;
mod jwt;
pub(crate) mod passwords;
mod sources;
pub(crate) mod tokens;

pub(crate) use credentials::{CREDENTIAL_KEYS, Credentials};
pub(crate) use jwt::{
    IssueError, JwtKeyError, JwtTokens, KEY_LOOK_INTERVAL, TokenOwner, TokenRefusal, read_keys,
};
pub(crate) use passwords::{PasswordError, Passwords};
pub(crate) use sources::Source;
pub(crate) use tokens::SimpleTokens;

/// What a method demands of its caller once auth is enabled. Each method of the table in `rpc/dispatch.rs` names
/// one; a method without it is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: not even a valid token.
    Nothing,
    /// A token that is valid, if there is one.
    ValidToken,
    /// Any user.
    User,
    /// The role root, before the call begins, by everything that was acknowledged.
    Root,
    /// The same by what this member knows while there is no leader: for what only reads or changes this member, and
    /// must work without one.
    RootHere,
    /// The role root when the command is applied, or after a linearizable read for a listing.
    RootApplied,
    /// To be the user, or to have the role, that is asked for; or the role root.
    Oneself,
    /// Permissions for all keys that the request names; the handler checks them, or apply does.
    Ranges,
    /// The rights that each of its steps needs: it is a client of other methods, with the same caller.
    Steps,
}
