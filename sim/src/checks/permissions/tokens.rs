//! Invariant: a token is good on every member that has applied its entry, for its user alone, until it ends.
//!
//! It ends with its user, with its password and with auth, which the [model](AuthModel) knows for each moment, and on a
//! member that did not see it for longer than its TTL. A member that begins with a state that has the entry already,
//! from its disk or from a snapshot, does not know the token.
//!
//! ```text
//! entry 40   assigns h to ann
//! member 2 has applied 38     h.40: it must wait until it knows entry 40, and may not refuse it
//! member 2 has applied 41     h.40: ann, and now its TTL begins there
//! entry 45   ann's password   h.40: refused, from the moment at which 45 is applied
//! ```

use std::collections::BTreeMap;

use api::Error;
use store::{Caller, TokenHash};

use super::CHECK;
use super::model::AuthModel;
use crate::report::trace::Violation;
use crate::world::request::ClientToken;

/// Seconds that a token stays good without being used: shorter than a client stays away from a member.
pub(crate) const TOKEN_TTL_S: u64 = 3;

/// What was seen of the tokens of a member.
#[derive(Debug, Default)]
struct SeenTokens {
    /// Its state began with this entry: tokens of entries up to it are not known.
    from: u64,
    /// When each token was last accepted, in seconds of the process.
    used_s: BTreeMap<TokenHash, u64>,
    /// When tokens that were not used were first looked for: the TTL of those that were never used may begin then.
    scanned_s: Option<u64>,
}

/// A look-up of a token by a member.
pub(crate) struct TokenLook<'a> {
    /// The member.
    pub(crate) member: usize,
    /// The last entry that it has applied.
    pub(crate) applied: u64,
    /// The token, as its client has it.
    pub(crate) token: &'a ClientToken,
    /// Seconds since the process started.
    pub(crate) now_s: u64,
}

/// What was seen of tokens on all members.
#[derive(Default)]
pub(crate) struct TokenChecks {
    members: BTreeMap<usize, SeenTokens>,
}

impl TokenChecks {
    /// A member begins with a state in which this was the last entry.
    pub(crate) fn starts(&mut self, member: usize, applied: u64) {
        self.members.insert(member, SeenTokens { from: applied, ..SeenTokens::default() });
    }

    /// A member looks for tokens that were not used.
    pub(crate) fn scanned(&mut self, member: usize, now_s: u64) {
        self.members.entry(member).or_default().scanned_s.get_or_insert(now_s);
    }

    /// A member says who a caller is; `state` has the users and roles that it has. `None`: it does not know yet.
    pub(crate) fn answered(
        &mut self,
        look: &TokenLook<'_>,
        state: &AuthModel,
        answer: Option<&Result<Caller, Error>>,
    ) -> Result<(), Violation> {
        let (revision, is_enabled) = state.position();
        let seen = self.members.entry(look.member).or_default();
        let owner = state.tokens.get(&look.token.hash);
        let is_good = match answer {
            Some(Ok(Caller::Anonymous)) => !is_enabled,
            Some(Ok(Caller::User { name, revision: named })) => {
                // An entry that is applied in part assigns tokens before it shows anything else.
                let is_known = owner.is_some() || look.token.index == look.applied + 1;
                let is_owner = **name == *look.token.user && *named == revision;
                let is_good = is_enabled && is_owner && is_known && !seen.has_expired(look);
                seen.used_s.insert(look.token.hash, look.now_s);
                is_good
            }
            Some(Err(Error::InvalidAuthToken)) => {
                let is_applied = look.applied >= look.token.index;
                is_enabled && is_applied && (owner.is_none() || seen.may_have_ended(look))
            }
            Some(_) => false,
            None => is_enabled && look.applied < look.token.index,
        };
        if is_good {
            return Ok(());
        }
        let text = format!(
            "member {} has applied {}, its process is {} s old: {:?} is {answer:?}; by the model its user is \
             {owner:?}, in {state:?}; seen: {seen:?}",
            look.member, look.applied, look.now_s, look.token
        );
        Violation::err(CHECK, text)
    }
}

impl SeenTokens {
    /// Whether the token was not used here for longer than its TTL.
    fn has_expired(&self, look: &TokenLook<'_>) -> bool {
        self.used_s.get(&look.token.hash).is_some_and(|used_s| look.now_s > used_s + TOKEN_TTL_S)
    }

    /// Whether a token that the model knows can be unknown here.
    fn may_have_ended(&self, look: &TokenLook<'_>) -> bool {
        let was_used = self.used_s.contains_key(&look.token.hash);
        let unused_since_s = self.scanned_s.filter(|_| !was_used);
        look.token.index <= self.from
            || self.has_expired(look)
            || unused_since_s.is_some_and(|scanned_s| look.now_s > scanned_s + TOKEN_TTL_S)
    }
}
