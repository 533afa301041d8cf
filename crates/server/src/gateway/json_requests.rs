//! The body of a request, as the messages it says.

use std::time::Duration;

use api::Code;
use bytes::Bytes;
use futures_util::StreamExt;
use gateway::{JsonValues, Route};

use super::transcoder::Transcoder;
use crate::grpc::{BodyRoom, Failure, LocalRequests};

/// Bytes of JSON for each byte that a gRPC message may have: base64 makes four bytes of three, and names and numbers of
/// small fields are longer too.
pub(crate) const JSON_PER_MESSAGE: usize = 2;

/// Bytes of a body that are read and dropped after a request was refused, for each byte that a message of JSON may
/// have. Over HTTP/2 many clients give up an answer that comes before they have sent everything.
const DISCARDED_PER_JSON: usize = 16;

/// The longest time for that.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// JSON values that become messages.
pub(super) struct JsonRequests {
    route: Route,
    /// The bytes of the body; as errors what ends them early.
    body: LocalRequests,
    values: JsonValues,
    max_message_bytes: usize,
    transcoder: Transcoder,
    /// Where the client has several bodies at a time: what is kept of this one takes room of the connection.
    room: Option<BodyRoom>,
}

/// Bytes of a value that is not complete, for which no room is reserved.
const MAX_UNRESERVED_BYTES: usize = 64 << 10;

impl JsonRequests {
    /// The messages in `body`, each of at most `max_message_bytes`.
    pub(super) fn new(
        route: Route,
        body: LocalRequests,
        max_message_bytes: usize,
        transcoder: Transcoder,
        room: Option<BodyRoom>,
    ) -> JsonRequests {
        JsonRequests { route, body, values: JsonValues::default(), max_message_bytes, transcoder, room }
    }

    fn max_json_bytes(&self) -> usize {
        self.max_message_bytes.saturating_mul(JSON_PER_MESSAGE)
    }

    /// The next message; `None` at the end of the body.
    ///
    /// # Errors
    /// When the body is not the JSON of the method's messages, or too large, or ends early. Nothing can be asked after
    /// that.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let max_json_bytes = self.max_json_bytes();
        loop {
            let value = self.values.next_value();
            let value = value.map_err(|many| Failure::new(Code::ResourceExhausted, many.to_string()))?;
            if let Some(room) = &self.room {
                room.keep(self.values.len());
            }
            if let Some(json) = value {
                return self.message(json).await.map(Some);
            }
            if self.values.len() > max_json_bytes {
                let text = format!("received JSON larger than max ({max_json_bytes} bytes)");
                return Err(Failure::new(Code::ResourceExhausted, text));
            }
            if let Some(room) = &self.room
                && self.values.len() > MAX_UNRESERVED_BYTES
            {
                room.wait(max_json_bytes).await;
            }
            match self.body.next().await {
                Some(part) => self.values.push(&part?),
                None if self.values.is_empty() => return Ok(None),
                None => return Err(self.bad("unexpected EOF")),
            }
        }
    }

    /// Reads what follows the one message of a method, and drops it. Only then does a connection of HTTP/1.1 notice
    /// that its client goes.
    ///
    /// # Errors
    /// When the body ends early.
    pub(super) async fn finish(mut self) -> Result<(), Failure> {
        self.values = JsonValues::default();
        while let Some(part) = self.body.next().await {
            part?;
            self.drop_kept();
        }
        Ok(())
    }

    /// Nothing is kept of what was read.
    fn drop_kept(&self) {
        if let Some(room) = &self.room {
            room.keep(0);
        }
    }

    /// Reads and drops the rest of a body that was refused, within limits, so that its client reads why.
    pub(super) async fn discard(mut self) {
        let mut left = self.max_json_bytes().saturating_mul(DISCARDED_PER_JSON);
        self.values = JsonValues::default();
        let discarded = async {
            while left > 0
                && let Some(Ok(part)) = self.body.next().await
            {
                left = left.saturating_sub(part.len());
                self.drop_kept();
            }
        };
        // Whether everything was read is not important: the answer says the same.
        let _ = tokio::time::timeout(DISCARD_TIMEOUT, discarded).await;
    }

    async fn message(&mut self, json: Bytes) -> Result<Bytes, Failure> {
        let route = self.route.clone();
        let message = self.transcoder.run(json, move |json| route.message(&json)).await;
        let message = message.map_err(|error| self.bad(error))?;
        let (length, max) = (message.len(), self.max_message_bytes);
        if length > max {
            let text = format!("grpc: received message larger than max ({length} vs. {max})");
            return Err(Failure::new(Code::ResourceExhausted, text));
        }
        Ok(message)
    }

    fn bad(&self, why: impl std::fmt::Display) -> Failure {
        let text = match self.route.takes_stream {
            true => format!("Failed to decode request: {why}"),
            false => why.to_string(),
        };
        Failure::new(Code::InvalidArgument, text)
    }
}
