//! Passwords: hashed and checked with bcrypt, on threads for blocking work, a bounded number at a time.
//!
//! **Timing.** A name that no user has, and a user without a password or with a hash that cannot be read, cost as much
//! as a wrong password: a hash that nothing has is checked instead, with all that is done for a user. Its cost is that
//! of root's hash, or of new hashes if root has none. So who does not know a password cannot tell by the time which
//! users there are, as long as all hashes have the same cost.
//!
//! **Verified passwords.** A password that was right is remembered, as a keyed hash that only this process can make,
//! until the user's hash changes. Programs that authenticate again and again then cost no bcrypt. Wrong passwords are
//! never remembered.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::sources::{Source, Sources};

/// The longest password that bcrypt can hash.
const MAX_PASSWORD_BYTES: usize = 72;

/// What bcrypt defines.
const COSTS: std::ops::RangeInclusive<u32> = 4..=31;

/// The greatest cost of a hash that a client made: above it, each check takes a minute and more of a core.
pub(crate) const MAX_COST: u32 = 20;

/// Verified passwords that are remembered; one more makes all be forgotten.
const MAX_VERIFIED: usize = 10_000;

/// Salt and digest of a hash that no password has: verifying against it takes as long as against any other.
const UNKNOWN_SALT_AND_DIGEST: &str = ".....................................................";

/// Why a password was not hashed or checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordError {
    /// It has more than 72 bytes.
    TooLong,
    /// Too many calls of this source wait.
    TooMany,
    /// The system has no randomness, or the process stops.
    Unavailable,
}

/// The keyed hash of a password and of the bcrypt hash that it was verified against.
type VerifiedKey = [u8; 32];

/// Hashes and checks passwords.
pub(crate) struct Passwords {
    cost: u32,
    /// Hashes at a time: half of the cores, so that the others serve calls.
    running: Arc<Semaphore>,
    sources: Arc<Sources>,
    /// Drawn at the start; a failure is met when the first password is hashed.
    key: Option<[u8; 32]>,
    verified: Arc<Mutex<BTreeSet<VerifiedKey>>>,
    /// The costs of the checks that were computed.
    #[cfg(test)]
    computed: Arc<Mutex<Vec<u32>>>,
}

/// A password to check, of which only the bytes that bcrypt reads are kept: many calls may wait.
#[derive(Clone)]
pub(crate) struct GivenPassword(Vec<u8>);

impl From<String> for GivenPassword {
    fn from(password: String) -> GivenPassword {
        let bytes = password.as_bytes();
        GivenPassword(bytes[..bytes.len().min(MAX_PASSWORD_BYTES)].to_vec())
    }
}

/// The cost of a bcrypt hash; `None` if it is none that can be checked.
pub(crate) fn cost_of(hash: &[u8]) -> Option<u32> {
    let parts: bcrypt::HashParts = str::from_utf8(hash).ok()?.parse().ok()?;
    Some(parts.get_cost()).filter(|cost| COSTS.contains(cost))
}

impl Passwords {
    /// `cost`: that of new hashes, the binary logarithm of bcrypt's rounds.
    pub(crate) fn new(cost: u32) -> Passwords {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut key = [0; 32];
        Passwords {
            cost,
            running: Arc::new(Semaphore::new((cores / 2).max(1))),
            sources: Arc::default(),
            key: getrandom::fill(&mut key).is_ok().then_some(key),
            verified: Arc::default(),
            #[cfg(test)]
            computed: Arc::default(),
        }
    }

    /// Whether bcrypt takes all of a new password. As in etcd this is found out before the caller is looked at.
    ///
    /// # Errors
    /// [`PasswordError::TooLong`]
    pub(crate) fn check_new(password: &str) -> Result<(), PasswordError> {
        if password.len() > MAX_PASSWORD_BYTES { Err(PasswordError::TooLong) } else { Ok(()) }
    }

