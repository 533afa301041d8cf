//! Simple tokens: which token belongs to which user, on this member.
//!
//! A token is a secret that a member draws for a client that has authenticated. Its SHA-256 is in the command, so each
//! member that applies the command knows the token, and no log has it. A token belongs to this process only: it ends
//! when it was not used here for a while, when its user is deleted or gets another password, when auth is disabled, and
//! when the member starts again or installs a snapshot. A member that starts again does not know of the last entries in
//! its log whether they are committed; it applies these later, so their tokens stay good.
//!
//! ```text
//! assign(ann, h1, entry 12)   assign(ann, h2, entry 15)   assign(bob, h3, entry 16)
//! forget(ann)                                             tokens: h3
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// A token's place in the order of assignment: the entry that assigned it, and its hash.
pub type TokenPosition = (u64, TokenHash);

/// Tokens of one user at a time: the oldest ends when there is another one. It is far above what the connections of one
/// program need, and keeps a program that authenticates in a loop from filling the memory.
pub(super) const MAX_TOKENS_PER_USER: usize = 10_000;

/// Accounted memory of a token: its place in a hash table and in two B-trees.
pub(super) const TOKEN_BYTES: u64 = 256;

/// Tokens of all users at a time, 26 MB: the oldest ends when there is another one.
pub(super) const MAX_TOKENS: usize = 100_000;

/// Tokens that are examined in one hold of their lock when those are ended that were not used: tens of microseconds.
const EXPIRED_AT_ONCE: usize = 256;

/// What is known of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenLookup {
    /// It belongs to this user, at this auth revision.
    User {
        /// The user's name.
        name: Arc<str>,
        /// The present auth revision.
        revision: u64,
    },
    /// The entry that assigns it is not applied here yet.
    NotApplied,
    /// There is no such token.
    Unknown,
}

#[derive(Debug)]
struct AssignedToken {
    user: Arc<str>,
    /// The entry that assigned it.
    index: u64,
    /// When it was last used, in seconds of the clock of the process; 0 until that is known.
    used_s: AtomicU64,
}

/// Takes the first bytes of a token's hash for the hash that the table needs: they are as good as random, and members
/// draw the tokens. Every call of a client looks one up.
#[derive(Debug, Default)]
struct LeadingBytes(u64);

impl Hasher for LeadingBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// The length of the array, which is always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard = HashMap<TokenHash, AssignedToken, BuildHasherDefault<LeadingBytes>>;

/// The hash table of all tokens, in shards: a table that grows, or makes room after many removals, moves all that it
/// has, and the raft loop waits. A shard has a few hundred tokens at most.
#[derive(Debug)]
struct TokenTable(Vec<Shard>);

/// One for each value of the byte that chooses it.
const SHARDS: usize = 256;

impl Default for TokenTable {
    fn default() -> TokenTable {
        TokenTable((0..SHARDS).map(|_| Shard::default()).collect())
    }
}

impl TokenTable {
    /// The last byte chooses: the first ones are what the shard looks for.
    fn shard_of(hash: &TokenHash) -> usize {
        usize::from(hash[hash.len() - 1])
    }

    fn get(&self, hash: &TokenHash) -> Option<&AssignedToken> {
        self.0[TokenTable::shard_of(hash)].get(hash)
    }

    fn insert(&mut self, hash: TokenHash, token: AssignedToken) {
        self.0[TokenTable::shard_of(&hash)].insert(hash, token);
    }

    fn remove(&mut self, hash: &TokenHash) -> Option<AssignedToken> {
        self.0[TokenTable::shard_of(hash)].remove(hash)
    }
}

/// The tokens of all users.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    by_hash: TokenTable,
    /// The tokens of each user, in the order they were assigned.
    by_user: BTreeMap<Arc<str>, BTreeSet<TokenPosition>>,
    /// All tokens, in the order they were assigned.
    in_order: BTreeSet<TokenPosition>,
}

impl Tokens {
    /// Assigns a token to a user.
    pub(super) fn assign(&mut self, user: Arc<str>, hash: TokenHash, index: u64) {
        let of_user = self.by_user.get(&user).filter(|tokens| tokens.len() >= MAX_TOKENS_PER_USER);
        let oldest = of_user.and_then(BTreeSet::first).copied();
        let is_full = self.in_order.len() >= MAX_TOKENS;
        if let Some((_, oldest)) = oldest.or_else(|| self.in_order.first().copied().filter(|_| is_full)) {
            self.end(&oldest);
        }
        self.by_user.entry(user.clone()).or_default().insert((index, hash));
        self.in_order.insert((index, hash));
        self.by_hash.insert(hash, AssignedToken { user, index, used_s: AtomicU64::new(0) });
    }

    /// Ends all tokens of a user.
    pub(super) fn forget(&mut self, user: &str) {
        for (index, hash) in self.by_user.remove(user).into_iter().flatten() {
            self.by_hash.remove(&hash);
            self.in_order.remove(&(index, hash));
        }
    }

    /// Ends a token.
    fn end(&mut self, hash: &TokenHash) {
        let Some(AssignedToken { user, index, .. }) = self.by_hash.remove(hash) else { return };
        self.in_order.remove(&(index, *hash));
        let Some(tokens) = self.by_user.get_mut(&user) else { return };
        tokens.remove(&(index, *hash));
        if tokens.is_empty() {
            self.by_user.remove(&user);
        }
    }

    /// The user of a token that the entry `index` assigned, unless it was not used for longer than `ttl_s`. Notes that
    /// it is used now.
    pub(super) fn user(&self, hash: &TokenHash, index: u64, now_s: u64, ttl_s: u64) -> Option<Arc<str>> {
        let token = self.by_hash.get(hash).filter(|token| token.index == index)?;
        let used_s = token.used_s.load(Ordering::Relaxed);
        if used_s != 0 && now_s > used_s.saturating_add(ttl_s) {
            return None;
        }
        token.used_s.store(now_s.max(1), Ordering::Relaxed);
        Some(token.user.clone())
    }

    /// Ends the tokens that were not used for longer than `ttl_s`, among the next few from `from` on, in the order they
    /// were assigned. The time of one that was never used begins now. Returns where to go on; `None` at the end.
    pub(super) fn expire(&mut self, from: TokenPosition, now_s: u64, ttl_s: u64) -> Option<TokenPosition> {
        let mut ended = Vec::new();
        let mut positions = self.in_order.range(from..);
        for (_, hash) in positions.by_ref().take(EXPIRED_AT_ONCE) {
            let Some(token) = self.by_hash.get(hash) else { continue };
            let used_s = token.used_s.load(Ordering::Relaxed);
            if used_s == 0 {
                token.used_s.store(now_s.max(1), Ordering::Relaxed);
            } else if now_s > used_s.saturating_add(ttl_s) {
                ended.push(*hash);
            }
        }
        let next = positions.next().copied();
        ended.iter().for_each(|hash| self.end(hash));
        next
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }
}
