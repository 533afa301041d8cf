//! What a call says about its caller: a token, or the common name of a client certificate.

use std::sync::Arc;

use member::MAX_NAME_BYTES;

use super::sources::Source;

/// Metadata keys of credentials: those of a token, the one of gRPC clients before that of HTTP, and one that requests
/// of etcd's JSON gateway have.
pub(crate) const CREDENTIAL_KEYS: [&str; 3] = ["token", "authorization", "grpcgateway-accept"];

/// What HTTP clients put before a token.
const BEARER: &[u8] = b"Bearer ";

/// What a call said about its caller.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Its token, as the client sent it; bytes that are no text are no token of ours.
    token: Option<Arc<str>>,
    /// The user that the client's certificate names.
    certificate: Option<Arc<str>>,
    /// Where the client comes from: what is computed for its token is bounded by that.
    source: Source,
}

impl std::fmt::Debug for Credentials {
    /// Without the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_token = self.token.is_some();
        write!(out, "Credentials {{ has_token: {has_token}, certificate: {:?} }}", self.certificate)
    }
}

impl Credentials {
    /// Those of a call whose metadata has these values of [`CREDENTIAL_KEYS`]. `common_name` is that of the verified
    /// certificate of its connection, if `--client-cert-auth` demands one.
    pub(crate) fn of_call(
        [token, authorization, gateway]: [Option<&[u8]>; 3],
        common_name: Option<&Arc<str>>,
        source: Source,
    ) -> Credentials {
        let certificate = user_of_certificate(common_name, gateway.is_some());
        Credentials { token: token.or(authorization).map(token_in), certificate, source }
    }

    /// Those of a member's request to promote a learner, over HTTP with this `Authorization`. All such requests are of
    /// one source.
    pub(crate) fn of_header(authorization: Option<&[u8]>) -> Credentials {
        Credentials { token: authorization.map(token_in), ..Credentials::default() }
    }

    /// Those of a user that is known already, whatever becomes of the token that named it.
    pub(crate) fn of_user(name: Arc<str>) -> Credentials {
        Credentials { certificate: Some(name), ..Credentials::default() }
    }

    /// The token.
    pub(crate) fn token(&self) -> Option<&Arc<str>> {
        self.token.as_ref()
    }

    /// Where the client comes from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// The user that a certificate names.
    pub(crate) fn certificate(&self) -> Option<&Arc<str>> {
        self.certificate.as_ref()
    }
}

/// The token in the value of a metadata key. What is no text stays an invalid token: it must not count as none.
fn token_in(value: &[u8]) -> Arc<str> {
    let token = value.strip_prefix(BEARER).unwrap_or(value);
    str::from_utf8(token).unwrap_or_default().into()
}

/// The user that a client certificate names, by etcd's rule: its common name, unless the JSON gateway forwards the
/// request. The gateway's certificate is the server's own, and says nothing about the gateway's client. A name that is
/// longer than any user's names none.
fn user_of_certificate(common_name: Option<&Arc<str>>, is_from_gateway: bool) -> Option<Arc<str>> {
    common_name.filter(|name| !is_from_gateway && name.len() <= MAX_NAME_BYTES).cloned()
}

#[cfg(test)]
mod tests {
    //! Where tokens and names are found.
    use super::*;

    #[test]
    fn a_bearer_token_is_the_token() {
        for value in [&b"Bearer abc.7"[..], b"abc.7"] {
            assert_eq!(Credentials::of_header(Some(value)).token().map(|token| &**token), Some("abc.7"));
        }
        let invalid = Credentials::of_header(Some(b"\xff"));
        assert_eq!(invalid.token().map(|token| &**token), Some(""), "an invalid one, not none");
        assert_eq!(Credentials::of_header(None).token(), None);
    }

    #[test]
    fn the_gateways_own_certificate_names_no_user() {
        let name: Arc<str> = "ann".into();
        assert_eq!(user_of_certificate(Some(&name), false), Some(name.clone()));
        assert_eq!(user_of_certificate(Some(&name), true), None);
        assert_eq!(user_of_certificate(None, false), None);
        let longest: Arc<str> = "n".repeat(MAX_NAME_BYTES).into();
        assert_eq!(user_of_certificate(Some(&longest), false), Some(longest.clone()));
        assert_eq!(user_of_certificate(Some(&format!("{longest}n").into()), false), None);
    }

    #[test]
    fn tokens_are_not_shown() {
        let shown = format!("{:?}", Credentials::of_header(Some(b"secret.1")));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
