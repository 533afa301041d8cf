//! gzip, for clients that compress.
//!
//! etcd serves it, because its tracing exporter registers grpc-go's compressor. A message is one gzip stream; what it
//! decompresses to has the limit of messages.

use std::io::{Read, Write};

use api::Code;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::frames::EncodedMessage;
use crate::grpc::failure::Failure;

/// Decompresses a message of a client.
///
/// # Errors
/// When it is no gzip stream, or larger than `max_bytes`; in grpc-go's words.
pub(super) fn decompressed(message: &[u8], max_bytes: usize) -> Result<Bytes, Failure> {
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
        assert_eq!(decompressed(&small, 2_000), Ok(message.0.concat().into()));
        let failure = decompressed(&small, 1_999).expect_err("too large");
        assert_eq!(failure.code, Code::ResourceExhausted);
        assert_eq!(failure.message, "grpc: received message after decompression larger than max 1999");
        for broken in [&small[..small.len() - 1], &small[1..], b"", b"plain"] {
            assert_eq!(decompressed(broken, 2_000).map_err(|failure| failure.code), Err(Code::Internal));
        }
    }
}
