//! Simple tokens: 16 random letters, a dot, and the index of the entry that assigned them, as in etcd.
//!
//! The letters are the secret. Only their SHA-256 leaves the process that drew them, except to the client. The index
//! lets a member that has not applied the entry yet wait for it, instead of refusing a token that is good.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use store::TokenHash;

/// Letters of a token; 91 bits.
const TOKEN_LETTERS: usize = 16;

const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Random bytes from here on are drawn again, so that all letters are equally likely.
const FIRST_REJECTED: u8 = (256 / LETTERS.len() * LETTERS.len()) as u8;

/// The TTL when none is set, as in etcd.
const DEFAULT_TTL_S: u64 = 300;

/// Tokens, and when they end.
pub(crate) struct SimpleTokens {
    began: Instant,
    ttl_s: u64,
}

impl SimpleTokens {
    /// Tokens that end when they were not used for `ttl`; etcd's default if that is zero.
    pub(crate) fn new(ttl: Duration) -> SimpleTokens {
        let ttl_s = if ttl.is_zero() { DEFAULT_TTL_S } else { ttl.as_secs().max(1) };
        SimpleTokens { began: Instant::now(), ttl_s }
    }

    /// Seconds since the process started, and those that a token stays good without being used.
    pub(crate) fn now_and_ttl_s(&self) -> (u64, u64) {
        // The first second is 1: the store takes 0 for a token that was never used.
        (self.began.elapsed().as_secs() + 1, self.ttl_s)
    }
}

/// The random part of a new token, and its hash.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn draw() -> Result<(String, TokenHash), getrandom::Error> {
    let mut letters = String::with_capacity(TOKEN_LETTERS);
    while letters.len() < TOKEN_LETTERS {
        let mut bytes = [0; 2 * TOKEN_LETTERS];
        getrandom::fill(&mut bytes)?;
        let missing = TOKEN_LETTERS - letters.len();
        let good = bytes.into_iter().filter(|byte| *byte < FIRST_REJECTED).take(missing);
        letters.extend(good.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])));
    }
    let hash = hash(&letters);
    Ok((letters, hash))
}

/// The token that a client gets.
pub(crate) fn token(letters: &str, index: u64) -> String {
    format!("{letters}.{index}")
}

/// The hash of a token's letters, and the entry that assigned it; `None` if this is no simple token.
pub(crate) fn parse(token: &str) -> Option<(TokenHash, u64)> {
    let (letters, index) = token.split_once('.')?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let index = index.parse().ok().filter(|_| is_number)?;
    Some((hash(letters), index))
}

fn hash(letters: &str) -> TokenHash {
    Sha256::digest(letters.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    //! The form of tokens.
    use super::*;

    #[test]
    fn a_drawn_token_is_found_again() {
        let (letters, hash) = draw().expect("there is randomness");
        assert_eq!(letters.len(), TOKEN_LETTERS);
        assert!(letters.bytes().all(|letter| letter.is_ascii_alphabetic()));
        assert_eq!(parse(&token(&letters, 12)), Some((hash, 12)));
        assert_ne!(draw().expect("there is randomness").0, letters);
    }

    #[test]
    fn other_texts_are_no_tokens() {
        for text in ["", "abc", "abc.", "abc.x", "abc.+1", "abc.1.2", "abc.99999999999999999999", "abc.-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
