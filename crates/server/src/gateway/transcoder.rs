//! Where JSON is read and written: small values at once, large ones on threads for blocking work, a few at a time.

use std::sync::Arc;

use bytes::Bytes;
use gateway::TranscodeError;
use tokio::sync::Semaphore;

/// From this size on, JSON is read and written on a thread for blocking work: an RPC worker has other clients.
pub(super) const MAX_INLINE_BYTES: usize = 32 << 10;

/// Large values that are read or written at once, for each core. The others wait, so that they take neither all memory
/// nor hundreds of threads.
const MAX_LARGE_PER_CORE: usize = 2;

/// Shared by all requests of the gateway.
#[derive(Clone)]
pub(super) struct Transcoder {
    permits: Arc<Semaphore>,
}

impl Default for Transcoder {
    fn default() -> Transcoder {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Transcoder::at_once(MAX_LARGE_PER_CORE * cores)
    }
}

impl Transcoder {
    pub(super) fn at_once(count: usize) -> Transcoder {
        Transcoder { permits: Arc::new(Semaphore::new(count)) }
    }

    /// Runs `work`, which takes time and memory by the size of its input, where it holds up no other client. Large work
    /// that has begun runs to its end even if the caller is dropped, and counts until then.
    ///
    /// # Errors
    /// Those of `work`, as text.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        input: Bytes,
        work: impl FnOnce(Bytes) -> Result<T, TranscodeError> + Send + 'static,
    ) -> Result<T, String> {
        if input.len() <= MAX_INLINE_BYTES {
            return work(input).map_err(|error| error.to_string());
        }
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        let job = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(input)
        });
        job.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    //! How much is read at once.
    use super::*;

    #[test]
    fn there_are_two_permits_for_every_core() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(Transcoder::default().permits.available_permits(), 2 * cores);
    }
}
