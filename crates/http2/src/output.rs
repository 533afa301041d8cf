//! Frames that wait for the socket.
//!
//! Small ones are copied behind each other; a large part of a message stays the buffer it was. The owner writes
//! [`Output::slices`] with one vectored write and says with [`Output::advance`] how many bytes the socket took.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::limits::{MAX_CONTROL_BYTES, MAX_OUTPUT_BYTES};

/// Larger parts are not copied: a slice of its own costs a write less than the copy.
const MAX_COPIED_BYTES: usize = 4 << 10;

/// Room kept for the next frames when everything was written: a thousand idle connections must not keep what a busy
/// moment needed.
const MAX_KEPT_BYTES: usize = 1 << 10;

/// Frames, encoded.
#[derive(Debug, Default)]
pub struct Output {
    /// What comes first.
    parts: VecDeque<Bytes>,
    /// What comes last, and its first byte that was not written.
    tail: Vec<u8>,
    tail_written: usize,
    /// Bytes in `parts`.
    part_bytes: usize,
}

impl Output {
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.part_bytes + self.tail.len() - self.tail_written
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What waits, if it is in one part.
    pub fn only_part(&self) -> Option<&[u8]> {
        self.parts.is_empty().then(|| &self.tail[self.tail_written..])
    }

    /// The next bytes, in as many slices as there is room for; how many slices.
    pub fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let tail = std::iter::once(&self.tail[self.tail_written..]);
        let parts = self.parts.iter().map(|part| &part[..]).chain(tail).filter(|part| !part.is_empty());
        let mut count = 0;
        for (slot, part) in into.iter_mut().zip(parts) {
            *slot = IoSlice::new(part);
            count += 1;
        }
        count
    }

    /// So many bytes were written.
    ///
    /// # Panics
    /// When that is more than there are.
    pub fn advance(&mut self, mut count: usize) {
        while let Some(part) = self.parts.front_mut().filter(|_| count > 0) {
            let taken = count.min(part.len());
            part.advance(taken);
            self.part_bytes -= taken;
            count -= taken;
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        self.tail_written += count;
        assert!(self.tail_written <= self.tail.len(), "more was written than there was");
        if self.is_empty() {
            self.tail.clear();
            self.tail.shrink_to(MAX_KEPT_BYTES);
            self.tail_written = 0;
        } else if self.tail_written >= MAX_OUTPUT_BYTES {
            // A client that is never quite up to date must not keep all that it was ever sent.
            self.tail.drain(..self.tail_written);
            self.tail_written = 0;
        }
    }

    /// Bytes of DATA that may still be added.
    pub(crate) fn room(&self) -> usize {
        MAX_OUTPUT_BYTES.saturating_sub(self.len())
    }

    /// Whether more may be received from the client. What it causes besides DATA, which has a limit of its own, waits
    /// here: headers, trailers, and answers to control frames.
    pub(crate) fn takes_more(&self) -> bool {
        self.len() < MAX_OUTPUT_BYTES + MAX_CONTROL_BYTES
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Adds a part of a message.
    pub(crate) fn push_part(&mut self, part: Bytes) {
        if part.len() <= MAX_COPIED_BYTES {
            return self.push(&part);
        }
        let mut before = Bytes::from(std::mem::take(&mut self.tail));
        before.advance(std::mem::take(&mut self.tail_written));
        for part in [before, part] {
            if !part.is_empty() {
                self.part_bytes += part.len();
                self.parts.push_back(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Bytes leave in order, however the socket takes them.
    use super::*;

    /// Everything that is taken from an output by a socket that takes `taken` bytes at a time.
    fn written(output: &mut Output, taken: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); 2];
            let count = output.slices(&mut slices);
            let next: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).take(taken).collect();
            output.advance(next.len());
            all.extend(next);
        }
        all
    }

    #[test]
    fn parts_leave_in_order_however_they_are_taken() {
        for taken in [1, 3, 5_000, 1 << 20] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for (number, length) in
                [3, MAX_COPIED_BYTES, MAX_COPIED_BYTES + 1, 0, 1, 9_000, 9_001].iter().enumerate()
            {
                let part = vec![number as u8; *length];
                expected.extend_from_slice(&part);
                if number % 2 == 0 {
                    output.push_part(part.into())
                } else {
                    output.push(&part)
                }
                if number == 4 {
                    output.advance(2);
                    expected.drain(..2);
                }
            }
            assert_eq!(output.len(), expected.len());
            assert_eq!(written(&mut output, taken), expected);
            // One that is never empty keeps what waits, not what was sent.
            for _ in 0..100 {
                output.push(&[0; 4_000]);
                output.advance(3_900);
            }
            assert!(output.tail.len() <= MAX_OUTPUT_BYTES + output.len() + 4_000, "{}", output.tail.len());
            output.advance(output.len());
            assert!(output.tail.capacity() <= MAX_KEPT_BYTES);
        }
    }
}
