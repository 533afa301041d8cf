//! Streams of watchers.

use std::rc::Rc;
use std::time::Instant;

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use ctl::CallError;
use pb::watch_request::RequestUnion;
use prost::Message;

use crate::client::{Lane, Talk};

/// A stream of watchers.
pub(crate) struct WatchTalk {
    talk: Talk,
}

impl WatchTalk {
    /// Begins a stream with a first watcher; the answer to it comes as the first response.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) async fn open(lane: &Rc<Lane>, first: pb::WatchCreateRequest) -> Result<Self, CallError> {
        let request = encoded(RequestUnion::CreateRequest(first));
        Ok(Self { talk: lane.stream(methods::WATCH_WATCH, &request, false).await? })
    }

    /// Asks for one more watcher.
    pub(crate) fn create(&self, watcher: pb::WatchCreateRequest) {
        self.talk.send(&encoded(RequestUnion::CreateRequest(watcher)));
    }

    /// Asks how far the stream is.
    pub(crate) fn ask_for_progress(&self) {
        self.talk.send(&encoded(RequestUnion::ProgressRequest(pb::WatchProgressRequest {})));
    }

    /// The next response.
    ///
    /// # Errors
    /// The stream or a watcher ended.
    pub(crate) async fn next(&self) -> Result<pb::WatchResponse, CallError> {
        let ended = |text: String| CallError::status(14, text);
        let message = self.talk.next().await?.ok_or_else(|| ended("the watch stream ended".to_owned()))?;
        let response = pb::WatchResponse::decode(Bytes::from(message));
        let response = response.map_err(|error| CallError::status(13, error.to_string()))?;
        if response.canceled {
            return Err(ended(format!("a watcher was canceled: {}", response.cancel_reason)));
        }
        Ok(response)
    }

    /// Creates watchers one after the other on one stream, and calls `created` when each is there, with the time when
    /// it was asked for. Returns the stream, none without watchers, and the events that came meanwhile.
    ///
    /// # Errors
    /// The stream or a watcher ended.
    pub(crate) async fn open_all(
        lane: &Rc<Lane>,
        watchers: impl Iterator<Item = pb::WatchCreateRequest>,
        mut created: impl FnMut(Instant),
    ) -> Result<(Option<Self>, Vec<pb::WatchResponse>), CallError> {
        let (mut stream, mut early): (Option<Self>, Vec<pb::WatchResponse>) = (None, Vec::new());
        for watcher in watchers {
            let begin = Instant::now();
            match &stream {
                Some(stream) => stream.create(watcher),
                None => stream = Some(Self::open(lane, watcher).await?),
            }
            let Some(stream) = &stream else { continue };
            loop {
                let response = stream.next().await?;
                if response.created {
                    break;
                }
                early.push(response);
            }
            created(begin);
        }
        Ok((stream, early))
    }
}

fn encoded(request: RequestUnion) -> Vec<u8> {
    pb::WatchRequest { request_union: Some(request) }.encode_to_vec()
}

/// A watcher of one key.
pub(crate) fn watcher(key: Bytes) -> pb::WatchCreateRequest {
    pb::WatchCreateRequest { key, ..Default::default() }
}
