//! The bytes of an object: a header, then frames.
//!
//! ```text
//! header   "STELEBAK" | version u8 | kind u8 | cipher u8 | 5 zeros | salt, 32 bytes        48 bytes
//! frame 0  length u32 | checksum u32 | a BackupPoint: whose object it is, and of which entry
//! frame 1  length u32 | checksum u32 | the first 1 MiB of the content
//! ...      the last frame has less than 1 MiB, perhaps nothing, and the highest bit of its length is set
//! ```
//!
//! Numbers are little-endian. The checksum is the CRC-32C of `number of the frame u64 | length u32 | body`, so frames
//! that are damaged, left out or in another order are noticed, and an object that is cut off lacks its last frame. With
//! a key, each body is encrypted by AES-256-GCM and 16 bytes longer; the nonce is the number of the frame, the
//! additional data is `header | length`, and the key is derived from the secret key and the salt, so it is that of one
//! object. All frames but the first and the last have the same length, so any part of the content is found at once.

use std::borrow::Cow;

use api::stelepb::BackupPoint;
use prost::Message;
use ring::aead::{Aad, LessSafeKey, Nonce};

use crate::key::{SALT_BYTES, SecretKey};

/// What an object begins with.
const MAGIC: &[u8; 8] = b"STELEBAK";

/// The version of this format.
const VERSION: u8 = 1;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 48;

/// Bytes of content in each frame but the last.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// Bytes before the body of a frame.
pub(crate) const PREFIX_BYTES: usize = 8;

/// Bytes that encryption adds to a body.
const TAG_BYTES: usize = 16;

/// Bytes of the point in frame 0 at most: what its fields take, and as much again.
pub(crate) const MAX_POINT_BYTES: usize = 256;

/// The bit of a length that says that the frame is the last.
const LAST: u32 = 1 << 31;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// Whose archive it is.
    Owner = b'o' as isize,
    /// The state after an entry.
    Base = b'b' as isize,
    /// Entries.
    Log = b'l' as isize,
    /// Until when there were no more entries.
    Progress = b'p' as isize,
}

/// Makes the frames of an object, in order.
pub(crate) struct Sealer {
    cipher: FrameCipher,
    number: u64,
}

/// Opens frames.
pub(crate) struct Opener {
    cipher: FrameCipher,
}

struct FrameCipher {
    header: [u8; HEADER_BYTES],
    key: Option<LessSafeKey>,
}

impl Sealer {
    /// The sealer of a new object, and the bytes that it begins with.
    ///
    /// # Errors
    /// The system gives no random number.
    pub(crate) fn begin(
        kind: ObjectKind,
        point: &BackupPoint,
        secret: Option<&SecretKey>,
    ) -> Result<(Sealer, Vec<u8>), String> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        (header[8], header[9], header[10]) = (VERSION, kind as u8, u8::from(secret.is_some()));
        let mut salt = [0; SALT_BYTES];
        if secret.is_some() {
            getrandom::fill(&mut salt)
                .map_err(|error| format!("the system gives no random number: {error}"))?;
            header[HEADER_BYTES - SALT_BYTES..].copy_from_slice(&salt);
        }
        let key = secret.map(|secret| secret.of_object(&salt));
        let mut sealer = Sealer { cipher: FrameCipher { header, key }, number: 0 };
        let mut bytes = header.to_vec();
        sealer.frame(&point.encode_to_vec(), false, &mut bytes);
        Ok((sealer, bytes))
    }

    /// Adds a frame to `out`.
    pub(crate) fn frame(&mut self, body: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let sealed = self.cipher.sealed_bytes(body.len());
        let length = sealed as u32 | if is_last { LAST } else { 0 };
        let mut sealed = body.to_vec();
        if let Some(key) = &self.cipher.key {
            let (nonce, aad) = self.cipher.context(self.number, length);
            // It fails for bodies of 64 GiB and more.
            key.seal_in_place_append_tag(nonce, aad, &mut sealed).expect("a frame is short");
        }
        out.extend(length.to_le_bytes());
        out.extend(checksum(self.number, length, &sealed).to_le_bytes());
        out.extend(sealed);
        self.number += 1;
    }

    /// Adds all frames of a content, and the end.
    pub(crate) fn frames(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let mut rest = content;
        while rest.len() >= CHUNK_BYTES {
            let (chunk, behind) = rest.split_at(CHUNK_BYTES);
            self.frame(chunk, false, out);
            rest = behind;
        }
        self.frame(rest, true, out);
    }
}

