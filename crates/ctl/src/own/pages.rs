//! A range that is read page by page in the order of its keys, and two of them side by side.
//!
//! Pages are bounded by their bytes: the number of keys asked for follows the sizes of those that came. A page that is
//! larger than the client accepts nevertheless, because large values follow small ones, is asked for again with fewer
//! keys. So is one that is late: the line is slow, or the member hangs. Later pages stay as small until several in a
//! row came in time; then the next one has twice the keys.

use std::cmp::Ordering;
use std::collections::VecDeque;

use api::{etcdserverpb as pb, methods, mvccpb};
use bytes::Bytes;
use prost::Message;

use crate::client::{CallError, Client};

/// Keys of the first page: their sizes are not known yet.
const FIRST_PAGE_KEYS: i64 = 64;

/// Keys of the largest page.
const MAX_PAGE_KEYS: i64 = 1000;

/// Pages in a row that must come in time before a larger one is asked for. On a slow line it is late, and costs as much
/// time as one of these.
const PAGES_BEFORE_LARGER: u32 = 8;

/// Bytes that a page should have: large enough for a fast line.
const PAGE_BYTES: usize = 1 << 20;

/// Who can be asked for a page.
pub(super) trait ReadsRanges {
    /// Reads a range.
    async fn read_page(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, CallError>;
}

impl ReadsRanges for Client {
    async fn read_page(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, CallError> {
        self.read(methods::KV_RANGE, request, None).await
    }
}

/// The first key and the end of all keys that begin with a prefix.
pub(super) fn under(prefix: &[u8]) -> (Bytes, Bytes) {
    match prefix {
        b"" => (Bytes::from_static(b"\0"), Bytes::from_static(api::TO_THE_END)),
        prefix => (Bytes::copy_from_slice(prefix), api::prefix_end(prefix)),
    }
}

/// The first key behind another one.
pub(super) fn behind(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

/// A range that is read page by page.
pub(super) struct RangePages<'c, R> {
    reader: &'c R,
    request: pb::RangeRequest,
    page: VecDeque<mvccpb::KeyValue>,
    more: bool,
    /// Whether all pages show one revision.
    is_pinned: bool,
    /// Keys of the largest page that comes in time, as far as that is known.
    max_keys: i64,
    /// Pages of that many keys in a row that came in time.
    in_time: u32,
}

impl<'c, R: ReadsRanges> RangePages<'c, R> {
    /// A range at one revision: for 0, at that of the first page.
    pub(super) fn new(reader: &'c R, (key, range_end): (Bytes, Bytes), revision: i64) -> Self {
        let request =
            pb::RangeRequest { key, range_end, revision, limit: FIRST_PAGE_KEYS, ..Default::default() };
        let max_keys = MAX_PAGE_KEYS;
        Self { reader, request, page: VecDeque::new(), more: true, is_pinned: true, max_keys, in_time: 0 }
    }

    /// Each page as it is when it is read.
    pub(super) fn at_newest(self) -> Self {
        Self { is_pinned: false, ..self }
    }

    /// Without values.
    pub(super) fn keys_only(mut self) -> Self {
        self.request.keys_only = true;
        self
    }

    /// The revision of the pages.
    pub(super) fn revision(&self) -> i64 {
        self.request.revision
    }

    /// Makes sure that the next key is at hand, if there is one.
    async fn fill(&mut self) -> Result<(), CallError> {
        while self.page.is_empty() && self.more {
            let page = match self.reader.read_page(&self.request).await {
                Err(error) if error.is_too_large() && self.request.limit > 1 => {
                    self.request.limit = (self.request.limit / 4).max(1);
                    continue;
                }
                Err(CallError::Deadline) if self.request.limit > 1 => {
                    self.max_keys = (self.request.limit / 2).max(1);
                    self.in_time = 0;
                    self.request.limit = self.max_keys;
                    continue;
                }
                page => page?,
            };
            if self.is_pinned && self.request.revision == 0 {
                self.request.revision = page.header.map_or(0, |header| header.revision);
            }
            self.more = page.more;
            if let Some(last) = page.kvs.last() {
                self.request.key = behind(&last.key);
            }
            self.note_in_time();
            let bytes = page.kvs.iter().map(Message::encoded_len).sum();
            self.request.limit = next_limit(page.kvs.len(), bytes).min(self.max_keys);
            self.page = page.kvs.into();
        }
        Ok(())
    }

