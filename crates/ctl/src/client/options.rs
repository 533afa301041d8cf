//! How to reach a cluster, and as which user.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::{Endpoint, Security};

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClientOptions {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) dial_timeout: Duration,
    pub(crate) keepalive_interval: Duration,
    pub(crate) keepalive_timeout: Duration,
    /// 0 for the default.
    pub(crate) max_request_bytes: usize,
    /// 0 for no limit.
    pub(crate) max_response_bytes: usize,
    pub(crate) credentials: Option<Credentials>,
    /// For `https` endpoints, and for those without a scheme if the flags ask for it.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    pub(crate) tls_flagged: bool,
    /// The name that certificates must be good for, if it is not the endpoint's host.
    pub(crate) server_name: Option<String>,
}

impl ClientOptions {
    /// How an endpoint is reached by TLS, if it is.
    pub(super) fn tls_for(&self, endpoint: &Endpoint) -> Option<Arc<rustls::ClientConfig>> {
        let wanted = match endpoint.security {
            Security::Plain => false,
            Security::Tls => true,
            Security::AsFlagged => self.tls_flagged,
        };
        self.tls.clone().filter(|_| wanted)
    }
}

/// Who the client is.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    /// A token is asked for with them.
    Password { user: String, password: String },
    /// A token that was made elsewhere.
    Token(String),
}
