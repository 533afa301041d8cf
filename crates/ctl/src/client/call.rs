//! Messages on one stream, and the status at its end.
//!
//! A message is a byte that says whether it is compressed, four bytes of length, and protobuf. After the last one the
//! server sends the status in trailers, or, if it has no message to send, in its headers.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::HeaderMap;
use prost::Message;

use super::error::CallError;

/// Bytes before each message.
const PREFIX_BYTES: usize = 5;

/// One call, from its first message to its status.
pub(crate) struct MessageStream {
    send: SendStream<Bytes>,
    answer: Answer,
    buffer: BytesMut,
    max_request_bytes: usize,
    max_response_bytes: usize,
}

enum Answer {
    Expected(ResponseFuture),
    Begun(RecvStream),
    Over,
}

impl MessageStream {
    /// A call that has begun.
    pub(super) fn new(
        send: SendStream<Bytes>,
        answer: ResponseFuture,
        max_request_bytes: usize,
        max_response_bytes: usize,
    ) -> Self {
        let answer = Answer::Expected(answer);
        Self { send, answer, buffer: BytesMut::new(), max_request_bytes, max_response_bytes }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// The message is too large, or the connection is gone.
    pub(crate) fn send(&mut self, message: &impl Message, last: bool) -> Result<(), CallError> {
        let length = message.encoded_len();
        if length > self.max_request_bytes {
            let max = self.max_request_bytes;
            let text = format!("trying to send message larger than max ({length} vs. {max})");
            return Err(CallError::status(8, text));
        }
        let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
        bytes.put_u8(0);
        // A message is at most as long as the limit above, which a flag of 64 bits could set beyond 4 GiB.
        bytes.put_u32(u32::try_from(length).map_err(|error| CallError::status(8, error.to_string()))?);
        bytes.put(message.encode_to_vec().as_slice());
        self.send.send_data(bytes.freeze(), last).map_err(CallError::from_h2)
    }

    /// The next message, or none when the call ended well.
    ///
    /// # Errors
    ///
    /// The status of a call that failed, or the loss of the connection.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, CallError> {
        loop {
            if let Some(message) = self.take_message()? {
                let message = M::decode(message).map_err(|error| CallError::status(13, error.to_string()))?;
                return Ok(Some(message));
            }
            match &mut self.answer {
                Answer::Expected(response) => {
                    let response = response.await.map_err(CallError::from_h2)?;
                    if response.status() != http::StatusCode::OK {
                        return Err(CallError::status(
                            14,
                            format!("unexpected HTTP status {}", response.status()),
                        ));
                    }
                    if response.headers().contains_key("grpc-status") {
                        self.answer = Answer::Over;
                        return status(response.headers()).map(|()| None);
                    }
                    self.answer = Answer::Begun(response.into_body());
                }
                Answer::Begun(body) => match body.data().await {
                    Some(data) => {
                        let data = data.map_err(CallError::from_h2)?;
                        let _ = body.flow_control().release_capacity(data.len());
                        self.buffer.extend_from_slice(&data);
                    }
                    None => {
                        let trailers = body.trailers().await.map_err(CallError::from_h2)?;
                        self.answer = Answer::Over;
                        return match trailers {
                            Some(trailers) => status(&trailers).map(|()| None),
                            None => Err(CallError::status(13, "the server sent no status".to_owned())),
                        };
                    }
                },
                Answer::Over => return Ok(None),
            }
        }
    }

    fn take_message(&mut self) -> Result<Option<Bytes>, CallError> {
        if self.buffer.len() < PREFIX_BYTES {
            return Ok(None);
        }
        let length =
            u32::from_be_bytes([self.buffer[1], self.buffer[2], self.buffer[3], self.buffer[4]]) as usize;
        if self.max_response_bytes > 0 && length > self.max_response_bytes {
            let max = self.max_response_bytes;
            let text = format!("grpc: received message larger than max ({length} vs. {max})");
            return Err(CallError::status(8, text));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// The status in headers or trailers.
fn status(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name| headers.get(name).map(|value| value.as_bytes()).unwrap_or_default();
    let code = std::str::from_utf8(text("grpc-status")).ok().and_then(|code| code.parse().ok()).unwrap_or(2);
    match code {
        0 => Ok(()),
        code => Err(CallError::status(code, percent_decoded(text("grpc-message")))),
    }
}

/// A message of a status: bytes outside of ASCII are written as `%` and two digits.
fn percent_decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if text[at] == b'%' => {
                bytes.push(byte);
                at += 3;
            }
            _ => {
                bytes.push(text[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