    /// The bcrypt hash of a password.
    ///
    /// # Errors
    /// [`PasswordError`]
    pub(crate) async fn hash(&self, source: Source, password: String) -> Result<String, PasswordError> {
        Passwords::check_new(&password)?;
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|_| PasswordError::Unavailable)?;
        let cost = self.cost;
        let hashed = self
            .run(source, move || {
                bcrypt::hash_with_salt(password, cost, salt).map(|parts| {
                    // The version of Go's library, which reads it when a backup is restored there.
                    parts.format_for_version(bcrypt::Version::TwoA)
                })
            })
            .await?;
        hashed.map_err(|_| PasswordError::Unavailable)
    }

    /// Whether a password is the one that was hashed. Without a hash that can be checked it is not, which takes as long
    /// as a wrong password does against `root`, root's hash.
    ///
    /// # Errors
    /// [`PasswordError::TooMany`], [`PasswordError::Unavailable`]
    pub(crate) async fn verify(
        &self,
        source: Source,
        password: GivenPassword,
        hash: Option<Bytes>,
        root: Option<Bytes>,
    ) -> Result<bool, PasswordError> {
        let hash = hash.filter(|hash| cost_of(hash).is_some());
        let (is_user, hash) = match hash.and_then(|hash| String::from_utf8(hash.to_vec()).ok()) {
            Some(hash) => (true, hash),
            None => (false, self.unknown_hash(root)),
        };
        let known = self.verified_key(hash.as_bytes(), &password.0);
        if known.is_some_and(|known| self.verified.lock().contains(&known)) {
            return Ok(true);
        }
        let verified = self.verified.clone();
        #[cfg(test)]
        let computed = self.computed.clone();
        let check = move || {
            // Calls of one program come together: the first that is checked answers the others, too.
            if known.is_some_and(|known| verified.lock().contains(&known)) {
                return true;
            }
            #[cfg(test)]
            computed.lock().extend(cost_of(hash.as_bytes()));
            bcrypt::verify(password.0, &hash).unwrap_or(false)
        };
        let is_right = self.run(source, check).await? && is_user;
        if let Some(known) = known.filter(|_| is_right) {
            let mut verified = self.verified.lock();
            if verified.len() >= MAX_VERIFIED {
                verified.clear();
            }
            verified.insert(known);
        }
        Ok(is_right)
    }

    /// A hash that no password has.
    fn unknown_hash(&self, root: Option<Bytes>) -> String {
        let cost = root.and_then(|hash| cost_of(&hash)).unwrap_or(self.cost);
        format!("$2a${cost:02}${UNKNOWN_SALT_AND_DIGEST}")
    }

    /// Runs `work` on a thread for blocking work, one call of a source at a time.
    async fn run<T: Send + 'static>(
        &self,
        source: Source,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        let call = self.sources.enter(source).ok_or(PasswordError::TooMany)?;
        let served = call.served().await;
        // The semaphore is never closed.
        let running = self.running.clone().acquire_owned().await.map_err(|_| PasswordError::Unavailable)?;
        let worked = tokio::task::spawn_blocking(move || {
            // Held until the work is done, also if the client has gone.
            let _held = (call, served, running);
            work()
        });
        worked.await.map_err(|_| PasswordError::Unavailable)
    }

    fn verified_key(&self, hash: &[u8], password: &[u8]) -> Option<VerifiedKey> {
        let key = self.key?;
        let inner = Sha256::new().chain_update(key).chain_update(password).finalize();
        Some(Sha256::new().chain_update(key).chain_update(inner).chain_update(hash).finalize().into())
    }
}

#[cfg(test)]
mod tests {
    //! Hashes, checks, and what is remembered.

    use super::*;

    /// The least cost of bcrypt.
    const COST: u32 = 4;

    async fn hashed(passwords: &Passwords, password: &str) -> Bytes {
        passwords.hash(Source::default(), password.to_owned()).await.expect("hashes").into()
    }

    async fn verify(passwords: &Passwords, text: &str, hash: Option<&Bytes>, root: Option<&Bytes>) -> bool {
        let given = text.to_owned().into();
        passwords.verify(Source::default(), given, hash.cloned(), root.cloned()).await.expect("it is checked")
    }

