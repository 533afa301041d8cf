//! What a token says, and its compact form (RFC 7515): header, claims and signature in base64url, with dots between.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::keys::JwtKeys;
use super::signature::IssueError;

/// Numbers from here on are no revision: etcd converts them to 64 bits.
const REVISION_END: f64 = 9_223_372_036_854_775_808.0;

/// Why a token is not valid. None of the texts shows any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidToken {
    /// Not three parts of base64url, or no JSON in them.
    #[error("it is malformed")]
    Malformed,
    /// Its header names another algorithm than the flag.
    #[error("its algorithm is not that of --auth-token")]
    OtherAlgorithm,
    /// Its header demands an extension.
    #[error("it demands extensions that are not known")]
    Critical,
    /// It was signed with another key, or changed.
    #[error("its signature is wrong")]
    Signature,
    /// A claim is missing, or of another type: `username`, `revision` or `exp`.
    #[error("it has no username, revision or exp, or of a wrong type")]
    Claims,
    /// It was valid until `exp`.
    #[error("it has expired")]
    Expired,
    /// It is not valid before `nbf`.
    #[error("it is not valid yet")]
    NotYet,
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenOwner {
    /// The user; may be empty, or not exist.
    pub(crate) name: Arc<str>,
    /// The auth revision at which the token was issued.
    pub(crate) revision: u64,
}

/// The claims of a token whose signature is right.
pub(super) struct Claims {
    username: Arc<str>,
    revision: u64,
    /// Seconds since 1970.
    expires_s: f64,
    not_before_s: Option<f64>,
}

#[derive(Serialize)]
struct WrittenHeader {
    alg: &'static str,
    typ: &'static str,
}

/// In the order of their names, as Go writes them.
#[derive(Serialize)]
struct WrittenClaims<'a> {
    exp: u64,
    revision: u64,
    username: &'a str,
}

#[derive(Deserialize)]
struct ReadHeader {
    alg: String,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ReadClaims {
    username: String,
    revision: f64,
    exp: f64,
    nbf: Option<f64>,
}

/// A signed token.
///
/// # Errors
/// As [`super::JwtTokens::issue`].
pub(super) fn write(name: &str, revision: u64, expires_s: u64, keys: &JwtKeys) -> Result<String, IssueError> {
    let header = WrittenHeader { alg: keys.method().name(), typ: "JWT" };
    let claims = WrittenClaims { exp: expires_s, revision, username: name };
    let mut token = in_base64(&header)?;
    token.push('.');
    token.push_str(&in_base64(&claims)?);
    let signature = keys.sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

fn in_base64(part: &impl Serialize) -> Result<String, IssueError> {
    let json = serde_json::to_vec(part).map_err(|_| IssueError::Unavailable)?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

impl Claims {
    /// Checks a token's algorithm and signature, and reads its claims. Nothing but the algorithm's name is read before
    /// the signature is checked.
    ///
    /// # Errors
    /// Why it is not valid.
    pub(super) fn read(token: &str, keys: &JwtKeys) -> Result<Claims, InvalidToken> {
        let (signed, signature) = token.rsplit_once('.').ok_or(InvalidToken::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(InvalidToken::Malformed)?;
        let header: ReadHeader =
            serde_json::from_slice(&bytes_of(header)?).map_err(|_| InvalidToken::Malformed)?;
        if header.alg != keys.method().name() {
            return Err(InvalidToken::OtherAlgorithm);
        }
        if header.crit.is_some() {
            return Err(InvalidToken::Critical);
        }
        if !keys.verify(signed.as_bytes(), &bytes_of(signature)?) {
            return Err(InvalidToken::Signature);
        }
        let claims: ReadClaims =
            serde_json::from_slice(&bytes_of(claims)?).map_err(|_| InvalidToken::Claims)?;
        if !(0.0..REVISION_END).contains(&claims.revision) {
            return Err(InvalidToken::Claims);
        }
        Ok(Claims {
            username: claims.username.into(),
            // As in etcd, the fraction is dropped.
            revision: claims.revision as u64,
            expires_s: claims.exp,
            not_before_s: claims.nbf,
        })
    }

    /// Whose the token is at a time, in seconds since 1970.
    ///
    /// # Errors
    /// It has expired, or is not valid yet.
    pub(super) fn owner_at(&self, now_s: u64) -> Result<TokenOwner, InvalidToken> {
        let now_s = now_s as f64;
        if now_s >= self.expires_s {
            return Err(InvalidToken::Expired);
        }
        if self.not_before_s.is_some_and(|begin| now_s < begin) {
            return Err(InvalidToken::NotYet);
        }
        Ok(TokenOwner { name: self.username.clone(), revision: self.revision })
    }
}

fn bytes_of(part: &str) -> Result<Vec<u8>, InvalidToken> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken::Malformed)
}
