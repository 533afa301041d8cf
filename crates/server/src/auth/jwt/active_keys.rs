//! Keys, and what was found of the tokens that were checked with them.
//!
//! A check takes up to milliseconds of a core (ECDSA on P-521), and a token that is wrong needs no right to be sent. So
//! each token is checked once with the same keys, whether it was right or wrong. What is kept of one is its SHA-256
//! with its claims, or why it is refused; both kinds have room of their own, so that no flood of wrong tokens displaces
//! those of users.
//!
//! ```text
//! token A, first call     checked (2 ms)      signed:  A -> ann, revision 7, exp
//! token A, next call      known
//! token X, first call     checked (2 ms)      refused: X -> its signature is wrong
//! token X, next call      known
//! ```

use std::sync::Arc;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::claims::{Claims, InvalidToken};
use super::keys::{JwtKeyError, JwtKeys};
use crate::config::JwtOptions;

/// Tokens whose signature was right that are remembered.
const MAX_SIGNED_TOKENS: usize = 4_096;

/// Tokens that were refused that are remembered.
const MAX_REFUSED_TOKENS: usize = 4_096;

/// The SHA-256 of a token.
type JwtHash = [u8; 32];

/// Keys, and the tokens that were checked with them.
pub(super) struct ActiveKeys {
    pub(super) keys: JwtKeys,
    /// The signature was right; whether the token has expired is asked each time.
    signed: Cache<JwtHash, Arc<Claims>>,
    refused: Cache<JwtHash, InvalidToken>,
    /// How many tokens were checked.
    #[cfg(test)]
    pub(super) checks: std::sync::atomic::AtomicUsize,
}

impl ActiveKeys {
    /// Reads the keys.
    ///
    /// # Errors
    /// As [`super::JwtTokens::load`].
    pub(super) fn load(options: &JwtOptions) -> Result<ActiveKeys, JwtKeyError> {
        Ok(ActiveKeys::of(JwtKeys::load(options)?))
    }

    fn of(keys: JwtKeys) -> ActiveKeys {
        let (signed, refused) = (Cache::new(MAX_SIGNED_TOKENS), Cache::new(MAX_REFUSED_TOKENS));
        ActiveKeys {
            keys,
            signed,
            refused,
            #[cfg(test)]
            checks: Default::default(),
        }
    }

    /// The claims of a token, or why it is refused; `None` if it was not checked yet, and to check it takes long.
    pub(super) fn known(&self, token: &str) -> Option<Result<Arc<Claims>, InvalidToken>> {
        let hash = hash_of(token);
        match self.remembered(&hash) {
            None if self.keys.verifies_fast() => Some(self.checked(token, hash)),
            known => known,
        }
    }

    /// The claims of a token, which is checked now unless it was before.
    ///
    /// # Errors
    /// Why it is not valid.
    pub(super) fn claims(&self, token: &str) -> Result<Arc<Claims>, InvalidToken> {
        let hash = hash_of(token);
        self.remembered(&hash).unwrap_or_else(|| self.checked(token, hash))
    }

    /// How many good and refused tokens are remembered.
    #[cfg(test)]
    pub(super) fn remembered_tokens(&self) -> (usize, usize) {
        (self.signed.len(), self.refused.len())
    }

    fn remembered(&self, hash: &JwtHash) -> Option<Result<Arc<Claims>, InvalidToken>> {
        self.signed.get(hash).map(Ok).or_else(|| self.refused.get(hash).map(Err))
    }

    fn checked(&self, token: &str, hash: JwtHash) -> Result<Arc<Claims>, InvalidToken> {
        #[cfg(test)]
        self.checks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match Claims::read(token, &self.keys).map(Arc::new) {
            Ok(claims) => {
                self.signed.insert(hash, claims.clone());
                Ok(claims)
            }
            Err(why) => {
                self.refused.insert(hash, why);
                Err(why)
            }
        }
    }
}

fn hash_of(token: &str) -> JwtHash {
    Sha256::digest(token.as_bytes()).into()
}
