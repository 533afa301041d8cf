//! Header blocks, one after the other, as a connection's decoder reads them: a script of blocks.
//!
//! - A block that changed nothing in the table means the same when it comes again: the server remembers such blocks
//!   instead of decoding them.
//! - What was decoded, encoded by our encoders, is decoded to the same fields, block after block.
//! - A list is no longer than its block and the table allow.

use http2::{Field, FieldSink, HpackDecoder, HpackEncoder};

use crate::input::script::Script;

/// A table holds at most this, so a byte of a block brings at most this.
const MAX_TABLE_BYTES: usize = 4096;

/// Bytes of fields that are kept, and compared: a block may mean thousands of times its own.
const MAX_KEPT_BYTES: usize = 1 << 18;

/// The fields of a block, and all their bytes.
#[derive(Debug, Default, PartialEq)]
struct Fields {
    kept: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl FieldSink for Fields {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.bytes += name.len() + value.len();
        if self.bytes <= MAX_KEPT_BYTES {
            self.kept.push((name.to_vec(), value.to_vec()));
        }
    }
}

/// Our two encoders, each with the decoder of its peer.
struct Mirrors([(HpackEncoder, HpackDecoder); 2]);

/// Decodes the blocks.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut decoder = HpackDecoder::default();
    let encoders = [HpackEncoder::default(), HpackEncoder::for_requests()];
    let mut mirrors = Mirrors(encoders.map(|encoder| (encoder, HpackDecoder::default())));
    while let (Some(kind), Some(block)) = (script.byte(), script.bytes()) {
        let mut fields = Fields::default();
        let Ok(is_changed) = decoder.decode(block, &mut fields) else { return };
        assert!(fields.bytes <= block.len() * MAX_TABLE_BYTES, "{} bytes", fields.bytes);
        if !is_changed {
            let mut again = Fields::default();
            assert_eq!(decoder.decode(block, &mut again), Ok(false), "it changes nothing");
            assert_eq!(fields, again, "it means the same");
        }
        mirrors.reflect(&fields.kept, kind);
    }
}

impl Mirrors {
    /// Encodes the fields whose names are text, and decodes them; the bits of `kind` say which are usual, and whether
    /// the peer's table has another size from here on.
    fn reflect(&mut self, fields: &[(Vec<u8>, Vec<u8>)], kind: u8) {
        let is_usual = |number: usize| kind >> (number % 7) & 1 == 1;
        let named = fields.iter().filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, value)));
        let sent: Vec<Field<'_>> = named
            .enumerate()
            .map(|(number, (name, value))| Field { name, value, is_usual: is_usual(number) })
            .collect();
        for (encoder, decoder) in &mut self.0 {
            if kind & 0x80 != 0 {
                encoder.resize(u32::from(kind & 0x7f) * 64);
            }
            let mut block = Vec::new();
            encoder.encode(&sent, &mut block);
            let mut received = Fields::default();
            assert!(decoder.decode(&block, &mut received).is_ok(), "what we encode can be decoded");
            let expected = sent.iter().map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec()));
            assert_eq!(received.kept, expected.collect::<Vec<_>>());
        }
    }
}
