//! gzip, for clients that compress.
//!
//! etcd serves it, because its tracing exporter registers grpc-go's compressor. A message is one gzip stream; what it
//! decompresses to has the limit of messages.
//!
//! An RPC worker has other clients, so it compresses and decompresses little at a time. What is or becomes more is
//! decompressed on a thread for blocking work, a few messages at a time. A large answer is sent as it is, which the
//! flag before each message permits: it could not be sent while it is made, because its length precedes it.

use std::io::{Read, Write};

use api::Code;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;

use super::frames::EncodedMessage;
use crate::grpc::failure::Failure;

/// Bytes that an RPC worker compresses or decompresses at once: about a millisecond of work.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Messages that are decompressed at a time on other threads, by all connections: a few bytes mean megabytes.
const MAX_AT_ONCE: usize = 2;

static PERMITS: Semaphore = Semaphore::const_new(MAX_AT_ONCE);

/// Decompresses a message of a client, where that holds up no other client.
///
/// # Errors
/// When it is no gzip stream, or larger than `max_bytes`; in grpc-go's words.
pub(in crate::grpc) async fn decompressed(message: Bytes, max_bytes: usize) -> Result<Bytes, Failure> {
    if let Some(inline) = decompressed_inline(&message, max_bytes) {
        return inline;
    }
    // The semaphore is never closed.
    let permit = PERMITS.acquire().await.ok();
    let job = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        decompress(&message, max_bytes)
    });
    job.await.unwrap_or_else(|_| Err(Failure::unexpected()))
}

/// The same for a message of which little is to be done: what is read is as limited as what comes of it, because a
/// stream may have many empty parts.
fn decompressed_inline(message: &[u8], max_bytes: usize) -> Option<Result<Bytes, Failure>> {
    if message.len() > MAX_INLINE_BYTES {
        return None;
    }
    let inline = decompress(message, max_bytes.min(MAX_INLINE_BYTES));
    let is_larger = inline.as_ref().is_err_and(|failure| failure.code == Code::ResourceExhausted);
    (!is_larger || max_bytes <= MAX_INLINE_BYTES).then_some(inline)
}

fn decompress(message: &[u8], max_bytes: usize) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    // One byte more than is allowed says that it is too large.
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = MultiGzDecoder::new(message).take(limit).read_to_end(&mut bytes) {
        let text = format!("grpc: failed to read decompressed data: {error}");
        return Err(Failure::new(Code::Internal, text));
    }
    if bytes.len() > max_bytes {
        let text = format!("grpc: received message after decompression larger than max {max_bytes}");
        return Err(Failure::new(Code::ResourceExhausted, text));
    }
    Ok(bytes.into())
}

/// Whether an answer of so many bytes is compressed for a client that compresses. grpc-go does not compress an empty
/// one.
pub(in crate::grpc) fn is_compressed(bytes: usize) -> bool {
    (1..=MAX_INLINE_BYTES).contains(&bytes)
}

/// Compresses a message of ours.
pub(in crate::grpc) fn compressed(message: &EncodedMessage) -> EncodedMessage {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let written =
        message.0.iter().try_for_each(|part| encoder.write_all(part)).and_then(|()| encoder.finish());
    EncodedMessage(vec![written.unwrap_or_default().into()])
}

#[cfg(test)]
mod tests {
    //! What is compressed is decompressed, up to the limit.
    use super::*;

    #[test]
    fn messages_are_decompressed_up_to_the_limit() {
        let message = EncodedMessage(vec![vec![1; 1_000].into(), vec![2; 1_000].into()]);
        let small = compressed(&message).0.concat();
        assert!(small.len() < 100);
        assert_eq!(decompress(&small, 2_000), Ok(message.0.concat().into()));
        let failure = decompress(&small, 1_999).expect_err("too large");
        assert_eq!(failure.code, Code::ResourceExhausted);
        assert_eq!(failure.message, "grpc: received message after decompression larger than max 1999");
        for broken in [&small[..small.len() - 1], &small[1..], b"", b"plain"] {
            assert_eq!(decompress(broken, 2_000).map_err(|failure| failure.code), Err(Code::Internal));
        }
    }

    #[tokio::test]
    async fn a_long_stream_of_nothing_is_read_elsewhere() {
        let empty = compressed(&EncodedMessage::default()).0.concat();
        let long = Bytes::from(empty.repeat(MAX_INLINE_BYTES / empty.len() + 1));
        for max in [100, MAX_INLINE_BYTES, 1 << 20] {
            assert!(decompressed_inline(&empty, max).is_some());
            assert!(decompressed_inline(&long, max).is_none());
            assert_eq!(decompressed(long.clone(), max).await, Ok(Bytes::new()));
        }
    }

    #[tokio::test]
    async fn large_messages_are_decompressed_elsewhere() {
        let large = EncodedMessage(vec![vec![7; 10 * MAX_INLINE_BYTES].into()]);
        let small = Bytes::from(compressed(&large).0.concat());
        assert_eq!(decompressed(small.clone(), 10 * MAX_INLINE_BYTES).await, Ok(large.0.concat().into()));
        let max = 10 * MAX_INLINE_BYTES - 1;
        let failure = decompressed(small.clone(), max).await.expect_err("too large");
        assert!(failure.message.ends_with(&format!("larger than max {max}")), "{}", failure.message);
        let failure = decompressed(small, 100).await.expect_err("too large");
        assert!(failure.message.ends_with("larger than max 100"), "{}", failure.message);
        assert!(is_compressed(1) && is_compressed(MAX_INLINE_BYTES));
        assert!(!is_compressed(0) && !is_compressed(MAX_INLINE_BYTES + 1));
    }

    /// On one thread for blocking work, what is given to it runs in order.
    #[test]
    fn two_large_messages_are_decompressed_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
        runtime.expect("a runtime").block_on(async {
            let both = PERMITS.acquire_many(2).await.expect("it is open");
            assert!(PERMITS.try_acquire().is_err(), "there are two");
            let large = EncodedMessage(vec![vec![7; 2 * MAX_INLINE_BYTES].into()]);
            let message = Bytes::from(compressed(&large).0.concat());
            let mut third = Box::pin(decompressed(message, 1 << 20));
            assert!(futures_util::poll!(&mut third).is_pending());
            tokio::task::spawn_blocking(|| ()).await.expect("it runs behind the third, if that runs");
            assert!(futures_util::poll!(&mut third).is_pending());
            drop(both);
            assert!(third.await.is_ok());
        });
    }
}
