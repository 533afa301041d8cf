//! The watches of a stream, as long as their user may read what they watch.
//!
//! A watch is checked when it begins, and all of them whenever permissions change. A response is checked on both sides
//! of the moment at which it is taken from the stream. The auth revision is raised before the events of later commands
//! are published, so a response that was taken between two equal revisions has no event from after a change:
//!
//! ```text
//! checked: auth revision 4, ann may read k
//!                                    revoke k from ann (revision 5); put k "secret" is published
//! taken: events of k with "secret"
//! checked: auth revision 5, ann may not read k: the watch is canceled, the response is dropped
//! ```

use std::sync::Arc;

use api::Error;
use api::etcdserverpb as pb;

use crate::auth::Caller;
use crate::reader::Reader;
use crate::values::Damaged;
use crate::watch::{NextResponse, WatchStream};

/// What a stream asks of its member.
pub trait WatchCaller {
    /// Who the caller is now.
    ///
    /// # Errors
    /// Why that cannot be said: its token has ended.
    fn identify(&self) -> Result<Caller, Error>;

    /// [`Reader::auth_shown`], now.
    fn auth_shown(&self) -> u64;

    /// Whether this member has not applied yet what the caller's token was issued by, or not checked the token.
    fn is_behind(&self) -> bool;
}

/// A watch stream, and whose it is.
pub struct PermittedWatches<C> {
    stream: WatchStream,
    reader: Reader,
    caller: C,
    /// The user that the call named when it last created a watch. The watches stay the user's when the token ends.
    user: Option<Arc<str>>,
    /// What [`Reader::auth_shown`] was when all watches were checked.
    checked: u64,
}

impl<C: WatchCaller> PermittedWatches<C> {
    /// A stream that has no watches yet.
    pub fn new(stream: WatchStream, reader: &Reader, caller: C) -> PermittedWatches<C> {
        let checked = caller.auth_shown();
        PermittedWatches { stream, reader: reader.clone(), caller, user: None, checked }
    }

    /// The stream, for requests that need no permission.
    pub fn stream(&mut self) -> &mut WatchStream {
        &mut self.stream
    }

    /// Whose it is.
    pub fn caller(&mut self) -> &mut C {
        &mut self.caller
    }

    /// Creates a watch, if the caller may have it, and returns its id. [`next`](Self::next) returns the answer:
    /// created, or refused with a reason.
    pub fn create(&mut self, request: &pb::WatchCreateRequest) -> Option<i64> {
        match self.check_create(request) {
            Ok(()) => self.stream.create(request),
            Err(error) => {
                self.refuse(error);
                None
            }
        }
    }

    /// Refuses to create a watch.
    pub fn refuse(&mut self, error: Error) {
        self.stream.refuse(reason(error));
    }

    /// The next response to send, if there is one; see [`WatchStream::next`]. Watches that are not permitted any more
    /// are canceled before, and what is found of them is dropped.
    ///
    /// # Errors
    /// As [`WatchStream::next`].
    pub fn next(&mut self, raft_term: u64) -> Result<NextResponse, Damaged> {
        self.recheck();
        let next = self.stream.next(raft_term)?;
        // What was found may be newer than a change of permissions that came meanwhile.
        let revoked = match &next {
            NextResponse::Send(_) => self.recheck(),
            NextResponse::Busy | NextResponse::Idle => Vec::new(),
        };
        Ok(match next {
            NextResponse::Send(found) if revoked.contains(&found.watch_id) => NextResponse::Busy,
            next => next,
        })
    }

    fn check_create(&mut self, request: &pb::WatchCreateRequest) -> Result<(), Error> {
        let caller = self.caller.identify()?;
        let start: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
        self.reader.check_range(&caller, start, &request.range_end)?;
        if let Caller::User { name, .. } = caller {
            self.user = Some(name);
        }
        Ok(())
    }

    /// Cancels the watches that are not permitted any more, if permissions have changed. Returns their ids.
    fn recheck(&mut self) -> Vec<i64> {
        let now = self.caller.auth_shown();
        if now == self.checked {
            return Vec::new();
        }
        // A change while this runs is met at the next check: `now` is older than it.
        let present = self.present();
        let refused = |(id, start, end): (i64, &[u8], &[u8])| {
            let checked = present.clone().and_then(|caller| self.reader.check_range(&caller, start, end));
            checked.err().map(|error| (id, error))
        };
        let refused: Vec<(i64, Error)> = self.stream.ranges().filter_map(refused).collect();
        for (id, error) in &refused {
            self.stream.revoke(*id, reason(*error));
        }
        self.checked = now;
        refused.into_iter().map(|(id, _)| id).collect()
    }

    /// The caller of the watches that exist: the user that created them, whatever the auth revision is by now.
    fn present(&self) -> Result<Caller, Error> {
        let named = self.user.clone().map(|name| Caller::User { name, revision: u64::MAX });
        named.map_or_else(|| self.caller.identify(), Ok).map(Caller::at_present)
    }
}

/// Why a watch is refused or canceled: etcd's text, which is that of a Go error of gRPC.
fn reason(error: Error) -> String {
    format!("rpc error: code = {} desc = {}", error.code().name(), error.message())
}
