//! A range that is read page by page in the order of its keys, and two of them side by side.
//!
//! Pages are bounded by their bytes: the number of keys asked for follows the sizes of those that came. A page that is
//! larger than the client accepts nevertheless, because large values follow small ones, is asked for again with fewer
//! keys. So is one that is late, and later pages stay as small: the line is slow.

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
}

impl<'c, R: ReadsRanges> RangePages<'c, R> {
    /// A range at one revision: for 0, at that of the first page.
    pub(super) fn new(reader: &'c R, (key, range_end): (Bytes, Bytes), revision: i64) -> Self {
        let request =
            pb::RangeRequest { key, range_end, revision, limit: FIRST_PAGE_KEYS, ..Default::default() };
        let max_keys = MAX_PAGE_KEYS;
        Self { reader, request, page: VecDeque::new(), more: true, is_pinned: true, max_keys }
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
            let bytes = page.kvs.iter().map(Message::encoded_len).sum();
            self.request.limit = next_limit(page.kvs.len(), bytes).min(self.max_keys);
            self.page = page.kvs.into();
        }
        Ok(())
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
    use super::*;

    #[test]
    fn pages_have_about_as_many_bytes_whatever_their_keys() {
        assert_eq!(next_limit(64, 64 * 100), MAX_PAGE_KEYS);
        assert_eq!(next_limit(64, 64 * 4096), 256);
        assert_eq!(next_limit(64, 64 << 20), 1);
        assert_eq!(next_limit(0, 0), MAX_PAGE_KEYS);
    }

    /// A cluster of 100 keys behind a line that carries few of them in time.
    struct SlowLine {
        max_keys: i64,
        late: std::cell::Cell<usize>,
    }

    impl ReadsRanges for SlowLine {
        async fn read_page(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, CallError> {
            if request.limit > self.max_keys {
                self.late.set(self.late.get() + 1);
                return Err(CallError::Deadline);
            }
            let all =
                (0..100).map(|number| Bytes::from(format!("{number:03}"))).filter(|key| *key >= request.key);
            let mut keys: Vec<_> = all.take(request.limit as usize + 1).collect();
            let more = keys.len() > request.limit as usize;
            keys.truncate(request.limit as usize);
            let kvs = keys.into_iter().map(|key| mvccpb::KeyValue { key, ..Default::default() }).collect();
            Ok(pb::RangeResponse { kvs, more, ..Default::default() })
        }
    }

    #[test]
    fn pages_that_are_late_become_smaller_and_stay_so() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let reader = SlowLine { max_keys: 5, late: Default::default() };
        let mut left = RangePages::new(&reader, under(b""), 1);
        let nothing = SlowLine { max_keys: 0, late: Default::default() };
        let mut right = RangePages::new(&nothing, under(b""), 1);
        right.more = false;
        let mut keys = 0;
        while runtime.block_on(next_pair(&mut left, &mut right)).expect("it is read").is_some() {
            keys += 1;
        }
        assert_eq!((keys, reader.late.get()), (100, 4), "64, 32, 16 and 8 keys are too many");
    }

    #[test]
    fn a_prefix_has_an_end_and_no_prefix_is_everything() {
        assert_eq!(under(b"a/"), (Bytes::from("a/"), Bytes::from("a0")));
        assert_eq!(under(b""), (Bytes::from("\0"), Bytes::from("\0")));
        assert_eq!(behind(b"a"), Bytes::from("a\0"));
    }
}
