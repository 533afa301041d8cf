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
//! | `active_keys` | keys, and what was found of the tokens that were checked with them |
//! | `keys` | keys from their files, and what fits which method |
//! | `signature` | signing and checking with one algorithm |
//!
//! A token that was not checked yet is checked on a thread for blocking work, one of a client's address at a time: a
//! client that sends wrong tokens delays no calls of others. The files of the keys are looked at once a second. If one
//! has changed, both are read again. If they cannot be used, the keys before stay in force, and the reason is logged.
//! No call waits for a file.

mod active_keys;
mod claims;
mod keys;
mod signature;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::config::{JwtOptions, SignMethod};
use crate::file_stamps::FileStamps;
use crate::logging::RepeatedFailures;

use super::sources::{Source, Sources};
use active_keys::ActiveKeys;
pub(crate) use claims::{InvalidToken, TokenOwner};
pub(crate) use keys::JwtKeyError;
use keys::JwtKeys;
pub(crate) use signature::IssueError;

/// Time between two looks at the files of the keys.
pub(crate) const KEY_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a token that was not checked before has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    /// It is not valid.
    Invalid,
    /// As many tokens of its source wait to be checked as may.
    TooMany,
    /// The process stops.
    Unavailable,
}

/// Issues and checks signed tokens, with the keys that are in the files.
pub(crate) struct JwtTokens {
    options: JwtOptions,
    current: Mutex<Arc<ActiveKeys>>,
    /// Locked while the files are asked or read, which may take long. No call waits for it.
    look: Mutex<KeyLook>,
    sources: Arc<Sources>,
    /// Checks at a time: half of the cores, so that the others serve calls.
    running: Arc<Semaphore>,
}

/// What the last look at the files has found.
struct KeyLook {
    stamps: FileStamps,
    failures: RepeatedFailures,
}

impl JwtTokens {
    /// Reads the keys.
    ///
    /// # Errors
    /// Keys that are missing, cannot be read, do not fit the method or each other.
    pub(crate) fn load(options: &JwtOptions) -> Result<JwtTokens, JwtKeyError> {
        let stamps = stamps(options);
        let current = Mutex::new(Arc::new(ActiveKeys::load(options)?));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(JwtTokens {
            options: options.clone(),
            current,
            look: Mutex::new(KeyLook { stamps, failures: RepeatedFailures::default() }),
            sources: Arc::default(),
            running: Arc::new(Semaphore::new((cores / 2).max(1))),
        })
    }

    /// Whether there is a key to sign with.
    pub(crate) fn can_issue(&self) -> bool {
        self.active_keys().keys.can_sign()
    }

    /// A token for a user.
    ///
    /// # Errors
    /// There is no private key, or no randomness.
    pub(crate) fn issue(&self, name: &str, revision: u64) -> Result<String, IssueError> {
        let expires_s = now_s().saturating_add(self.options.ttl.as_secs());
        claims::write(name, revision, expires_s, &self.active_keys().keys)
    }

    /// Whose token this is, or that it is not valid; `None` if it was not checked yet: see [`JwtTokens::check`].
    pub(crate) fn known_owner(&self, token: &str) -> Option<Result<TokenOwner, InvalidToken>> {
        let claims = self.active_keys().known(token)?;
        Some(logged(claims.and_then(|claims| claims.owner_at(now_s()))))
    }

    /// Whose token this is. What takes long is done on a thread for blocking work.
    ///
    /// # Errors
    /// [`TokenRefusal`]
    pub(crate) async fn check(
        self: &Arc<Self>,
        source: Source,
        token: &Arc<str>,
    ) -> Result<TokenOwner, TokenRefusal> {
        let call = self.sources.enter(source).ok_or(TokenRefusal::TooMany)?;
        let served = call.served().await;
        // Calls of one program come together: the first that is checked answers the others, too.
        if let Some(known) = self.known_owner(token) {
            return known.map_err(|_| TokenRefusal::Invalid);
        }
        // The semaphore is never closed.
        let running = self.running.clone().acquire_owned().await.map_err(|_| TokenRefusal::Unavailable)?;
        let (tokens, token) = (self.clone(), token.clone());
        let checked = tokio::task::spawn_blocking(move || {
            // Held until the check is done, also if the client has gone.
            let _held = (call, served, running);
            tokens.owner(&token)
        });
        let owner = checked.await.map_err(|_| TokenRefusal::Unavailable)?;
        owner.map_err(|_| TokenRefusal::Invalid)
    }

    /// Whose token this is. To check it may take milliseconds.
    ///
    /// # Errors
    /// It is no token, was not signed with the key of the flag by the method of the flag, or has expired.
    pub(crate) fn owner(&self, token: &str) -> Result<TokenOwner, InvalidToken> {
        logged(self.owner_at(token, now_s()))
    }

    fn owner_at(&self, token: &str, now_s: u64) -> Result<TokenOwner, InvalidToken> {
        self.active_keys().claims(token)?.owner_at(now_s)
    }

    fn active_keys(&self) -> Arc<ActiveKeys> {
        self.current.lock().clone()
    }

    /// Looks at the files of the keys, and reads them if one has changed. Blocks for as long as that takes. To be
    /// called once a [`KEY_LOOK_INTERVAL`].
    pub(crate) fn follow_files(&self, now: Instant) {
        let mut look = self.look.lock();
        let stamps = stamps(&self.options);
        let has_changed = stamps.differ_from(&look.stamps);
        if !has_changed && !look.stamps.are_unsettled() {
            return;
        }
        match ActiveKeys::load(&self.options) {
            Ok(loaded) => {
                if has_changed {
                    tracing::info!("reloaded the keys of signed tokens");
                }
                // What was found of tokens stays as long as the keys are the same.
                if !loaded.keys.same_files_as(&self.active_keys().keys) {
                    *self.current.lock() = Arc::new(loaded);
                }
                look.stamps = stamps;
            }
            Err(error) => {
                if let Some(count) = look.failures.due(&error.to_string(), now) {
                    tracing::warn!(%error, count, "cannot reload the keys of signed tokens; the old ones stay");
                }
            }
        }
    }
}

/// Reads keys of a method, as their files hold them; returns whether what they sign is what they check.
///
/// # Errors
/// As [`JwtTokens::load`].
pub(crate) fn read_keys(method: SignMethod, public: &[u8], private: &[u8]) -> Result<bool, JwtKeyError> {
    let file = |bytes: &[u8]| Some((PathBuf::from("given"), bytes.to_vec())).filter(|_| !bytes.is_empty());
    let keys = JwtKeys::of_files(method, file(public), file(private))?;
    let message = b"to be signed";
    Ok(keys.sign(message).is_ok_and(|signature| keys.verify(message, &signature)) || !keys.can_sign())
}

/// Logs why a token is not valid, without the token.
fn logged(found: Result<TokenOwner, InvalidToken>) -> Result<TokenOwner, InvalidToken> {
    if let Err(error) = &found {
        tracing::debug!(%error, "a signed token is not valid");
    }
    found
}

fn stamps(options: &JwtOptions) -> FileStamps {
    let files = [&options.public_key, &options.private_key];
    FileStamps::of(files.into_iter().flatten().map(AsRef::<Path>::as_ref))
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