    #[tokio::test]
    async fn a_password_is_verified_against_its_hash() {
        let passwords = Passwords::new(COST);
        let hash = hashed(&passwords, "secret").await;
        assert!(hash.starts_with(b"$2a$04$"), "{hash:?}");
        assert!(!verify(&passwords, "wrong", Some(&hash), None).await);
        assert_eq!(passwords.verified.lock().len(), 0);
        assert!(verify(&passwords, "secret", Some(&hash), None).await);
        assert_eq!(passwords.verified.lock().len(), 1, "it is remembered");
        assert!(verify(&passwords, "secret", Some(&hash), None).await);
        assert_eq!(passwords.computed.lock().len(), 2, "the last one is not computed");
        let other = hashed(&passwords, "other").await;
        assert!(!verify(&passwords, "secret", Some(&other), None).await, "the hash has changed");
    }

    #[tokio::test]
    async fn who_has_no_password_costs_as_much_as_a_wrong_one() {
        let root = hashed(&Passwords::new(COST + 1), "of root").await;
        let passwords = Passwords::new(COST);
        let wrong = hashed(&Passwords::new(COST + 1), "of ann").await;
        let (empty, none) = (Bytes::new(), Bytes::from_static(b"$2a$05$short"));
        for hash in [Some(&wrong), None, Some(&empty), Some(&none)] {
            assert!(!verify(&passwords, "x", hash, Some(&root)).await);
        }
        assert_eq!(*passwords.computed.lock(), [COST + 1; 4], "each is computed once, with root's cost");
        passwords.computed.lock().clear();
        for root in [None, Some(&empty)] {
            assert!(!verify(&passwords, "", None, root).await);
        }
        assert_eq!(*passwords.computed.lock(), [COST; 2], "the cost of new hashes");
        assert_eq!(passwords.verified.lock().len(), 0);
    }

    #[tokio::test]
    async fn passwords_of_72_bytes_are_the_longest() {
        let passwords = Passwords::new(COST);
        let longer = passwords.hash(Source::default(), "p".repeat(73)).await;
        assert_eq!(longer, Err(PasswordError::TooLong));
        let hash = hashed(&passwords, &"p".repeat(72)).await;
        // As in Go's library, more than 72 bytes are compared by the first 72.
        assert!(verify(&passwords, &"p".repeat(80), Some(&hash), None).await);
        assert!(!verify(&passwords, &"p".repeat(71), Some(&hash), None).await);
    }

    #[test]
    fn a_password_that_waits_takes_no_more_than_72_bytes() {
        let given = GivenPassword::from("\u{fc}".repeat(1 << 20));
        assert_eq!((given.0.len(), given.0.capacity()), (MAX_PASSWORD_BYTES, MAX_PASSWORD_BYTES));
        assert_eq!(GivenPassword::from("\u{fc}x".to_owned()).0, "\u{fc}x".as_bytes());
    }

    #[test]
    fn the_cost_of_a_hash_is_in_it() {
        let digest = "N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";
        assert_eq!(cost_of(format!("$2a$10${digest}").as_bytes()), Some(10));
        assert_eq!(cost_of(format!("$2y$31${digest}").as_bytes()), Some(31));
        for hash in [&b""[..], b"secret", b"$2a$10$short", b"\xff", format!("$2a$xx${digest}").as_bytes()] {
            assert_eq!(cost_of(hash), None, "{hash:?}");
        }
    }

    #[tokio::test]
    async fn a_bounded_number_of_passwords_is_remembered() {
        let passwords = Passwords::new(COST);
        let hash = hashed(&passwords, "secret").await;
        for (before, after) in [(9_999_u32, 10_000), (10_000, 1)] {
            *passwords.verified.lock() =
                (0..before).map(|n| Sha256::digest(n.to_le_bytes()).into()).collect();
            assert!(verify(&passwords, "secret", Some(&hash), None).await);
            assert_eq!(passwords.verified.lock().len(), after);
        }
    }

    #[test]
    fn half_of_the_cores_hash() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(Passwords::new(COST).running.available_permits(), (cores / 2).max(1));
    }
}
