//! What a connection holds for its client, and room for more: for an answer, while the client leaves others untaken,
//! and for a body that is not complete.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use super::handle::StreamHandle;
use crate::overload::ConnectionRanges;

/// Bytes by which a connection may differ from its part of the sum: the sum is shared by all workers, and an ordinary
/// call must not write to it.
const MAX_UNACCOUNTED_BYTES: u64 = 64 << 10;

/// Bytes that all connections hold or have reserved: answers that wait for their clients, and requests that did not
/// begin or are not complete. Of what is reserved nothing need have come.
pub(crate) type ClientMemory = Arc<AtomicU64>;

/// The part of one connection.
pub(super) struct HeldShare {
    sum: ClientMemory,
    bytes: u64,
}

impl HeldShare {
    pub(super) fn of(sum: ClientMemory) -> HeldShare {
        HeldShare { sum, bytes: 0 }
    }

    /// The connection holds so many bytes now.
    pub(super) fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes.abs_diff(self.bytes) > MAX_UNACCOUNTED_BYTES {
            self.replace(bytes);
        }
    }

    fn replace(&mut self, bytes: u64) {
        // If it became smaller, the difference wraps around, and so does the sum: modulo 2^64 it is right.
        self.sum.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.replace(0);
    }
}

/// Whether the connection of a call has room for another answer, and may have another long range in the queue of all. A
/// call waits for these before it makes a large answer, and holds nothing meanwhile that others need. The default is
/// that of a connection which has one call at a time: it limits nothing.
#[derive(Clone, Default)]
pub(crate) struct AnswerRoom {
    stream: Option<StreamHandle>,
    /// The answer is not written to the stream as it is made.
    limits_ranges_only: bool,
}

impl AnswerRoom {
    pub(super) fn of(stream: StreamHandle) -> AnswerRoom {
        AnswerRoom { stream: Some(stream), limits_ranges_only: false }
    }

    /// The stream whose answers limit this one.
    fn limiting(&self) -> Option<&StreamHandle> {
        self.stream.as_ref().filter(|_| !self.limits_ranges_only)
    }

    /// Waits for room. A call of this process, or whose client is gone, does not wait.
    pub(crate) async fn wait(&self) {
        if let Some(stream) = self.limiting() {
            poll_fn(|context| stream.poll_room(context)).await;
        }
    }

    /// Waits until the connection may have another long range in their queue, as one of `at_once`.
    pub(crate) async fn admit_range(&self, at_once: usize) -> Option<OwnedSemaphorePermit> {
        match &self.stream {
            Some(stream) => {
                stream.long_ranges().get_or_init(|| ConnectionRanges::at_once(at_once)).admit().await
            }
            None => None,
        }
    }

    /// How many long ranges of the connection wait for that.
    pub(crate) fn waiting_ranges(&self) -> usize {
        let ranges = self.stream.as_ref().and_then(|stream| stream.long_ranges().get());
        ranges.map_or(0, ConnectionRanges::waiting)
    }

    /// Whether there is room now, or the client is gone.
    pub(crate) fn is_there(&self) -> bool {
        self.limiting().is_none_or(StreamHandle::has_room)
    }
}

#[cfg(test)]
impl AnswerRoom {
    /// That of a stream that is gone, in a connection of its own.
    pub(crate) fn of_new_connection() -> AnswerRoom {
        AnswerRoom::of(super::handle::ConnectionHandle::silent().stream(1))
    }
}

impl std::fmt::Debug for AnswerRoom {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AnswerRoom").finish_non_exhaustive()
    }
}

/// Room for the parts of a body that its reader keeps. An HTTP/2 request that is not gRPC has it among its extensions.
#[derive(Clone)]
pub(crate) struct BodyRoom(StreamHandle);

impl BodyRoom {
    pub(super) fn of(stream: StreamHandle) -> BodyRoom {
        BodyRoom(stream)
    }

    /// What an answer that becomes another body waits for: the long ranges of the connection, and no room.
    pub(crate) fn ranges(&self) -> AnswerRoom {
        AnswerRoom { stream: Some(self.0.clone()), limits_ranges_only: true }
    }

    /// The reader keeps so many bytes, or none any more.
    pub(crate) fn keep(&self, bytes: usize) {
        // A stream that is gone holds nothing.
        let _ = self.0.with(|connection, stream| connection.keep(stream, bytes));
    }

    /// Waits until a value of so many bytes may come. If the client is gone, the body says so.
    pub(crate) async fn wait(&self, bytes: usize) {
        poll_fn(|context| match self.0.poll_reserved(context, bytes) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    //! The sum is that of the connections, nearly. What becomes another body waits for other long
    //! ranges of its connection, and for no room.
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::grpc::handle::ConnectionHandle;

    #[test]
    fn an_answer_that_becomes_json_waits_for_other_ranges_only() {
        let stream = ConnectionHandle::full().stream(1);
        let (room, ranges) = (AnswerRoom::of(stream.clone()), BodyRoom::of(stream).ranges());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(pin!(room.wait()).poll(context).is_pending() && !room.is_there());
        assert!(pin!(ranges.wait()).poll(context).is_ready() && ranges.is_there());
        let mut first = pin!(ranges.admit_range(1));
        let Poll::Ready(Some(permit)) = first.as_mut().poll(context) else { panic!("one is admitted") };
        let mut second = pin!(room.admit_range(1));
        assert!(second.as_mut().poll(context).is_pending());
        assert_eq!([room.waiting_ranges(), ranges.waiting_ranges()], [1, 1]);
        drop(permit);
        assert!(second.as_mut().poll(context).is_ready());
    }

    #[test]
    fn shares_are_in_the_sum_until_they_are_dropped() {
        let sum = ClientMemory::default();
        let (mut first, mut second) = (HeldShare::of(sum.clone()), HeldShare::of(sum.clone()));
        for (one, other, expected) in
            [(100, 100, 0), (1 << 20, 100, 1 << 20), (1 << 20, 1 << 21, 3 << 20), (0, (1 << 21) - 9, 1 << 21)]
        {
            first.set(one);
            second.set(other);
            assert_eq!(sum.load(Ordering::Relaxed), expected);
        }
        drop(second);
        assert_eq!(sum.load(Ordering::Relaxed), 0);
    }
}