impl Opener {
    /// Reads the header and frame 0 of an object. Returns also where frame 1 begins.
    ///
    /// # Errors
    /// What is wrong with them, or with the key.
    pub(crate) fn begin(
        kind: ObjectKind,
        bytes: &[u8],
        secret: Option<&SecretKey>,
    ) -> Result<(Opener, BackupPoint, usize), String> {
        let header: [u8; HEADER_BYTES] =
            bytes.first_chunk().copied().ok_or("it is shorter than the header of an object")?;
        if &header[..8] != MAGIC {
            return Err("it is no object of an archive".to_owned());
        }
        if header[8] != VERSION {
            return Err(format!("its format has version {}, known here is {VERSION}", header[8]));
        }
        if header[9] != kind as u8 {
            return Err(format!("it is an object of another kind ({:?})", char::from(header[9])));
        }
        let unused = if header[10] == 0 { &header[11..] } else { &header[11..HEADER_BYTES - SALT_BYTES] };
        if unused.iter().any(|byte| *byte != 0) {
            return Err("it has unknown bytes in the header".to_owned());
        }
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&header[HEADER_BYTES - SALT_BYTES..]);
        let key = match (header[10], secret) {
            (0, None) => None,
            (1, Some(secret)) => Some(secret.of_object(&salt)),
            (0, Some(_)) => return Err("it is not encrypted, but a key is given".to_owned()),
            (1, None) => return Err("it is encrypted: a key is needed".to_owned()),
            (other, _) => return Err(format!("it is encrypted in a way ({other}) that is not known here")),
        };
        let opener = Opener { cipher: FrameCipher { header, key } };
        let mut at = HEADER_BYTES;
        let (point, is_last) = opener.next(0, bytes, &mut at)?;
        if is_last || point.len() > MAX_POINT_BYTES {
            return Err("it does not begin with its entry".to_owned());
        }
        let point = BackupPoint::decode(&point[..]).map_err(|error| format!("its entry: {error}"))?;
        Ok((opener, point, at))
    }

    /// Bytes of each frame but the first and the last.
    pub(crate) fn frame_bytes(&self) -> u64 {
        (PREFIX_BYTES + self.cipher.sealed_bytes(CHUNK_BYTES)) as u64
    }

    /// Bytes of content in the frames of an object with so many bytes behind frame 0, if all are as long as they
    /// should be.
    pub(crate) fn content_bytes(&self, frames: u64) -> Option<u64> {
        let (whole, rest) = (frames / self.frame_bytes(), frames % self.frame_bytes());
        let overhead = (self.frame_bytes() as usize - CHUNK_BYTES) as u64;
        Some(whole * CHUNK_BYTES as u64 + rest.checked_sub(overhead)?)
    }

    /// Opens the frame at `at`, and moves it behind.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn next<'a>(
        &self,
        number: u64,
        bytes: &'a [u8],
        at: &mut usize,
    ) -> Result<(Cow<'a, [u8]>, bool), String> {
        let cut_off = || format!("it is cut off in frame {number}");
        let rest = bytes.get(*at..).ok_or_else(cut_off)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let (expected, rest) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let length = u32::from_le_bytes(*length);
        let sealed = rest.get(..(length & !LAST) as usize).ok_or_else(cut_off)?;
        if checksum(number, length, sealed) != u32::from_le_bytes(*expected) {
            return Err(format!("the checksum of frame {number} is that of other bytes"));
        }
        *at += PREFIX_BYTES + sealed.len();
        let mut body = Cow::Borrowed(sealed);
        if let Some(key) = &self.cipher.key {
            let (nonce, aad) = self.cipher.context(number, length);
            let body = body.to_mut();
            let opened = key.open_in_place(nonce, aad, body);
            let opened = opened.map_err(|_| "it was encrypted with another key".to_owned())?.len();
            body.truncate(opened);
        }
        let is_last = length & LAST != 0;
        let fits = if is_last { body.len() < CHUNK_BYTES } else { number == 0 || body.len() == CHUNK_BYTES };
        if fits { Ok((body, is_last)) } else { Err(format!("frame {number} has an invalid length")) }
    }

    /// Opens all frames behind frame 0.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn content(&self, bytes: &[u8], mut at: usize) -> Result<Vec<u8>, String> {
        let mut content = Vec::with_capacity(bytes.len());
        for number in 1.. {
            let (body, is_last) = self.next(number, bytes, &mut at)?;
            content.extend_from_slice(&body);
            if is_last {
                break;
            }
        }
        if at == bytes.len() { Ok(content) } else { Err("something follows its end".to_owned()) }
    }
}

