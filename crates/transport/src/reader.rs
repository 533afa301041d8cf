//! Cuts frames out of the bytes of a stream without copying bodies.
//!
//! Bytes are read into blocks that were zeroed once; a frame is a counted slice of its block. A frame that does
//! not fit what is left of its block gets a block of its own size, so each byte is copied at most once and only
//! when it sits at the edge of a block. Frames that are kept keep their block: they lie densely in it.

use std::io::{self, Read};

use bytes::BytesMut;

use crate::frame::{Frame, HEADER_BYTES, Header};
use crate::stream::Stream;
use crate::{Error, FrameError};

/// Enough for many small frames a system call, little enough to hold one for each incoming stream.
const BLOCK_BYTES: usize = 64 << 10;

/// Takes a stream's bytes and gives its frames; any bytes give frames or a [`FrameError`].
///
/// ```
/// use transport::{FrameReader, Header, Kind};
///
/// let header = Header::of(Kind::Message, &["hello".into()], 1024)?;
/// let mut stream = &[&header.encode()[..], b"hello"].concat()[..];
/// let mut reader = FrameReader::new(1024);
/// while !stream.is_empty() {
///     reader.fill(|room| std::io::Read::read(&mut stream, room))?;
/// }
/// assert_eq!(reader.next_frame()?.unwrap().body, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FrameReader {
    /// Read, not yet cut.
    filled: BytesMut,
    /// The rest of the block behind `filled`.
    spare: BytesMut,
    /// The header of the frame whose body is being read.
    header: Option<Header>,
    max_frame_bytes: u32,
}

impl FrameReader {
    /// A reader of a stream whose frames have bodies of at most `max_frame_bytes`.
    pub fn new(max_frame_bytes: u32) -> FrameReader {
        FrameReader { filled: BytesMut::new(), spare: BytesMut::new(), header: None, max_frame_bytes }
    }

    /// The next frame, checked, if all of it has been read.
    ///
    /// # Errors
    /// Bytes that are no frame, or one that is too long: the stream is of no use any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let header = match self.header {
            Some(header) => header,
            None => match self.filled.first_chunk::<HEADER_BYTES>() {
                Some(bytes) => Header::decode(bytes, self.max_frame_bytes)?,
                None => return Ok(None),
            },
        };
        if self.header.is_none() {
            let _ = self.filled.split_to(HEADER_BYTES);
            self.header = Some(header);
        }
        if self.filled.len() < header.length as usize {
            return Ok(None);
        }
        let body = self.filled.split_to(header.length as usize).freeze();
        header.check(&body)?;
        self.header = None;
        Ok(Some(Frame { kind: header.kind, body }))
    }

    /// Whether bytes were read that no frame has been cut of yet.
    pub(crate) fn has_more(&self) -> bool {
        self.header.is_some() || !self.filled.is_empty()
    }

    /// Calls `read` once with room for more bytes; returns what it returned. Zero is the end of the stream.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let needed = self.header.map_or(HEADER_BYTES, |header| header.length as usize);
        if self.spare.is_empty() || self.filled.len() + self.spare.len() < needed {
            self.new_block(needed);
        }
        let count = read(&mut self.spare)?;
        self.filled.unsplit(self.spare.split_to(count));
        Ok(count)
    }

    /// Reads a blocking stream until a whole frame is there.
    pub(crate) fn read_frame(&mut self, stream: &mut Stream) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(frame);
            }
            match self.fill(|room| stream.read(room)) {
                Ok(0) => return Err(Error::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read")(error)),
            }
        }
    }

    fn new_block(&mut self, needed: usize) {
        let mut block = BytesMut::zeroed(needed.max(self.filled.len() + 1).max(BLOCK_BYTES));
        block[..self.filled.len()].copy_from_slice(&self.filled);
        self.filled = block.split_to(self.filled.len());
        self.spare = block;
    }
}

#[cfg(test)]
mod tests;
