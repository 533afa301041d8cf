//! Keys from their files, as etcd reads them: the first section of PEM, whatever its label, in each form that Go reads.
//!
//! | method | private key | public key |
//! |---|---|---|
//! | RS, PS | PKCS #1 or PKCS #8 | SubjectPublicKeyInfo, a certificate, or PKCS #1 |
//! | ES | SEC 1 or PKCS #8 | SubjectPublicKeyInfo or a certificate |
//! | EdDSA | PKCS #8 | SubjectPublicKeyInfo |
//! | HS | the bytes of the file | none |

use std::path::{Path, PathBuf};

use p521::pkcs8::PrivateKeyInfo;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    self as algorithms, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair, UnparsedPublicKey,
};
use sec1::EcPrivateKey;
use sha2::{Digest as _, Sha256};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::signature::{EcCurve, IssueError, KeyFamily, P521, TokenSigner, TokenVerifier};
use crate::config::{JwtOptions, SignMethod};

/// Bits of the modulus of an RSA key that checks: what ring supports.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// The algorithm Ed25519 of a public key, in ASN.1.
const ED25519_OID: &str = "1.3.101.112";

/// Largest file of a key.
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;

/// Why keys cannot be used. Where etcd has a text, that is it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JwtKeyError {
    /// A file cannot be read.
    #[error("auth: invalid auth options (--auth-token: {}: {problem})", path.display())]
    Unreadable { path: PathBuf, problem: String },
    /// There is neither a public nor a private key; with HMAC, no private one.
    #[error("auth: missing key data")]
    Missing,
    /// Both are there, and are no pair.
    #[error("auth: public and private keys don't match")]
    Mismatch,
    /// A file is not what the method needs.
    #[error("{} (--auth-token: {option}): {problem}", path.display())]
    Unfit { path: PathBuf, option: &'static str, problem: String },
}

/// The keys of one method.
pub(super) struct JwtKeys {
    method: SignMethod,
    /// Of what the files hold.
    digest: [u8; 32],
    signer: Option<TokenSigner>,
    verifier: TokenVerifier,
}

/// A key that signs, and the public half in the form of [`TokenVerifier`].
type KeyPairParts = (TokenSigner, Vec<u8>);

impl JwtKeys {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`super::JwtTokens::load`].
    pub(super) fn load(options: &JwtOptions) -> Result<JwtKeys, JwtKeyError> {
        // As in etcd, an empty file is like none, and HMAC's public key is read, too.
        let public = read(options.public_key.as_deref())?;
        let private = read(options.private_key.as_deref())?;
        JwtKeys::of_files(options.method, public, private)
    }

    /// The keys of a method in these files.
    ///
    /// # Errors
    /// As [`JwtKeys::load`].
    pub(super) fn of_files(
        method: SignMethod,
        public: Option<KeyFile>,
        private: Option<KeyFile>,
    ) -> Result<JwtKeys, JwtKeyError> {
        let digest = digest_of(&[&public, &private]);
        let family = KeyFamily::of(method);
        if let KeyFamily::Hmac(algorithm) = family {
            let (_, secret) = private.ok_or(JwtKeyError::Missing)?;
            let key = hmac::Key::new(algorithm, &secret);
            let signer = Some(TokenSigner::Hmac(key.clone()));
            return Ok(JwtKeys { method, digest, signer, verifier: TokenVerifier::Hmac(key) });
        }
        let public = parsed(public, "pub-key", |der| public_key(&family, der))?;
        let private = parsed(private, "priv-key", |der| private_key(&family, der))?;
        let (signer, public) = match (private, public) {
            (None, None) => return Err(JwtKeyError::Missing),
            (Some((_, own)), Some(given)) if own != given => return Err(JwtKeyError::Mismatch),
            (Some((signer, own)), _) => (Some(signer), own),
            (None, Some(given)) => (None, given),
        };
        Ok(JwtKeys { method, digest, signer, verifier: verifier(&family, public)? })
    }

    /// The method of the flag.
    pub(super) fn method(&self) -> SignMethod {
        self.method
    }

    /// Whether these were read from files with the same bytes.
    pub(super) fn same_files_as(&self, other: &JwtKeys) -> bool {
        self.digest == other.digest
    }

    /// Whether to check a signature takes no longer than other work of a call.
    pub(super) fn verifies_fast(&self) -> bool {
        matches!(self.verifier, TokenVerifier::Hmac(_))
    }

    /// Whether there is a private key.
    pub(super) fn can_sign(&self) -> bool {
        self.signer.is_some()
    }

    /// A signature.
    ///
    /// # Errors
    /// As [`super::JwtTokens::issue`].
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IssueError> {
        self.signer.as_ref().ok_or(IssueError::VerifyOnly)?.sign(message)
    }

    /// Whether a signature is right.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verifier.verify(message, signature)
    }
}

