//! Tokens that a client shows, and the header that carries them.
//!
//! What was not signed with the secret is no token. What was signed may say anything, and then names a user and a
//! revision or is refused. A simple token has letters, a dot and a number.
//!
//! The script is a sequence: a byte for the kind, then texts.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use server::config::{JwtOptions, SignMethod};
use server::untrusted::{SignedTokens, simple_token_entry, token_of_header};

use crate::input::script::Script;

/// A text that is taken for a token of each kind, and for a header.
pub const TEXT: u8 = 0;
/// A header and claims, which are signed.
pub const SIGNED: u8 = 1;

/// What tokens are signed with.
const SECRET: &[u8] = b"the secret of the fuzz target, of 32 bytes or more";

/// Reads a script.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    while let (Some(kind), Some(first)) = (script.byte(), script.bytes()) {
        match kind {
            TEXT => check_text(first),
            SIGNED => {
                let claims = script.bytes().unwrap_or_default();
                let owner = tokens().owner(&signed(first, claims));
                assert!(owner.is_none_or(|(_, revision)| i64::try_from(revision).is_ok()));
            }
            _ => {}
        }
    }
}

fn check_text(bytes: &[u8]) {
    let token = token_of_header(bytes).expect("a header is a token, if an invalid one");
    assert!(token.len() <= bytes.len() && (token.is_empty() || bytes.ends_with(token.as_bytes())));
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(entry) = simple_token_entry(text) {
        let (_, index) = text.split_once('.').expect("a dot");
        assert_eq!(index.parse(), Ok(entry));
    }
    if tokens().owner(text).is_some() {
        let (parts, signature) = text.rsplit_once('.').expect("a signature");
        let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
        hmac::verify(&key(), parts.as_bytes(), &signature).expect("the secret's");
    }
}

/// The token with these parts and a signature that is right.
pub fn signed(header: &[u8], claims: &[u8]) -> String {
    let parts = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key(), parts.as_bytes()));
    format!("{parts}.{signature}")
}

fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, SECRET)
}

/// Reads tokens that were signed with [`SECRET`].
fn tokens() -> &'static SignedTokens {
    static TOKENS: OnceLock<SignedTokens> = OnceLock::new();
    TOKENS.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("stele-fuzz-secret-{}", std::process::id()));
        fs::write(&path, SECRET).expect("a file can be written");
        let options = JwtOptions {
            method: SignMethod::Hs256,
            public_key: None,
            private_key: Some(path.clone()),
            ttl: Duration::from_secs(60),
        };
        let tokens = SignedTokens::load(&options).expect("the secret is good");
        // The keys that were read stay in force.
        let _ = fs::remove_file(path);
        tokens
    })
}
