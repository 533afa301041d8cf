//! Watches on one stream, which survive a lost connection.
//!
//! After the connection is lost, each watch is created again behind the last revision that it delivered, so no event is
//! lost and none comes twice. A watch ends when the server cancels it.
//!
//! A server may cut a long response into fragments, if the watch allows it, also within a revision. The events of a
//! revision are delivered together nevertheless: those of a fragment's last revision wait for the next fragment.
//!
//! ```text
//! from the server    7a 7b 8a | 8b 8c 9a | 9b
//! delivered          7a 7b    | 8a 8b 8c | 9a 9b
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use api::methods;
use api::{etcdserverpb as pb, mvccpb};
use pb::watch_request::RequestUnion;

use super::{CallError, Client, MessageStream};

/// Time between a lost stream and the next.
const RESUME_INTERVAL: Duration = Duration::from_millis(100);

/// The watches of one caller.
pub(crate) struct Watches<'c> {
    client: &'c Client,
    stream: Option<MessageStream>,
    /// By the id that we gave them.
    watches: BTreeMap<i64, pb::WatchCreateRequest>,
    /// By the same id: the first events of a revision whose others are still to come.
    partial: BTreeMap<i64, Vec<mvccpb::Event>>,
    next_id: i64,
}

/// What a watch delivers.
pub(crate) enum Delivery {
    /// Events, or progress.
    Response(i64, pb::WatchResponse),
    /// The last that comes from this watch. Events before the first revision that is left have been compacted, or the
    /// server refused the watch: then the response says so. Without a response, the server canceled it later.
    Ended(Option<pb::WatchResponse>),
}

impl<'c> Watches<'c> {
    /// No watch yet.
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, stream: None, watches: BTreeMap::new(), partial: BTreeMap::new(), next_id: 1 }
    }

    /// Adds a watch and returns its number.
    pub(crate) fn create(&mut self, mut request: pb::WatchCreateRequest) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        request.watch_id = id;
        if let Some(stream) = &mut self.stream
            && send(stream, RequestUnion::CreateRequest(request.clone())).is_err()
        {
            self.stream = None;
        }
        self.watches.insert(id, request);
        id
    }

    /// Asks for a report of progress on all watches. Without a stream there is none to report.
    pub(crate) fn ask_for_progress(&mut self) {
        if let Some(stream) = &mut self.stream {
            // A stream that was lost is noticed by the next read.
            let _ = send(stream, RequestUnion::ProgressRequest(pb::WatchProgressRequest {}));
        }
    }

    /// The next response of any watch. It waits forever while there is no watch. It may be dropped and called again.
    ///
    /// # Errors
    ///
    /// The stream cannot go on: what the server said.
    pub(crate) async fn next(&mut self) -> Result<Delivery, CallError> {
        if self.watches.is_empty() {
            std::future::pending::<()>().await;
        }
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    // The new stream begins with the first event of a revision.
                    self.partial.clear();
                    let mut stream = self.client.stream(methods::WATCH_WATCH, None).await?;
                    for request in self.watches.values() {
                        send(&mut stream, RequestUnion::CreateRequest(request.clone()))?;
                    }
                    self.stream.insert(stream)
                }
            };
            match stream.next::<pb::WatchResponse>().await {
                Ok(Some(response)) => {
                    if let Some(delivery) = self.accept(response) {
                        return Ok(delivery);
                    }
                }
                Err(error) if error.is_final() => return Err(error),
                Ok(None) | Err(_) => {
                    self.stream = None;
                    self.client.leave().await;
                    tokio::time::sleep(RESUME_INTERVAL).await;
                }
            }
        }
    }

    /// Notes how far a watch has come.
    fn accept(&mut self, mut response: pb::WatchResponse) -> Option<Delivery> {
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        // Reports of progress that were asked for belong to all watches: they carry no watch's number.
        let everywhere = response.watch_id < 0 && !response.canceled;
        let id = if everywhere { *self.watches.keys().next()? } else { response.watch_id };
        let refused =
            response.canceled && (response.compact_revision != 0 || !response.cancel_reason.is_empty());
        let id = if response.watch_id < 0 && refused { *self.watches.keys().next_back()? } else { id };
        let request = self.watches.get_mut(&id)?;
        if response.canceled {
            self.watches.remove(&id);
            self.partial.remove(&id);
            return Some(Delivery::Ended(refused.then_some(response)));
        }
        if response.created {
            if request.start_revision == 0 {
                request.start_revision = revision + 1;
            }
            return None;
        }
        if let Some(mut events) = self.partial.remove(&id) {
            events.append(&mut response.events);
            response.events = events;
        }
        if response.fragment {
            let partial = split_last_revision(&mut response.events);
            self.partial.insert(id, partial);
        }
        request.start_revision = match response.events.last() {
            Some(event) => revision_of(event) + 1,
            None if response.fragment => request.start_revision,
            None => request.start_revision.max(revision + 1),
        };
        Some(Delivery::Response(id, response))
    }
}

/// The revision that an event belongs to.
pub(crate) fn revision_of(event: &mvccpb::Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

/// Takes away the events of the last revision.
fn split_last_revision(events: &mut Vec<mvccpb::Event>) -> Vec<mvccpb::Event> {
    let last = events.last().map_or(0, revision_of);
    let at = events.partition_point(|event| revision_of(event) < last);
    events.split_off(at)
}

fn send(stream: &mut MessageStream, request: RequestUnion) -> Result<(), CallError> {
    stream.send(&pb::WatchRequest { request_union: Some(request) }, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revision_of_a_fragment_waits_for_the_rest() {
        let event = |mod_revision| mvccpb::Event {
            kv: Some(mvccpb::KeyValue { mod_revision, ..Default::default() }),
            ..Default::default()
        };
        let mut events = vec![event(7), event(7), event(8), event(8)];
        assert_eq!(split_last_revision(&mut events).len(), 2);
        assert_eq!(events.iter().map(revision_of).collect::<Vec<_>>(), [7, 7]);
        let mut events = vec![event(9)];
        assert_eq!(split_last_revision(&mut events).len(), 1);
        assert!(events.is_empty() && split_last_revision(&mut events).is_empty());
    }
}
