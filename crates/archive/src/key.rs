//! The secret key of an archive, and the key of each object that is made of it.

use std::path::Path;

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::error::ArchiveError;

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Bytes of the random number that an object begins with.
pub(crate) const SALT_BYTES: usize = 32;

/// What keys of objects are derived for.
const PURPOSE: &[&[u8]] = &[b"stele archive object 1"];

/// The key with which an archive is encrypted.
#[derive(Clone)]
pub struct SecretKey([u8; KEY_BYTES]);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Reads a key from a file: 64 hexadecimal digits, and perhaps the end of the line.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<SecretKey, ArchiveError> {
        let name = path.display();
        let text = std::fs::read(path)
            .map_err(|error| ArchiveError::Wrong(format!("cannot read the key {name}: {error}")))?;
        SecretKey::parse(&text).ok_or_else(|| {
            ArchiveError::Wrong(format!(
                "{name} is no key: it must hold 64 hexadecimal digits, as `openssl rand -hex 32` prints them"
            ))
        })
    }

    fn parse(text: &[u8]) -> Option<SecretKey> {
        let digits = text.trim_ascii_end();
        let mut key = [0; KEY_BYTES];
        if digits.len() != 2 * KEY_BYTES {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(SecretKey(key))
    }

    /// The key of the object that begins with `salt`.
    pub(crate) fn of_object(&self, salt: &[u8; SALT_BYTES]) -> LessSafeKey {
        let derived = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let mut key = [0; KEY_BYTES];
        // HKDF gives up to 255 times the 32 bytes of its hash, and a cipher of 256 bits takes 32.
        let filled = derived.expand(PURPOSE, &AES_256_GCM).and_then(|okm| okm.fill(&mut key));
        filled.expect("32 bytes are within what HKDF gives");
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes fits the cipher"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_64_digits() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(SecretKey::parse(digits.as_bytes()).is_some_and(|key| key.0[..2] == [0x01, 0x23]));
        assert!(SecretKey::parse(format!("{digits}\n").as_bytes()).is_some());
        for wrong in ["", "0123", &digits.replace('0', "g"), &format!("{digits}00")] {
            assert!(SecretKey::parse(wrong.as_bytes()).is_none(), "{wrong:?}");
        }
    }
}
