//! Requests of the Watch service.
//!
//! A watcher that is refused does not end the stream: it is answered as created and canceled with
//! watch id -1, and the [`Error::message`] as `cancel_reason` (for a missing permission, etcd puts
//! [`Error::status_text`] there instead). Filters this version does not know are ignored.

use bytes::Bytes;

use super::is_empty_range;
use crate::Error;
use crate::etcdserverpb::WatchCreateRequest;

/// The smallest key there is.
const FIRST_KEY: &[u8] = &[0];

/// The key to watch from: an empty one stands for the smallest.
pub fn watch_key(request: &WatchCreateRequest) -> Bytes {
    if request.key.is_empty() { Bytes::from_static(FIRST_KEY) } else { request.key.clone() }
}

/// Checks where a watcher starts; before its permission is looked at.
///
/// # Errors
/// [`Error::Compacted`] for a negative revision, as etcd has it
pub fn watch_start(request: &WatchCreateRequest) -> Result<(), Error> {
    if request.start_revision < 0 { Err(Error::Compacted) } else { Ok(()) }
}

/// Checks what a watcher looks at; after its permission was.
///
/// # Errors
/// [`Error::EmptyWatchRange`] if the range ends before or where it begins
pub fn watch_range(request: &WatchCreateRequest) -> Result<(), Error> {
    let empty = is_empty_range(&watch_key(request), &request.range_end);
    if empty { Err(Error::EmptyWatchRange) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(key: &'static str, range_end: &'static str) -> WatchCreateRequest {
        WatchCreateRequest { key: key.into(), range_end: range_end.into(), ..Default::default() }
    }

    #[test]
    fn an_empty_key_is_the_smallest() {
        assert_eq!(watch_key(&create("", "")), FIRST_KEY);
        assert_eq!(watch_key(&create("a", "")), "a");
    }

    #[test]
    fn a_negative_start_is_refused() {
        let start =
            |start_revision| watch_start(&WatchCreateRequest { start_revision, ..Default::default() });
        assert_eq!(start(-1), Err(Error::Compacted));
        assert_eq!(start(0), Ok(()));
        assert_eq!(start(i64::MAX), Ok(()));
    }

    #[test]
    fn a_range_must_hold_a_key() {
        for (key, end) in [("a", ""), ("a", "\0"), ("a", "b"), ("a", "a\0"), ("", ""), ("", "\0"), ("", "a")]
        {
            assert_eq!(watch_range(&create(key, end)), Ok(()), "{key:?} {end:?}");
        }
        for (key, end) in [("a", "a"), ("b", "a"), ("a\0", "a")] {
            assert_eq!(watch_range(&create(key, end)), Err(Error::EmptyWatchRange), "{key:?} {end:?}");
        }
    }
}
