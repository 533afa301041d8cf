//! Invariant: the requests of a watch stream are answered in their order and before other responses, only so many are
//! taken between two of these, and all that have arrived by then are, as far as that limit allows. What arrives while
//! answers leave is for the next round.
//!
//! What leaves unasked (a watch that is canceled for its permission or by a compaction) and progress, which comes when
//! it can, may lie anywhere between answers. Whether a round of requests has ended with them cannot be seen.

use std::collections::VecDeque;

use api::etcdserverpb::WatchResponse;
use api::etcdserverpb::watch_request::RequestUnion;

use crate::report::trace::Violation;

const CHECK: &str = "requests of a watch stream keep their order";

/// The requests of one stream that were taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenRequests {
    /// Those without an answer. A cancellation of a watch that is gone has none.
    owed: VecDeque<OwedAnswer>,
    /// Requests since the last response that was no answer.
    taken: usize,
    /// Most of them.
    max_taken: usize,
    /// The next step begins a round: it takes requests.
    begins: bool,
    /// Requests that had arrived when this round began, and that it has not taken.
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwedAnswer {
    Created(i64),
    Canceled(i64),
}

impl TakenRequests {
    /// Those of a stream that begins.
    pub(crate) fn new(max_taken: usize) -> TakenRequests {
        TakenRequests { max_taken, begins: true, ..TakenRequests::default() }
    }

    /// The stream has taken requests.
    pub(crate) fn take(&mut self, requests: &[RequestUnion]) -> Result<(), Violation> {
        self.taken += requests.len();
        if self.taken > self.max_taken {
            let text = format!("{} requests are taken at once, at most {} may", self.taken, self.max_taken);
            return Violation::err(CHECK, text);
        }
        self.owed.extend(requests.iter().filter_map(|request| match request {
            RequestUnion::CreateRequest(create) => Some(OwedAnswer::Created(create.watch_id)),
            RequestUnion::CancelRequest(cancel) => Some(OwedAnswer::Canceled(cancel.watch_id)),
            RequestUnion::ProgressRequest(_) => None,
        }));
        Ok(())
    }

    /// The stream has taken a step, behind which so many requests wait.
    pub(crate) fn leave(&mut self, arrived: usize) {
        if std::mem::take(&mut self.begins) {
            self.left = arrived;
        }
    }

    /// A response leaves.
    pub(crate) fn send(&mut self, response: &WatchResponse) -> Result<(), Violation> {
        let id = response.watch_id;
        if response.created {
            let next = self.owed.iter().position(|owed| matches!(owed, OwedAnswer::Created(_)));
            let owed = next.and_then(|next| self.owed.drain(..=next).next_back());
            let is_next = owed == Some(OwedAnswer::Created(id)) || (response.canceled && owed.is_some());
            return self.answered(is_next, response);
        }
        if response.canceled && response.compact_revision == 0 && response.cancel_reason.is_empty() {
            let mut until_created =
                self.owed.iter().take_while(|owed| matches!(owed, OwedAnswer::Canceled(_)));
            let next = until_created.position(|owed| *owed == OwedAnswer::Canceled(id));
            self.owed.drain(..next.map_or(0, |next| next + 1));
            return self.answered(next.is_some(), response);
        }
        if response.events.is_empty() {
            (self.taken, self.left, self.begins) = (0, 0, false);
            return Ok(());
        }
        self.step()
    }

    /// A response was dropped with its watch, one of these, whose permission was taken. If it was an answer, it was the
    /// next one.
    pub(crate) fn drop_response(&mut self, ids: &[i64]) {
        let next = self.owed.iter().position(|owed| matches!(owed, OwedAnswer::Created(_)));
        let is_dropped =
            |next: &usize| matches!(self.owed[*next], OwedAnswer::Created(id) if ids.contains(&id));
        if let Some(next) = next.filter(is_dropped) {
            self.owed.drain(..=next);
        }
        (self.taken, self.left, self.begins) = (0, 0, false);
    }

    /// The stream waits until its member knows the caller of the last request.
    pub(crate) fn hold(&mut self) {
        (self.taken, self.left, self.begins) = (0, 0, true);
    }

    /// The stream does something else than to answer.
    pub(crate) fn step(&mut self) -> Result<(), Violation> {
        let is_ahead = self.owed.iter().any(|owed| matches!(owed, OwedAnswer::Created(_)));
        let is_late = self.left > 0 && self.taken < self.max_taken;
        if is_ahead || is_late {
            let text = format!("a stream goes on while requests wait: {self:?}");
            return Violation::err(CHECK, text);
        }
        self.owed.clear();
        (self.taken, self.left, self.begins) = (0, 0, true);
        Ok(())
    }

    fn answered(&self, is_next: bool, response: &WatchResponse) -> Result<(), Violation> {
        if !is_next {
            return Violation::err(CHECK, format!("it is not its turn: {response:?}, {self:?}"));
        }
        Ok(())
    }
}
