//! Cuts the bytes of a stream into frames without copying bodies.
//!
//! Bytes are read into blocks of 64 KiB that were zeroed once; a frame is a reference-counted slice of its block:
//!
//! ```text
//! block   | header a | body a | header b | body b | header c | first bytes of c | (room: 10 bytes)     c has 4,000
//!           consumed   shared              shared   `filled` from here on        `room`
//! ```
//!
//! A frame that does not fit the rest of its block moves to a new block, at least as long as the frame. So a byte is
//! copied at most once, and only at the edge of a block. A frame keeps its whole block in memory; small frames lie
//! densely in it.

use std::io::{self, Read};

use bytes::BytesMut;

use crate::connection::socket::PeerSocket;
use crate::error::Error;
use crate::protocol::{FRAME_HEADER_BYTES, Frame, FrameError, FrameHeader};

/// Enough for many small frames a system call, little enough to hold one for each incoming stream.
const BLOCK_BYTES: usize = 64 << 10;

/// Turns the bytes of a stream into frames; any bytes give frames or a [`FrameError`].
///
/// ```
/// use transport::{FrameReader, FrameHeader, FrameKind};
///
/// let header = FrameHeader::of(FrameKind::Message, &["hello".into()], 1024)?;
/// let mut stream = &[&header.encode()[..], b"hello"].concat()[..];
/// let mut reader = FrameReader::new(1024);
/// while !stream.is_empty() {
///     reader.fill(|room| std::io::Read::read(&mut stream, room))?;
/// }
/// assert_eq!(reader.next_frame()?.unwrap().body, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FrameReader {
    /// Bytes read and not yet cut into frames.
    filled: BytesMut,
    /// The rest of the block behind `filled`.
    room: BytesMut,
    /// The header of the frame whose body is being read.
    header: Option<FrameHeader>,
    max_frame_bytes: u32,
}

impl FrameReader {
    /// A reader of a stream whose frames have bodies of at most `max_frame_bytes`.
    pub fn new(max_frame_bytes: u32) -> FrameReader {
        FrameReader { filled: BytesMut::new(), room: BytesMut::new(), header: None, max_frame_bytes }
    }

    /// The next frame, checked, if all of it has been read.
    ///
    /// # Errors
    /// Bytes that are no frame, or a frame that is too long: close the stream.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let header = match self.header {
            Some(header) => header,
            None => match self.filled.first_chunk::<FRAME_HEADER_BYTES>() {
                Some(bytes) => FrameHeader::decode(bytes, self.max_frame_bytes)?,
                None => return Ok(None),
            },
        };
        if self.header.is_none() {
            let _ = self.filled.split_to(FRAME_HEADER_BYTES);
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

    /// Whether bytes of a later frame were read.
    pub(crate) fn has_more(&self) -> bool {
        self.header.is_some() || !self.filled.is_empty()
    }

    /// Calls `read` once with room for more bytes; returns what it returned. Zero is the end of the stream.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let needed = self.header.map_or(FRAME_HEADER_BYTES, |header| header.length as usize);
        if self.room.is_empty() || self.filled.len() + self.room.len() < needed {
            self.new_block(needed);
        }
        let count = read(&mut self.room)?;
        self.filled.unsplit(self.room.split_to(count));
        Ok(count)
    }

    /// Reads a blocking stream until a whole frame is there.
    pub(crate) fn read_frame(&mut self, stream: &mut PeerSocket) -> Result<Frame, Error> {
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
        self.room = block;
        assert!(!self.room.is_empty(), "a read always has room");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::FrameKind;

    fn encode(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for body in bodies {
            let parts = [Bytes::copy_from_slice(body)];
            bytes.extend_from_slice(&FrameHeader::of(FrameKind::Message, &parts, u32::MAX).unwrap().encode());
            bytes.extend_from_slice(body);
        }
        bytes
    }

    /// Reads all of `bytes` in portions of the given lengths, again and again.
    fn read_all(bytes: &[u8], portions: &[usize], max: u32) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut reader = FrameReader::new(max);
        let mut frames = Vec::new();
        let (mut rest, mut round) = (bytes, 0);
        loop {
            while let Some(frame) = reader.next_frame()? {
                frames.push(frame.body.to_vec());
            }
            if rest.is_empty() {
                return Ok(frames);
            }
            let portion = portions[round % portions.len()];
            round += 1;
            let read = reader.fill(|room| {
                assert!(!room.is_empty(), "a read always has room");
                let count = portion.min(room.len()).min(rest.len());
                room[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            });
            rest = &rest[read.unwrap()..];
        }
    }

    #[test]
    fn a_frame_longer_than_a_block_gets_its_own() {
        let bodies = [vec![1; 10], vec![2; 3 * BLOCK_BYTES + 5], vec![], vec![3; BLOCK_BYTES]];
        assert_eq!(read_all(&encode(&bodies), &[1000, BLOCK_BYTES], u32::MAX), Ok(bodies.to_vec()));
    }

    #[test]
    fn small_frames_lie_densely_in_one_block() {
        let bytes = encode(&[vec![7; 100], vec![8; 100]]);
        let mut reader = FrameReader::new(1000);
        let mut rest = &bytes[..];
        reader.fill(|room| rest.read(room)).unwrap();
        let first = reader.next_frame().unwrap().unwrap().body;
        let second = reader.next_frame().unwrap().unwrap().body;
        assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 100 + FRAME_HEADER_BYTES);
    }

    #[test]
    fn a_giant_frame_is_refused_by_its_header() {
        let bytes = encode(&[vec![0; 101]]);
        let refused = read_all(&bytes[..FRAME_HEADER_BYTES], &[FRAME_HEADER_BYTES], 100);
        assert_eq!(refused, Err(FrameError::TooLong { length: 101, max: 100 }));
    }

    proptest! {
        #[test]
        fn however_bytes_arrive_the_frames_are_the_same(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
            portions in prop::collection::vec(1usize..700, 1..10),
        ) {
            prop_assert_eq!(read_all(&encode(&bodies), &portions, 300), Ok(bodies));
        }

        #[test]
        fn damage_ends_the_stream_and_never_panics(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..10),
            portion in 1usize..100,
            at: prop::sample::Index,
            flip in 1u8..,
        ) {
            let mut bytes = encode(&bodies);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(read_all(&bytes, &[portion], 300).is_err());
        }
    }
}
