//! Peer URLs: `http://host:port`, where host is a name, an IPv4 address or an IPv6 address in brackets.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerUrl {
    host: String,
    port: u16,
}

impl PeerUrl {
    pub(crate) fn parse(url: &str) -> Result<PeerUrl, UrlError> {
        let bad = |problem| UrlError { url: url.to_owned(), problem };
        let uri: http::Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(bad("peer streams over TLS are not available yet")),
            _ => return Err(bad("the scheme is not http")),
        }
        if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(bad("it has a path or a query"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("it has a user"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("the host is missing"))?;
        let port = uri.port_u16().filter(|port| *port != 0).ok_or_else(|| bad("the port is missing"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(PeerUrl { host: host.to_owned(), port })
    }

    /// All addresses of the host. Blocks on the resolver when the host is a name.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for PeerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What is wrong with a peer URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("peer URL {url:?}: {problem}; expected http://host:port")]
pub struct UrlError {
    /// As given.
    pub url: String,
    /// What was found.
    pub problem: &'static str,
}

#[cfg(test)]
mod tests {
    use super::PeerUrl;

    #[test]
    fn what_can_be_dialled_is_taken_apart() {
        for (url, host, port) in [
            ("http://10.0.0.1:2380", "10.0.0.1", 2380),
            ("http://10.0.0.1:2380/", "10.0.0.1", 2380),
            ("http://[::1]:7", "::1", 7),
            ("http://infra-0.example:2380", "infra-0.example", 2380),
        ] {
            let parsed = PeerUrl::parse(url).unwrap();
            assert_eq!((parsed.host.as_str(), parsed.port), (host, port), "{url}");
        }
        assert_eq!(
            PeerUrl::parse("http://[::1]:7").unwrap().resolve().unwrap(),
            ["[::1]:7".parse().unwrap()]
        );
    }

    #[test]
    fn anything_else_is_refused_with_its_problem() {
        for (url, problem) in [
            ("", "it is not a URL"),
            ("10.0.0.1:2380", "the scheme is not http"),
            ("https://10.0.0.1:2380", "peer streams over TLS are not available yet"),
            ("unix://a:1", "the scheme is not http"),
            ("http://10.0.0.1", "the port is missing"),
            ("http://10.0.0.1:0", "the port is missing"),
            ("http://10.0.0.1:99999", "the port is missing"),
            ("http://10.0.0.1:2380/raft", "it has a path or a query"),
            ("http://me@10.0.0.1:2380", "it has a user"),
        ] {
            assert_eq!(PeerUrl::parse(url).unwrap_err().problem, problem, "{url}");
        }
    }
}