/// A file and what it holds.
pub(super) type KeyFile = (PathBuf, Vec<u8>);

/// The SHA-256 of the files, and of which there are.
fn digest_of(files: &[&Option<KeyFile>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for file in files {
        let bytes = file.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
    digest.finalize().into()
}

/// What a file holds; `None` if there is none, or it is empty.
fn read(path: Option<&Path>) -> Result<Option<KeyFile>, JwtKeyError> {
    use std::io::Read as _;
    let Some(path) = path else { return Ok(None) };
    let unreadable = |problem: String| JwtKeyError::Unreadable { path: path.to_owned(), problem };
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_KEY_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_KEY_FILE_BYTES {
        return Err(unreadable(format!("it has more than {MAX_KEY_FILE_BYTES} bytes")));
    }
    Ok(Some((path.to_owned(), bytes)).filter(|(_, bytes)| !bytes.is_empty()))
}

fn parsed<K>(
    file: Option<KeyFile>,
    option: &'static str,
    parse: impl Fn(&[u8]) -> Result<K, String>,
) -> Result<Option<K>, JwtKeyError> {
    let Some((path, bytes)) = file else { return Ok(None) };
    let key = match parse_x509_pem(&bytes) {
        Ok((_, pem)) => parse(&pem.contents),
        Err(_) => Err("it holds no PEM".to_owned()),
    };
    key.map(Some).map_err(|problem| JwtKeyError::Unfit { path, option, problem })
}

fn private_key(family: &KeyFamily, der: &[u8]) -> Result<KeyPairParts, String> {
    match family {
        KeyFamily::Rsa(encoding, _) => {
            let key = RsaKeyPair::from_der(der).or_else(|_| RsaKeyPair::from_pkcs8(der));
            let key = key.map_err(|why| format!("no RSA key of 2048 to 4096 bits that can sign: {why}"))?;
            let public = key.public().as_ref().to_vec();
            Ok((TokenSigner::Rsa(Box::new(key), *encoding), public))
        }
        KeyFamily::Ecdsa(curve, algorithm, _) => {
            let (secret, public) = ec_private_key(*curve, der)?;
            let public = public.ok_or("it lacks its public half: write it with `openssl ec`")?;
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &secret, &public, &random);
            let key = key.map_err(|why| format!("no key of {}: {why}", curve.name))?;
            Ok((TokenSigner::Ecdsa(Box::new(key)), public))
        }
        KeyFamily::P521 => {
            let (secret, _) = ec_private_key(P521, der)?;
            let key = p521::ecdsa::SigningKey::from_slice(&secret).map_err(|_| "no key of P-521")?;
            let public = p521::ecdsa::VerifyingKey::from(&key).to_encoded_point(false).as_bytes().to_vec();
            Ok((TokenSigner::P521(Box::new(key)), public))
        }
        KeyFamily::Ed25519 => {
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
            let key = key.map_err(|why| format!("no private key of Ed25519 in PKCS #8: {why}"))?;
            let public = key.public_key().as_ref().to_vec();
            Ok((TokenSigner::Ed25519(Box::new(key)), public))
        }
        KeyFamily::Hmac(_) => Err("HMAC has no key in PEM".to_owned()),
    }
}

/// The secret of a key, and its point if that is there.
fn ec_private_key(curve: EcCurve, der: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), String> {
    let outer = PrivateKeyInfo::try_from(der).ok();
    let inner = outer.as_ref().map_or(der, |outer| outer.private_key);
    let key = EcPrivateKey::try_from(inner).map_err(|why| format!("no private key of ECDSA: {why}"))?;
    let outer_curve = outer.as_ref().and_then(|outer| outer.algorithm.parameters_oid().ok());
    let inner_curve = key.parameters.and_then(|parameters| parameters.named_curve());
    let named = outer_curve.or(inner_curve).ok_or("it names no curve")?;
    if named.to_string() != curve.oid {
        return Err(format!("the method needs a key of {}", curve.name));
    }
    Ok((key.private_key.to_vec(), key.public_key.map(<[u8]>::to_vec)))
}

fn public_key(family: &KeyFamily, der: &[u8]) -> Result<Vec<u8>, String> {
    if let Ok((_, info)) = SubjectPublicKeyInfo::from_der(der) {
        return public_key_of(family, &info);
    }
    if let Ok((_, certificate)) = X509Certificate::from_der(der) {
        return public_key_of(family, certificate.public_key());
    }
    match (family, RSAPublicKey::from_der(der)) {
        (KeyFamily::Rsa(..), Ok((_, key))) => rsa_public_key(&key, der),
        _ => Err("no public key".to_owned()),
    }
}

fn public_key_of(family: &KeyFamily, info: &SubjectPublicKeyInfo<'_>) -> Result<Vec<u8>, String> {
    let bytes = info.subject_public_key.data.as_ref();
    match family {
        KeyFamily::Rsa(..) => match info.parsed() {
            Ok(PublicKey::RSA(key)) => rsa_public_key(&key, bytes),
            _ => Err("the method needs a public key of RSA".to_owned()),
        },
        KeyFamily::Ecdsa(curve, ..) => ec_public_key(*curve, info),
        KeyFamily::P521 => ec_public_key(P521, info),
        KeyFamily::Ed25519 => {
            let is_ed25519 = info.algorithm.algorithm.to_id_string() == ED25519_OID;
            let key = is_ed25519.then(|| bytes.to_vec());
            key.ok_or_else(|| "the method needs a public key of Ed25519".to_owned())
        }
        KeyFamily::Hmac(_) => Err("HMAC has no public key".to_owned()),
    }
}

fn rsa_public_key(key: &RSAPublicKey<'_>, der: &[u8]) -> Result<Vec<u8>, String> {
    if RSA_BITS.contains(&key.key_size()) {
        return Ok(der.to_vec());
    }
    Err(format!("RSA keys need 2048 to 8192 bits, this has {}", key.key_size()))
}

fn ec_public_key(curve: EcCurve, info: &SubjectPublicKeyInfo<'_>) -> Result<Vec<u8>, String> {
    let named = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    let point = info.subject_public_key.data.as_ref();
    if named.is_none_or(|named| named.to_id_string() != curve.oid) || point.len() != curve.point_bytes {
        return Err(format!("the method needs a public key of {}, not compressed", curve.name));
    }
    Ok(point.to_vec())
}

fn verifier(family: &KeyFamily, public: Vec<u8>) -> Result<TokenVerifier, JwtKeyError> {
    Ok(match family {
        KeyFamily::Rsa(_, algorithm) | KeyFamily::Ecdsa(_, _, algorithm) => {
            TokenVerifier::Ring(UnparsedPublicKey::new(*algorithm, public))
        }
        KeyFamily::Ed25519 => TokenVerifier::Ring(UnparsedPublicKey::new(&algorithms::ED25519, public)),
        KeyFamily::P521 => {
            let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(&public);
            TokenVerifier::P521(Box::new(key.map_err(|_| JwtKeyError::Missing)?))
        }
        KeyFamily::Hmac(algorithm) => TokenVerifier::Hmac(hmac::Key::new(*algorithm, &public)),
    })
}
