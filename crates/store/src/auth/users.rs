//! The users by name: found by one look into a hash table, listed in the order of their names.
//!
//! Each call of a client looks its user up, among 10,000 as fast as among ten: a tree would visit a dozen names that
//! lie anywhere in memory. The order, which listings and checkpoints have, is kept beside the table. The table hashes
//! with fixed keys: only root adds users, and the order of the table is visible nowhere.
//!
//! ```text
//! in_order   ann  bob  root
//! by_name    7: bob    31: root    40: ann
//! ```

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use parking_lot::RwLock;

use super::ranges::UserRanges;
use super::types::AuthUser;

/// Merged ranges, and the auth revision at which they were merged.
type MergedAt = Option<(u64, Arc<UserRanges>)>;

/// A user, and what its permissions amount to. What a look-up needs is in the table; the rest is not.
#[derive(Debug)]
pub(super) struct UserEntry {
    pub(super) user: Arc<AuthUser>,
    /// Whether it may do everything.
    pub(super) is_root: bool,
    /// Its merged ranges, once they were needed.
    pub(super) merged: RwLock<MergedAt>,
}

/// All users. The two fields have the same ones.
#[derive(Debug, Default)]
pub(super) struct Users {
    by_name: HashMap<Arc<str>, UserEntry, BuildHasherDefault<DefaultHasher>>,
    in_order: Arc<BTreeMap<Arc<str>, Arc<AuthUser>>>,
}

impl Users {
    /// A user.
    pub(super) fn get(&self, name: &str) -> Option<&UserEntry> {
        self.by_name.get(name)
    }

    /// The name of a user, shared with the table: a look-up by it compares nothing that lies elsewhere.
    pub(super) fn shared_name(&self, name: &str) -> Option<Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| name.clone())
    }

    /// Whether there is a user of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// All users, by name.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &AuthUser> {
        self.in_order.values().map(|user| &**user)
    }

    /// All users by name, as they are now; the next change copies the map if this still exists.
    pub(super) fn shared(&self) -> Arc<BTreeMap<Arc<str>, Arc<AuthUser>>> {
        self.in_order.clone()
    }

    /// Adds or replaces a user; returns the one before.
    pub(super) fn insert(&mut self, entry: UserEntry) -> Option<UserEntry> {
        let name = self.shared_name(&entry.user.name).unwrap_or_else(|| entry.user.name.as_str().into());
        Arc::make_mut(&mut self.in_order).insert(name.clone(), entry.user.clone());
        self.by_name.insert(name, entry)
    }

    /// Removes a user; returns it.
    pub(super) fn remove(&mut self, name: &str) -> Option<UserEntry> {
        let removed = self.by_name.remove(name)?;
        Arc::make_mut(&mut self.in_order).remove(name);
        Some(removed)
    }
}