    /// Permits larger pages after several that came in time.
    fn note_in_time(&mut self) {
        // A smaller page says nothing about one of `max_keys`.
        if self.request.limit < self.max_keys || self.max_keys == MAX_PAGE_KEYS {
            return;
        }
        self.in_time += 1;
        if self.in_time == PAGES_BEFORE_LARGER {
            self.in_time = 0;
            self.max_keys = (2 * self.max_keys).min(MAX_PAGE_KEYS);
        }
    }
}

/// How many keys to ask for, after a page with so many keys of so many bytes.
fn next_limit(keys: usize, bytes: usize) -> i64 {
    let fitting = PAGE_BYTES.saturating_mul(keys.max(1)) / bytes.max(1);
    i64::try_from(fitting).unwrap_or(i64::MAX).clamp(1, MAX_PAGE_KEYS)
}

/// What two ranges have at one key.
pub(super) type KeyPair = (Option<mvccpb::KeyValue>, Option<mvccpb::KeyValue>);

/// The next key that either has, in the order of keys, with what both have there.
///
/// # Errors
///
/// A page could not be read.
pub(super) async fn next_pair<L: ReadsRanges, R: ReadsRanges>(
    left: &mut RangePages<'_, L>,
    right: &mut RangePages<'_, R>,
) -> Result<Option<KeyPair>, CallError> {
    left.fill().await?;
    right.fill().await?;
    let order = match (left.page.front(), right.page.front()) {
        (None, None) => return Ok(None),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(left), Some(right)) => left.key.cmp(&right.key),
    };
    let left = if order.is_le() { left.page.pop_front() } else { None };
    let right = if order.is_ge() { right.page.pop_front() } else { None };
    Ok(Some((left, right)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn pages_have_about_as_many_bytes_whatever_their_keys() {
        assert_eq!(next_limit(64, 64 * 100), MAX_PAGE_KEYS);
        assert_eq!(next_limit(64, 64 * 4096), 256);
        assert_eq!(next_limit(64, 64 << 20), 1);
        assert_eq!(next_limit(0, 0), MAX_PAGE_KEYS);
    }

    /// A cluster of keys behind a line that carries few of them in time.
    #[derive(Default)]
    struct SlowLine {
        keys: usize,
        /// Keys that are carried in time, until so many pages were late.
        max_keys: i64,
        until_late: usize,
        late: Cell<usize>,
        /// The most keys that were asked for behind the last late page.
        largest: Cell<i64>,
    }

    impl ReadsRanges for SlowLine {
        async fn read_page(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, CallError> {
            if request.limit > self.max_keys && self.late.get() < self.until_late {
                self.late.set(self.late.get() + 1);
                self.largest.set(0);
                return Err(CallError::Deadline);
            }
            self.largest.set(self.largest.get().max(request.limit));
            // The first key, `\0`, has no number.
            let last = request.key.get(..5).map(|digits| String::from_utf8_lossy(digits).parse::<usize>());
            let first = last.map_or(0, |last| last.expect("it is a number") + 1);
            let end = self.keys.min(first + request.limit as usize);
            let key = |number| Bytes::from(format!("{number:05}"));
            let kvs = (first..end).map(|number| mvccpb::KeyValue { key: key(number), ..Default::default() });
            Ok(pb::RangeResponse { kvs: kvs.collect(), more: end < self.keys, ..Default::default() })
        }
    }

    impl SlowLine {
        /// Reads all keys page by page. Returns how many there were.
        fn read_all(&self) -> usize {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let (mut left, nothing) = (RangePages::new(self, under(b""), 1), SlowLine::default());
            let mut right = RangePages::new(&nothing, under(b""), 1);
            let mut keys = 0;
            while runtime.block_on(next_pair(&mut left, &mut right)).expect("it is read").is_some() {
                keys += 1;
            }
            keys
        }
    }

    #[test]
    fn pages_that_are_late_become_smaller() {
        let line = SlowLine { keys: 100, max_keys: 5, until_late: usize::MAX, ..SlowLine::default() };
        let late = "64, 32, 16 and 8 keys are too many, and 8 again after each 8 pages of 4";
        assert_eq!((line.read_all(), line.late.get()), (100, 7), "{late}");
    }

    #[test]
    fn pages_become_as_large_as_before_once_they_come_in_time() {
        let line = SlowLine { keys: 10_000, max_keys: 5, until_late: 6, ..SlowLine::default() };
        assert_eq!((line.read_all(), line.late.get(), line.largest.get()), (10_000, 6, MAX_PAGE_KEYS));
    }

    #[test]
    fn a_prefix_has_an_end_and_no_prefix_is_everything() {
        assert_eq!(under(b"a/"), (Bytes::from("a/"), Bytes::from("a0")));
        assert_eq!(under(b""), (Bytes::from("\0"), Bytes::from("\0")));
        assert_eq!(behind(b"a"), Bytes::from("a\0"));
    }
}
