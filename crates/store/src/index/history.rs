//! What a key has beside its newest version: its older versions, and what of the newest has no room in the record.
//!
//! Most keys have none of it, most others one older version without a lease: that is held in 48 bytes, and each
//! further version in 40. Room for older versions grows by a quarter, not by the double: there are many short
//! histories, and copying one costs less than the memory that stands empty. Only a history with a lease, or with a
//! version number past 32 bits, holds its versions as they are.

use std::collections::VecDeque;

use super::Version;
use crate::types::{Revision, ValueRef};

/// See the module. Older versions come from the oldest on; a history without any and with nothing to say of the newest
/// version is [needless](History::is_needless).
pub(super) enum History {
    One(Plain),
    Plain(VecDeque<Plain>),
    Full(Full),
}

const _: () = assert!(size_of::<History>() == 48, "the allocator has blocks of 48 bytes, the next are of 64");

/// A version without a lease and with a number below 2^32.
#[derive(Clone, Copy, Default)]
pub(super) struct Plain {
    value: ValueRef,
    main: i64,
    create: i64,
    sub: u32,
    version: u32,
}

/// Versions of any kind.
#[derive(Default)]
pub(super) struct Full {
    /// Of the newest version, which lies in the record.
    newest: Rest,
    older: VecDeque<Version>,
}

/// What a record has no room for of its newest version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// The lease, 0 for none.
    pub(super) lease: i64,
    /// The upper half of the version number.
    pub(super) version_high: u32,
}

impl Rest {
    pub(super) fn of(version: &Version) -> Rest {
        Rest { lease: version.lease, version_high: (version.version >> 32) as u32 }
    }

    fn is_nothing(self) -> bool {
        self == Rest::default()
    }
}

impl Plain {
    fn new(version: &Version) -> Option<Plain> {
        let Version { revision, create, version: number, lease, value } = *version;
        let number = u32::try_from(number).ok().filter(|_| lease == 0)?;
        Some(Plain { value, main: revision.main, create, sub: revision.sub, version: number })
    }

    fn revision(&self) -> Revision {
        Revision { main: self.main, sub: self.sub }
    }

    fn version(&self) -> Version {
        let (revision, version) = (self.revision(), i64::from(self.version));
        Version { revision, create: self.create, version, lease: 0, value: self.value }
    }
}

impl Default for History {
    fn default() -> History {
        History::Plain(VecDeque::new())
    }
}

impl History {
    /// What the record has no room for.
    pub(super) fn newest(&self) -> Rest {
        if let History::Full(full) = self { full.newest } else { Rest::default() }
    }

    /// Notes what the record has no room for.
    pub(super) fn set_newest(&mut self, rest: Rest) {
        match self {
            History::Full(full) => full.newest = rest,
            _ if rest.is_nothing() => {}
            _ => self.full().newest = rest,
        }
    }

    /// Older versions.
    pub(super) fn len(&self) -> usize {
        match self {
            History::One(_) => 1,
            History::Plain(older) => older.len(),
            History::Full(full) => full.older.len(),
        }
    }

    /// The older version numbered `position`, which must be there.
    pub(super) fn get(&self, position: usize) -> Version {
        match self {
            History::One(version) => version.version(),
            History::Plain(older) => older[position].version(),
            History::Full(full) => full.older[position],
        }
    }

    /// The reference of the older version numbered `position`, which must be there.
    pub(super) fn value_mut(&mut self, position: usize) -> &mut ValueRef {
        match self {
            History::One(version) => &mut version.value,
            History::Plain(older) => &mut older[position].value,
            History::Full(full) => &mut full.older[position].value,
        }
    }

    /// How many older versions are not newer than `at`.
    pub(super) fn until(&self, at: Revision) -> usize {
        match self {
            History::One(version) => usize::from(version.revision() <= at),
            History::Plain(older) => older.partition_point(|version| version.revision() <= at),
            History::Full(full) => full.older.partition_point(|version| version.revision <= at),
        }
    }

    /// Adds what was the newest version until now.
    pub(super) fn push(&mut self, version: &Version) {
        match (&mut *self, Plain::new(version)) {
            (History::Plain(older), Some(plain)) if older.is_empty() => *self = History::One(plain),
            (History::Plain(older), Some(plain)) => push_tight(older, plain),
            (History::One(first), Some(plain)) => {
                let mut older = VecDeque::with_capacity(2);
                older.extend([*first, plain]);
                *self = History::Plain(older);
            }
            (_, _) => push_tight(&mut self.full().older, *version),
        }
    }

    /// Drops the oldest of the older versions.
    pub(super) fn pop_front(&mut self) {
        match self {
            History::One(_) => *self = History::default(),
            History::Plain(older) => {
                older.pop_front();
                match older.len() {
                    1 => *self = History::One(older[0]),
                    _ => shrink(older),
                }
            }
            History::Full(full) => {
                full.older.pop_front();
                shrink(&mut full.older);
            }
        }
    }

    /// Whether there is nothing in it.
    pub(super) fn is_needless(&self) -> bool {
        self.len() == 0 && self.newest().is_nothing()
    }

    /// Bytes of memory taken beside this.
    #[cfg(test)]
    pub(super) fn resident_bytes(&self) -> usize {
        match self {
            History::One(_) => 0,
            History::Plain(older) => older.capacity() * size_of::<Plain>(),
            History::Full(full) => full.older.capacity() * size_of::<Version>(),
        }
    }

    /// This history as one that can hold anything.
    fn full(&mut self) -> &mut Full {
        if !matches!(self, History::Full(_)) {
            let older = (0..self.len()).map(|position| self.get(position)).collect();
            *self = History::Full(Full { older, ..Full::default() });
        }
        let History::Full(full) = self else { unreachable!("it was made one") };
        full
    }
}

fn push_tight<T>(older: &mut VecDeque<T>, version: T) {
    if older.len() == older.capacity() {
        older.reserve_exact(older.len() / 4 + 1);
    }
    older.push_back(version);
}

fn shrink<T>(older: &mut VecDeque<T>) {
    if older.len() < older.capacity() / 4 {
        older.shrink_to_fit();
    }
}
