//! The kind of tokens that `--auth-token` asks for: `simple`, or `jwt` with options, as etcd writes them.
//!
//! ```text
//! jwt,sign-method=RS256,pub-key=/etc/jwt.pub,priv-key=/etc/jwt.key,ttl=10m
//! ```

use std::path::PathBuf;
use std::time::Duration;

use super::duration;

/// What etcd says of options that it cannot use.
const INVALID: &str = "auth: invalid auth options";

/// Time until a signed token expires, if `ttl` is not given; as in etcd.
const DEFAULT_TTL: Duration = Duration::from_secs(300);

/// Least `ttl`: a token says in whole seconds when it expires.
const MIN_TTL: Duration = Duration::from_secs(1);

/// The kind of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Random letters, known to the members.
    Simple,
    /// Signed tokens.
    Jwt(JwtOptions),
}

/// How tokens are signed, and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    /// The only algorithm that is used and accepted.
    pub method: SignMethod,
    /// The file of the public key.
    pub public_key: Option<PathBuf>,
    /// The file of the private key or, for HMAC, of the secret. Without it tokens are checked, and not signed.
    pub private_key: Option<PathBuf>,
    /// Time until a token expires, at least a second.
    pub ttl: Duration,
}

/// A signature algorithm of RFC 7518 or RFC 8037.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignMethod {
    /// RSA with PKCS #1 v1.5 padding and SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

impl SignMethod {
    /// All of them.
    pub const ALL: [SignMethod; 13] = [
        SignMethod::Rs256,
        SignMethod::Rs384,
        SignMethod::Rs512,
        SignMethod::Ps256,
        SignMethod::Ps384,
        SignMethod::Ps512,
        SignMethod::Es256,
        SignMethod::Es384,
        SignMethod::Es512,
        SignMethod::EdDsa,
        SignMethod::Hs256,
        SignMethod::Hs384,
        SignMethod::Hs512,
    ];

    /// Its name in `sign-method`, and in the field `alg` of a token's header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SignMethod::Rs256 => "RS256",
            SignMethod::Rs384 => "RS384",
            SignMethod::Rs512 => "RS512",
            SignMethod::Ps256 => "PS256",
            SignMethod::Ps384 => "PS384",
            SignMethod::Ps512 => "PS512",
            SignMethod::Es256 => "ES256",
            SignMethod::Es384 => "ES384",
            SignMethod::Es512 => "ES512",
            SignMethod::EdDsa => "EdDSA",
            SignMethod::Hs256 => "HS256",
            SignMethod::Hs384 => "HS384",
            SignMethod::Hs512 => "HS512",
        }
    }

    fn parse(name: &str) -> Option<SignMethod> {
        SignMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

impl TokenKind {
    /// Reads the value of `--auth-token`. Returns the names of unknown options too, which etcd only warns of.
    ///
    /// # Errors
    /// Another kind, an option that is no `name=value` or is there twice, a method or a time that cannot be read, no
    /// method. The text is etcd's, and the reason, which etcd has in its log.
    pub(crate) fn parse(text: &str) -> Result<(TokenKind, Vec<String>), String> {
        let invalid = |why: String| format!("{INVALID} (--auth-token: {why})");
        let mut parts = text.split(',');
        let kind = parts.next().unwrap_or_default();
        let mut options: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let option = part.split_once('=').filter(|(_, value)| !value.contains('='));
            let (name, value) = option.ok_or_else(|| invalid(format!("{part:?} is no option name=value")))?;
            if options.iter().any(|(other, _)| *other == name) {
                return Err(invalid(format!("{name} is given twice")));
            }
            options.push((name, value));
        }
        match kind {
            "simple" => Ok((TokenKind::Simple, Vec::new())),
            "jwt" => {
                let jwt = JwtOptions::of(&options).map_err(invalid)?;
                let unknown =
                    options.iter().map(|(name, _)| *name).filter(|name| !JWT_OPTIONS.contains(name));
                Ok((TokenKind::Jwt(jwt), unknown.map(str::to_owned).collect()))
            }
            other => Err(invalid(format!("unknown kind of tokens {other:?}, known are simple and jwt"))),
        }
    }
}

const JWT_OPTIONS: [&str; 4] = ["sign-method", "pub-key", "priv-key", "ttl"];

impl JwtOptions {
    fn of(options: &[(&str, &str)]) -> Result<JwtOptions, String> {
        let value = |name| {
            let found = options.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        let ttl =
            value("ttl").map_or(Ok(DEFAULT_TTL), duration::parse).map_err(|why| format!("ttl: {why}"))?;
        if ttl < MIN_TTL {
            return Err(format!("ttl must be at least {MIN_TTL:?}"));
        }
        let name = value("sign-method").unwrap_or_default();
        let method = SignMethod::parse(name).ok_or_else(|| {
            let known = SignMethod::ALL.map(SignMethod::name).join(", ");
            format!("unknown sign-method {name:?}, known are {known}")
        })?;
        let file = |name| value(name).map(PathBuf::from);
        Ok(JwtOptions { method, public_key: file("pub-key"), private_key: file("priv-key"), ttl })
    }
}
