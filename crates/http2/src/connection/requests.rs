//! Header blocks, from their first frame to a request.
//!
//! Every block is decoded, because it may change the table of compression, whether or not its stream can be served.

use std::time::Duration;

use super::state::{Connection, Ending, PendingBlock};
use super::stream::Stream;
use crate::frame::{END_HEADERS, END_STREAM, ErrorCode, FrameFailure, FrameHead, PRIORITY, unpadded};
use crate::limits::{MAX_HEADER_BLOCK_BYTES, MAX_HEADER_FRAMES};

/// Bytes of a priority, which is not used.
const PRIORITY_BYTES: usize = 5;

impl<T: Default> Connection<T> {
    pub(super) fn on_headers(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        now: Duration,
    ) -> Result<(), FrameFailure> {
        if head.stream == 0 {
            return Err(FrameFailure::protocol("HEADERS of stream 0"));
        }
        let mut fragment = unpadded(head, payload)?;
        if head.has(PRIORITY) {
            fragment = fragment.get(PRIORITY_BYTES..).ok_or(FrameFailure::size("HEADERS"))?;
        }
        let ends_stream = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.on_block(head.stream, ends_stream, fragment);
        }
        let bytes = fragment.to_vec();
        self.block = Some(PendingBlock { stream: head.stream, ends_stream, bytes, frames: 1, began: now });
        Ok(())
    }

    pub(super) fn on_continuation(&mut self, head: &FrameHead, payload: &[u8]) -> Result<(), FrameFailure> {
        let Some(block) = self.block.as_mut().filter(|block| block.stream == head.stream) else {
            return Err(FrameFailure::protocol("CONTINUATION of nothing"));
        };
        block.frames += 1;
        if block.frames > MAX_HEADER_FRAMES || block.bytes.len() + payload.len() > MAX_HEADER_BLOCK_BYTES {
            return Err(FrameFailure::Connection(ErrorCode::EnhanceYourCalm, "too_large_headers"));
        }
        block.bytes.extend_from_slice(payload);
        if head.has(END_HEADERS)
            && let Some(block) = self.block.take()
        {
            return self.on_block(block.stream, block.ends_stream, &block.bytes);
        }
        Ok(())
    }

    /// A block is complete.
    fn on_block(&mut self, stream: u32, ends_stream: bool, block: &[u8]) -> Result<(), FrameFailure> {
        let Ok(head) = self.heads.decode(block) else {
            return Err(FrameFailure::Connection(ErrorCode::Compression, "the headers cannot be decoded"));
        };
        if let Some(open) = self.streams.get(&stream) {
            return match head {
                _ if open.has_ended => {
                    Err(FrameFailure::Connection(ErrorCode::StreamClosed, "HEADERS after the end"))
                }
                // Trailers, which no method of ours looks at.
                Ok(head) if ends_stream && !head.has_pseudo() => {
                    self.announce(stream, true);
                    Ok(())
                }
                _ => Err(FrameFailure::Stream(stream, ErrorCode::Protocol)),
            };
        }
        if stream == self.last_stream {
            return Err(FrameFailure::Connection(
                ErrorCode::StreamClosed,
                "HEADERS of a stream that is over",
            ));
        }
        if stream.is_multiple_of(2) || stream < self.last_stream {
            return Err(FrameFailure::protocol("the stream is not a next one"));
        }
        self.last_stream = stream;
        let head = head.map_err(|code| FrameFailure::Stream(stream, code))?;
        if self.ending == Ending::Draining {
            // Begun before the client heard that it should not: it will begin it again elsewhere.
            return Ok(());
        }
        if self.streams.len() >= self.settings.max_concurrent_streams as usize {
            return Err(FrameFailure::Stream(stream, ErrorCode::RefusedStream));
        }
        self.timers.requested();
        let is_urgent = (self.settings.is_urgent)(&head);
        if !self.requests.push(stream, head, is_urgent) {
            return Err(FrameFailure::Stream(stream, ErrorCode::RefusedStream));
        }
        self.streams.insert(stream, Stream::new(ends_stream));
        Ok(())
    }
}