impl FrameCipher {
    fn sealed_bytes(&self, body: usize) -> usize {
        body + if self.key.is_some() { TAG_BYTES } else { 0 }
    }

    fn context(&self, number: u64, length: u32) -> (Nonce, Aad<Vec<u8>>) {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let mut additional = self.header.to_vec();
        additional.extend(length.to_le_bytes());
        (Nonce::assume_unique_for_key(nonce), Aad::from(additional))
    }
}

fn checksum(number: u64, length: u32, sealed: &[u8]) -> u32 {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(length.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&bytes), sealed)
}

#[cfg(test)]
mod tests {
    //! What is sealed is opened; nothing else is.
    use super::*;

    fn sealed(secret: Option<&SecretKey>, content: &[u8]) -> Vec<u8> {
        let point = BackupPoint { cluster_id: 7, index: 900, ..BackupPoint::default() };
        let (mut sealer, mut bytes) =
            Sealer::begin(ObjectKind::Log, &point, secret).expect("there is entropy");
        sealer.frames(content, &mut bytes);
        bytes
    }

    fn opened(secret: Option<&SecretKey>, bytes: &[u8]) -> Result<(BackupPoint, Vec<u8>), String> {
        let (opener, point, at) = Opener::begin(ObjectKind::Log, bytes, secret)?;
        let content = opener.content(bytes, at)?;
        assert_eq!(opener.content_bytes((bytes.len() - at) as u64), Some(content.len() as u64));
        Ok((point, content))
    }

    fn key(text: &str) -> SecretKey {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        std::fs::write(&path, text.repeat(64)).expect("it is written");
        SecretKey::read(&path).expect("it is a key")
    }

    #[test]
    fn what_is_sealed_is_opened() {
        for secret in [None, Some(key("a"))] {
            for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 5] {
                let content: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
                let bytes = sealed(secret.as_ref(), &content);
                let (point, found) = opened(secret.as_ref(), &bytes).expect("it is whole");
                assert!(point.index == 900 && found == content, "{length} bytes");
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        for secret in [None, Some(key("b"))] {
            let bytes = sealed(secret.as_ref(), b"some entries");
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                assert!(opened(secret.as_ref(), &damaged).is_err(), "byte {at}");
                assert!(opened(secret.as_ref(), &bytes[..at]).is_err(), "cut at {at}");
            }
            assert!(opened(secret.as_ref(), &[&bytes[..], b"x"].concat()).is_err());
        }
    }

    #[test]
    fn a_key_opens_its_own_objects_alone() {
        let (one, other) = (key("c"), key("d"));
        let (plain, closed) = (sealed(None, b"x"), sealed(Some(&one), b"a secret"));
        assert!(opened(Some(&other), &closed).is_err_and(|why| why.contains("another key")));
        assert!(opened(None, &closed).is_err_and(|why| why.contains("a key is needed")));
        assert!(opened(Some(&one), &plain).is_err_and(|why| why.contains("not encrypted")));
        assert!(!closed.windows(6).any(|bytes| bytes == b"secret"));
        assert_ne!(closed, sealed(Some(&one), b"a secret"), "each object has a key of its own");
    }
}
