//! Signing and checking with one algorithm. All are ring's but ECDSA on P-521, which ring does not have.

use p521::ecdsa::signature::{Signer as _, Verifier as _};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    self as algorithms, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RsaEncoding, RsaKeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};

use crate::config::SignMethod;

/// Why no token is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IssueError {
    /// There is no private key. etcd's text.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
    /// The system has no randomness.
    #[error("the token could not be signed")]
    Unavailable,
}

/// The kind of key that a method needs.
pub(super) enum KeyFamily {
    Rsa(&'static dyn RsaEncoding, &'static dyn VerificationAlgorithm),
    /// P-256 or P-384.
    Ecdsa(EcCurve, &'static EcdsaSigningAlgorithm, &'static dyn VerificationAlgorithm),
    P521,
    Ed25519,
    Hmac(hmac::Algorithm),
}

/// A curve of ECDSA, by the names of ASN.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EcCurve {
    pub(super) oid: &'static str,
    pub(super) name: &'static str,
    /// Bytes of a point that is not compressed.
    pub(super) point_bytes: usize,
}

pub(super) const P256: EcCurve = EcCurve { oid: "1.2.840.10045.3.1.7", name: "P-256", point_bytes: 65 };
pub(super) const P384: EcCurve = EcCurve { oid: "1.3.132.0.34", name: "P-384", point_bytes: 97 };
pub(super) const P521: EcCurve = EcCurve { oid: "1.3.132.0.35", name: "P-521", point_bytes: 133 };

impl KeyFamily {
    pub(super) fn of(method: SignMethod) -> KeyFamily {
        match method {
            SignMethod::Rs256 => {
                KeyFamily::Rsa(&algorithms::RSA_PKCS1_SHA256, &algorithms::RSA_PKCS1_2048_8192_SHA256)
            }
            SignMethod::Rs384 => {
                KeyFamily::Rsa(&algorithms::RSA_PKCS1_SHA384, &algorithms::RSA_PKCS1_2048_8192_SHA384)
            }
            SignMethod::Rs512 => {
                KeyFamily::Rsa(&algorithms::RSA_PKCS1_SHA512, &algorithms::RSA_PKCS1_2048_8192_SHA512)
            }
            SignMethod::Ps256 => {
                KeyFamily::Rsa(&algorithms::RSA_PSS_SHA256, &algorithms::RSA_PSS_2048_8192_SHA256)
            }
            SignMethod::Ps384 => {
                KeyFamily::Rsa(&algorithms::RSA_PSS_SHA384, &algorithms::RSA_PSS_2048_8192_SHA384)
            }
            SignMethod::Ps512 => {
                KeyFamily::Rsa(&algorithms::RSA_PSS_SHA512, &algorithms::RSA_PSS_2048_8192_SHA512)
            }
            SignMethod::Es256 => KeyFamily::Ecdsa(
                P256,
                &algorithms::ECDSA_P256_SHA256_FIXED_SIGNING,
                &algorithms::ECDSA_P256_SHA256_FIXED,
            ),
            SignMethod::Es384 => KeyFamily::Ecdsa(
                P384,
                &algorithms::ECDSA_P384_SHA384_FIXED_SIGNING,
                &algorithms::ECDSA_P384_SHA384_FIXED,
            ),
            SignMethod::Es512 => KeyFamily::P521,
            SignMethod::EdDsa => KeyFamily::Ed25519,
            SignMethod::Hs256 => KeyFamily::Hmac(hmac::HMAC_SHA256),
            SignMethod::Hs384 => KeyFamily::Hmac(hmac::HMAC_SHA384),
            SignMethod::Hs512 => KeyFamily::Hmac(hmac::HMAC_SHA512),
        }
    }
}

/// What signs. Boxed where it is large.
pub(super) enum TokenSigner {
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
    Ecdsa(Box<EcdsaKeyPair>),
    P521(Box<p521::ecdsa::SigningKey>),
    Ed25519(Box<Ed25519KeyPair>),
    Hmac(hmac::Key),
}

impl TokenSigner {
    /// # Errors
    /// The system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IssueError> {
        let random = SystemRandom::new();
        let unavailable = |_| IssueError::Unavailable;
        match self {
            TokenSigner::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).map_err(unavailable)?;
                Ok(signature)
            }
            TokenSigner::Ecdsa(key) => {
                key.sign(&random, message).map(|signature| signature.as_ref().to_vec()).map_err(unavailable)
            }
            TokenSigner::P521(key) => {
                // The crate panics where there is no randomness. The system does not lose it once it had some.
                random.fill(&mut [0]).map_err(unavailable)?;
                let signature: p521::ecdsa::Signature =
                    key.try_sign(message).map_err(|_| IssueError::Unavailable)?;
                Ok(signature.to_bytes().to_vec())
            }
            TokenSigner::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            TokenSigner::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
        }
    }
}

/// What checks signatures.
pub(super) enum TokenVerifier {
    /// Of RSA: the DER of PKCS #1; of P-256 and P-384: the point, not compressed; of Ed25519: its 32 bytes.
    Ring(UnparsedPublicKey<Vec<u8>>),
    P521(Box<p521::ecdsa::VerifyingKey>),
    Hmac(hmac::Key),
}

impl TokenVerifier {
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            TokenVerifier::Ring(key) => key.verify(message, signature).is_ok(),
            TokenVerifier::P521(key) => p521::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            TokenVerifier::Hmac(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }
}
