//! A limit on the bytes of large commands that are in progress.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes of large commands that may be proposed at once. Beyond it commands wait here, first come first served, instead
/// of making all requests time out behind the disk.
const MAX_LARGE_BYTES: usize = 64 << 20;

/// Size from which on a command counts as large; smaller ones are limited by their number alone.
const MIN_LARGE_BYTES: usize = 64 << 10;

/// Limits the bytes of large commands that are proposed at once.
pub(crate) struct LargeRequests {
    kilobytes: Semaphore,
}

impl Default for LargeRequests {
    fn default() -> LargeRequests {
        LargeRequests { kilobytes: Semaphore::new(MAX_LARGE_BYTES >> 10) }
    }
}

impl LargeRequests {
    /// Waits until a command of this size may be proposed; it counts until the permit is dropped.
    pub(super) async fn admit(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        if bytes < MIN_LARGE_BYTES {
            return None;
        }
        let kilobytes = (bytes >> 10).min(MAX_LARGE_BYTES >> 10) as u32;
        // The semaphore is never closed.
        self.kilobytes.acquire_many(kilobytes).await.ok()
    }
}

#[cfg(test)]
mod tests {
    //! What waits for what.
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn large_commands_wait_for_the_bytes_of_others_and_small_ones_do_not() {
        let requests = LargeRequests::default();
        let has_to_wait = |bytes| requests.admit(bytes).now_or_never().is_none();
        let most = requests.admit((64 << 20) - (64 << 10)).now_or_never().expect("there is room");
        let last = requests.admit(64 << 10).now_or_never().expect("there is room");
        assert!(last.is_some(), "it counts");
        assert!(has_to_wait(64 << 10), "64 MiB are in progress");
        assert!(!has_to_wait((64 << 10) - 1), "a smaller one does not count");
        drop(last);
        assert!(!has_to_wait(64 << 10));
        assert!(has_to_wait((64 << 10) + 1_024));
        drop(most);
        assert!(!has_to_wait(1 << 30), "the largest waits for all others, and then has its place");
    }
}
