//! The examples of RFC 7541, what is refused, generated blocks, and what our encoder says.
use proptest::prelude::*;

use super::encoder::integer;
use super::*;

/// Fields that were decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Fields {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.0.push((name.to_vec(), value.to_vec()));
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Option<Vec<(String, String)>> {
    let mut fields = Fields::default();
    decoder.decode(block, &mut fields).ok()?;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Some(fields.0.into_iter().map(|(name, value)| (text(name), text(value))).collect())
}

fn pairs(fields: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    Some(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// A string in Huffman's code, padded.
fn huffman_encoded(text: &[u8]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    for byte in text {
        let (code, length) = huffman::code(*byte);
        bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
    }
    bits.resize(bits.len().next_multiple_of(8), true);
    bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
}

#[test]
fn the_examples_of_the_standard_are_decoded() {
    // RFC 7541, C.4: three requests with Huffman's code, the later ones with fields of the earlier.
    let mut decoder = HpackDecoder::default();
    let first = hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
    let common = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    assert_eq!(decoded(&mut decoder, &first), pairs(&common));
    let second = hex("8286 84be 5886 a8eb 1064 9cbf");
    let cached = [&common[..], &[("cache-control", "no-cache")]].concat();
    assert_eq!(decoded(&mut decoder, &second), pairs(&cached));
    let third = hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let custom = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ];
    assert_eq!(decoded(&mut decoder, &third), pairs(&custom));
    // C.2.2 and C.2.3: literals that are not added.
    let path = hex("040c 2f73 616d 706c 652f 7061 7468");
    assert_eq!(decoded(&mut decoder, &path), pairs(&[(":path", "/sample/path")]));
    let secret = hex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    assert_eq!(decoded(&mut decoder, &secret), pairs(&[("password", "secret")]));
}

#[test]
fn a_block_that_changes_the_table_says_so() {
    let mut decoder = HpackDecoder::default();
    for (block, changes) in
        [("82", false), ("040161", false), ("440161", true), ("20", true), ("8284", false)]
    {
        assert_eq!(decoder.decode(&hex(block), &mut Fields::default()), Ok(changes), "{block}");
    }
}

#[test]
fn what_cannot_be_decoded_is_refused() {
    let cases = [
        ("80", "index 0"),
        ("be", "an index beyond the tables"),
        ("ff8080808001", "an index of many bytes"),
        ("ff", "an index that ends"),
        ("0f", "an index of a name that ends"),
        ("7f00", "a name beyond the tables"),
        ("4105 6162", "a string that ends"),
        ("417f ffff ff7f", "a string of 268 MB"),
        ("4181", "a Huffman string that ends"),
        ("4182 ffff", "padding of more than a byte"),
        ("4181 00", "padding of zeros"),
        ("4184 ffff fffc", "the end inside a string"),
        ("3fe2 1f", "a table of 4097 bytes"),
    ];
    for (block, why) in cases {
        assert_eq!(decoded(&mut HpackDecoder::default(), &hex(block)), None, "{why}");
    }
    let mut decoder = HpackDecoder::default();
    assert_eq!(decoded(&mut decoder, &hex("4101 61")), pairs(&[(":authority", "a")]));
    assert_eq!(decoded(&mut decoder, &hex("82 20")), None, "a table size behind a field");
}

#[test]
fn the_table_has_its_size_and_loses_the_oldest_first() {
    let mut decoder = HpackDecoder::default();
    // Entries of 32 + 1 + 31 bytes: 64 of them fill the table.
    let entry = |number: u8| [&[0x40, 1, b'a', 31][..], &[number; 31]].concat();
    for number in b'0'..b'0' + 65 {
        decoded(&mut decoder, &entry(number)).expect("good");
    }
    let newest = decoded(&mut decoder, &[0x80 | 62]).expect("there");
    assert_eq!(newest[0].1.as_bytes(), [b'0' + 64; 31]);
    let mut oldest = Vec::new();
    integer(62 + 63, 7, 0x80, &mut oldest);
    assert_eq!(decoded(&mut decoder, &oldest).expect("there")[0].1.as_bytes(), [b'1'; 31]);
    let mut gone = Vec::new();
    integer(62 + 64, 7, 0x80, &mut gone);
    assert_eq!(decoded(&mut decoder, &gone), None);
    // A larger entry than the table empties it, as does a table of no size.
    let large = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1f][..], &[b'x'; 4_096]].concat();
    decoded(&mut decoder, &large).expect("good");
    assert_eq!(decoded(&mut decoder, &[0x80 | 62]), None);
    decoded(&mut decoder, &entry(b'0')).expect("good");
    assert_eq!(decoded(&mut decoder, &[0x20, 0x80 | 62]), None);
}

