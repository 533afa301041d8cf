//! Signed tokens (JSON Web Tokens, RFC 7519): what `--auth-token=jwt` asks for.
//!
//! A token says whose it is, the auth revision at which it was issued, and when it expires. Members check it with the
//! key, so nothing about it is in the log or in their state:
//!
//! ```text
//! base64({"alg":"RS256","typ":"JWT"}).base64({"exp":1763858700,"revision":7,"username":"ann"}).base64(signature)
//! ```
//!
//! The algorithm is that of the flag. What a token names in `alg` must be the same, and chooses nothing: a public key
//! is never taken for a secret. Claims and their meaning are etcd's: members of both accept the tokens of the other.
//!
//! | file | holds |
//! |---|---|
//! | `claims` | what a token says, and how it is written and read |
//! | `keys` | keys from their files, and what fits which method |
//! | `signature` | signing and checking with one algorithm |
//!
//! The files are looked at once a second at most, while calls come. If one has changed, both are read again. If they
//! cannot be used, the keys before stay in force, and the reason is logged.

mod claims;
mod keys;
mod signature;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::config::JwtOptions;
use crate::file_stamps::FileStamps;
use crate::logging::RepeatedFailures;

use claims::Claims;
pub(crate) use claims::InvalidToken;
pub(crate) use keys::JwtKeyError;
use keys::JwtKeys;
pub(crate) use signature::IssueError;

/// Time between two looks at the files of the keys.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Tokens whose signature was right that are remembered: checking ECDSA on P-521 takes milliseconds.
const MAX_REMEMBERED_TOKENS: usize = 4_096;

/// The longest token that is remembered. Others are checked each time.
const MAX_REMEMBERED_TOKEN_BYTES: usize = 2_048;

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenOwner {
    /// The user; may be empty, or not exist.
    pub(crate) name: Arc<str>,
    /// The auth revision at which the token was issued.
    pub(crate) revision: u64,
}

/// Issues and checks signed tokens, with the keys that are in the files.
pub(crate) struct JwtTokens {
    options: JwtOptions,
    state: Mutex<KeyState>,
}

struct KeyState {
    current: Arc<KeysInForce>,
    stamps: FileStamps,
    looked_at: Instant,
    failures: RepeatedFailures,
}

/// Keys, and the tokens that were signed with them.
struct KeysInForce {
    keys: JwtKeys,
    /// By the SHA-256 of the token. The signature was right; whether the token has expired is asked each time.
    verified: Cache<[u8; 32], Arc<Claims>>,
}

impl KeysInForce {
    fn load(options: &JwtOptions) -> Result<Arc<KeysInForce>, JwtKeyError> {
        let keys = JwtKeys::load(options)?;
        Ok(Arc::new(KeysInForce { keys, verified: Cache::new(MAX_REMEMBERED_TOKENS) }))
    }

    fn claims(&self, token: &str) -> Result<Arc<Claims>, InvalidToken> {
        if token.len() > MAX_REMEMBERED_TOKEN_BYTES {
            return Claims::read(token, &self.keys).map(Arc::new);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.verified.get(&hash) {
            return Ok(claims);
        }
        let claims = Arc::new(Claims::read(token, &self.keys)?);
        self.verified.insert(hash, claims.clone());
        Ok(claims)
    }
}

impl JwtTokens {
    /// Reads the keys.
    ///
    /// # Errors
    /// Keys that are missing, cannot be read, do not fit the method or each other.
    pub(crate) fn load(options: &JwtOptions) -> Result<JwtTokens, JwtKeyError> {
        let stamps = stamps(options);
        let current = KeysInForce::load(options)?;
        let state =
            KeyState { current, stamps, looked_at: Instant::now(), failures: RepeatedFailures::default() };
        Ok(JwtTokens { options: options.clone(), state: Mutex::new(state) })
    }

    /// Whether there is a key to sign with.
    pub(crate) fn can_issue(&self) -> bool {
        self.current(Instant::now()).keys.can_sign()
    }

    /// A token for a user.
    ///
    /// # Errors
    /// There is no private key, or no randomness.
    pub(crate) fn issue(&self, name: &str, revision: u64) -> Result<String, IssueError> {
        let expires_s = now_s().saturating_add(self.options.ttl.as_secs());
        claims::write(name, revision, expires_s, &self.current(Instant::now()).keys)
    }

    /// Whose token this is. A token that is not valid is logged without the token.
    ///
    /// # Errors
    /// It is no token, was not signed with the key of the flag by the method of the flag, or has expired.
    pub(crate) fn owner(&self, token: &str) -> Result<TokenOwner, InvalidToken> {
        let found = self.owner_at(token, now_s(), Instant::now());
        if let Err(error) = &found {
            tracing::debug!(%error, "a signed token is not valid");
        }
        found
    }

    fn owner_at(&self, token: &str, now_s: u64, now: Instant) -> Result<TokenOwner, InvalidToken> {
        let claims = self.current(now).claims(token)?;
        claims.check_times(now_s)?;
        Ok(TokenOwner { name: claims.username.clone(), revision: claims.revision })
    }

    /// The keys in force, after a look at the files if the last one is long ago.
    fn current(&self, now: Instant) -> Arc<KeysInForce> {
        let mut state = self.state.lock();
        if now.duration_since(state.looked_at) >= LOOK_INTERVAL {
            state.looked_at = now;
            self.follow_files(&mut state, now);
        }
        state.current.clone()
    }

    fn follow_files(&self, state: &mut KeyState, now: Instant) {
        let stamps = stamps(&self.options);
        let has_changed = stamps.differ_from(&state.stamps);
        if !has_changed && !state.stamps.are_unsettled() {
            return;
        }
        match KeysInForce::load(&self.options) {
            Ok(loaded) => {
                if has_changed {
                    tracing::info!("reloaded the keys of signed tokens");
                }
                state.current = loaded;
                state.stamps = stamps;
            }
            Err(error) => {
                if let Some(count) = state.failures.due(&error.to_string(), now) {
                    tracing::warn!(%error, count, "cannot reload the keys of signed tokens; the old ones stay");
                }
            }
        }
    }
}

fn stamps(options: &JwtOptions) -> FileStamps {
    let files = [&options.public_key, &options.private_key];
    FileStamps::of(files.into_iter().flatten().map(AsRef::<Path>::as_ref))
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
