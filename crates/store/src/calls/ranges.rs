//! A streamed range for a caller whose permissions may change while it is sent.
//!
//! Each response is checked after its keys were found and before it leaves: what is sent was permitted at a moment in
//! between, whatever the caller could read when the stream began.

use api::Error;
use api::etcdserverpb as pb;
use bytes::Bytes;

use crate::auth::Caller;
use crate::reader::{RangeStream, Reader, StreamChunk};
use crate::values::{Damaged, Values};

/// A streamed range, and the response that is to be sent next.
pub struct PermittedRange {
    reader: Reader,
    start: Bytes,
    end: Bytes,
    stream: RangeStream,
    found: Option<StreamChunk>,
    /// Where the last damage was. The same once more, after it was repaired, means that the value is lost for this
    /// stream: overwritten and compacted meanwhile.
    damaged_at: Option<u64>,
}

impl PermittedRange {
    /// The answer to `request`, which `stream` has begun.
    pub fn new(reader: &Reader, request: &pb::RangeRequest, stream: RangeStream) -> PermittedRange {
        let (start, end) = (request.key.clone(), request.range_end.clone());
        PermittedRange { reader: reader.clone(), start, end, stream, found: None, damaged_at: None }
    }

    /// Finds the keys of the next response: at most `max_keys`, of at most `max_bytes` unless there is one key only.
    /// Returns false after the last. The caller is looked up behind this, and then [`encode_as`](Self::encode_as) is
    /// called.
    ///
    /// # Errors
    /// Outer: [`Damaged`]; have it repaired and call again. Inner: those of [`RangeStream::next_chunk`], and
    /// [`Error::Corrupt`] for damage that was repaired before.
    pub fn find(&mut self, max_keys: usize, max_bytes: usize) -> Result<Result<bool, Error>, Damaged> {
        if self.found.is_none() {
            match self.stream.next_chunk(max_keys, max_bytes) {
                Ok(Ok(found)) => self.found = found,
                Ok(Err(error)) => return Ok(Err(error)),
                Err(damaged) => return self.met(damaged).map(Err),
            }
        }
        Ok(Ok(self.found.is_some()))
    }

    /// The encoded response that was found last, in chunks, if the caller may read the range now. `header` completes
    /// the header of the last response, given its revision.
    ///
    /// # Errors
    /// Outer: [`Damaged`]; have it repaired, look the caller up again, and call again. Inner: those of
    /// [`Reader::check_range`], and [`Error::Corrupt`] for damage that was repaired before.
    pub fn encode_as(
        &mut self,
        caller: &Caller,
        header: impl FnOnce(i64) -> pb::ResponseHeader,
        values: &dyn Values,
    ) -> Result<Result<Vec<Bytes>, Error>, Damaged> {
        if let Err(error) = self.reader.check_range(caller, &self.start, &self.end) {
            return Ok(Err(error));
        }
        let Some(found) = &self.found else { return Ok(Ok(Vec::new())) };
        match found.encode(header, values) {
            Ok(parts) => {
                (self.found, self.damaged_at) = (None, None);
                Ok(Ok(parts))
            }
            Err(damaged) => self.met(damaged).map(Err),
        }
    }

    /// Damage is to be repaired when it is met for the first time.
    fn met(&mut self, damaged: Damaged) -> Result<Error, Damaged> {
        if self.damaged_at.replace(damaged.address) == Some(damaged.address) {
            return Ok(Error::Corrupt);
        }
        Err(damaged)
    }
}