#[test]
fn an_encoder_adds_usual_fields_once() {
    let field = |name, value: &'static str, is_usual| Field { name, value: value.as_bytes(), is_usual };
    let head = [field(":status", "200", false), field("content-type", "application/grpc", true)];
    let end = [field("grpc-status", "0", true)];
    let failed = [field("grpc-status", "5", false), field("grpc-message", "", false)];
    let (mut encoder, mut decoder) = (HpackEncoder::default(), HpackDecoder::default());
    let mut send = |encoder: &mut HpackEncoder, fields: &[Field<'_>]| {
        let mut block = Vec::new();
        encoder.encode(fields, &mut block);
        let expected: Vec<_> = fields.iter().map(|field| (field.name.into(), field.value.to_vec())).collect();
        let mut found = Fields::default();
        decoder.decode(&block, &mut found).expect("good");
        assert_eq!(found.0, expected);
        block.len()
    };
    let first: Vec<usize> = [&head[..], &end, &failed].map(|fields| send(&mut encoder, fields)).to_vec();
    assert!(first[0] > 10 && first[1] > 10);
    assert_eq!([&head[..], &end].map(|fields| send(&mut encoder, fields)), [2, 1]);
    encoder.resize(4_096);
    assert_eq!(send(&mut encoder, &end), 1);
    encoder.resize(1_000);
    assert_eq!(send(&mut encoder, &end), 1 + 3, "our table is smaller still; its size is announced once");
    assert_eq!(send(&mut encoder, &end), 1);
    encoder.resize(0);
    encoder.resize(4_096);
    assert!(send(&mut encoder, &head) > 10, "the table is given up");
    assert!(send(&mut encoder, &head) > 10);
}

/// The form of a literal, a name, a value.
type Literal = (u8, Vec<u8>, Vec<u8>);

/// Blocks with literals in all forms.
fn blocks() -> impl Strategy<Value = Vec<Vec<Literal>>> {
    let text = || prop::collection::vec(any::<u8>(), 0..40);
    let field = (0_u8..6, text(), text());
    prop::collection::vec(prop::collection::vec(field, 0..8), 1..6)
}

fn put_string(text: &[u8], is_huffman: bool, into: &mut Vec<u8>) {
    let encoded = if is_huffman { huffman_encoded(text) } else { text.to_vec() };
    integer(encoded.len(), 7, if is_huffman { 0x80 } else { 0 }, into);
    into.extend(encoded);
}

proptest! {
    #[test]
    fn generated_blocks_are_decoded(blocks in blocks()) {
        let mut decoder = HpackDecoder::default();
        for fields in blocks {
            let mut block = Vec::new();
            for (form, name, value) in &fields {
                block.push([0x40, 0, 0x10][usize::from(form % 3)]);
                put_string(name, *form > 2, &mut block);
                put_string(value, *form > 2, &mut block);
            }
            let mut found = Fields::default();
            prop_assert_eq!(decoder.decode(&block, &mut found), Ok(fields.iter().any(|field| field.0 % 3 == 0)));
            let expected: Vec<_> = fields.into_iter().map(|(_, name, value)| (name, value)).collect();
            prop_assert_eq!(found.0, expected);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..5)
    ) {
        let mut decoder = HpackDecoder::default();
        for block in blocks {
            let _ = decoder.decode(&block, &mut Fields::default());
        }
    }
}

#[test]
fn an_encoder_fills_little_of_the_table() {
    let (mut encoder, mut blocks) = (HpackEncoder::default(), Vec::new());
    // Of 64 bytes each, in the table.
    for name in ["one", "two", "three", "four", "five"] {
        let value = vec![b'v'; 32 - name.len()];
        let field = Field { name, value: &value, is_usual: true };
        let lengths = [(); 2].map(|()| {
            let mut block = Vec::new();
            encoder.encode(std::slice::from_ref(&field), &mut block);
            block.len()
        });
        blocks.push(lengths[1] == 1);
    }
    assert_eq!(blocks, [true, true, true, true, false], "256 bytes are full");
}
