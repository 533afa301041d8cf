//! Payloads of entries: batches of commands, and the two bodies that are not protobuf.
//!
//! A batch may list its origins in another order than ours; encoded once, it stays as it is. The bodies have one form.

use bytes::Bytes;
use member::batch;
use member::lease::Expiry;
use member::publication::Publish;

/// Reads the bytes as each of them.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(decoded) = batch::decode(&bytes) {
        let encoded = batch::encode(decoded.clock_ms, &decoded.commands);
        assert_eq!(batch::decode(&encoded), Ok(decoded));
    }
    if let Some(expiry) = Expiry::decode(&bytes) {
        assert_eq!(expiry.encode(), data);
    }
    if let Some(publish) = Publish::decode(&bytes) {
        assert_eq!(publish.encode(), data);
    }
}
