//! The caller of a simulated watch stream, as its member sees it.

use api::Error;
use store::{Caller, Reader, WatchCaller};

/// The user of a stream, and what its member knows of users and roles.
pub(crate) struct SimWatchCaller {
    name: &'static str,
    reader: Reader,
    /// A defect: it never sees a change.
    is_blind: bool,
    /// What was seen last.
    seen: std::cell::Cell<u64>,
    /// The next look was the last thing that happened before the process was stopped for a while.
    has_looked: std::cell::Cell<bool>,
    /// Its member has not applied yet what its token was issued by.
    is_behind: std::cell::Cell<bool>,
}

impl SimWatchCaller {
    /// The user `name` on the member of `reader`.
    pub(crate) fn new(name: &'static str, reader: Reader, is_blind: bool) -> SimWatchCaller {
        let (seen, has_looked, is_behind) = (reader.auth_shown().into(), false.into(), false.into());
        SimWatchCaller { name, reader, is_blind, seen, has_looked, is_behind }
    }

    /// Whether its member is behind what its token was issued by, from now on.
    pub(crate) fn set_behind(&self, is_behind: bool) {
        self.is_behind.set(is_behind);
    }

    /// The next look is from before what happened since the last one.
    pub(crate) fn stop_after_look(&self) {
        self.has_looked.set(true);
    }
}

impl WatchCaller for SimWatchCaller {
    fn identify(&self) -> Result<Caller, Error> {
        Ok(match self.reader.is_auth_enabled() {
            true => Caller::User { name: self.name.into(), revision: self.reader.auth_revision() },
            false => Caller::Anonymous,
        })
    }

    fn auth_shown(&self) -> u64 {
        if !self.has_looked.take() && !self.is_blind {
            self.seen.set(self.reader.auth_shown());
        }
        self.seen.get()
    }

    fn is_behind(&self) -> bool {
        self.is_behind.get()
    }
}
