//! Endpoints: `host:port`, `http://host:port`, `https://host:port`, `unix:///path`.

/// Where a member serves clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As it was given, for messages.
    pub name: String,
    /// What to connect to.
    pub address: Address,
    /// Whether by TLS.
    pub security: Security,
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`.
    Tcp(String),
    /// A path.
    Unix(String),
}

/// Whether an endpoint is reached by TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// `http://`: never, whatever the flags say.
    Plain,
    /// `https://`: always.
    Tls,
    /// No scheme: if a flag asks for it.
    AsFlagged,
}

impl Endpoint {
    /// Reads an endpoint. Port 2379 is not assumed: etcd's client asks for a port.
    ///
    /// # Errors
    ///
    /// A scheme that is not offered, with a message that says so.
    pub fn parse(name: &str) -> Result<Self, String> {
        let (scheme, rest) = match name.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => match name.split_once(':') {
                Some((scheme @ ("unix" | "unixs"), path)) => (scheme, path),
                _ => ("", name),
            },
        };
        let tcp = || Address::Tcp(rest.trim_end_matches('/').to_owned());
        let (address, security) = match scheme {
            "" => (tcp(), Security::AsFlagged),
            "http" => (tcp(), Security::Plain),
            "https" => (tcp(), Security::Tls),
            "unix" => (Address::Unix(rest.to_owned()), Security::Plain),
            _ => return Err(format!("endpoint {name} has an unknown scheme: use http, https or unix")),
        };
        Ok(Self { name: name.to_owned(), address, security })
    }

    /// The host and port that a request names.
    pub fn authority(&self) -> &str {
        match &self.address {
            Address::Tcp(address) => address,
            Address::Unix(_) => "localhost",
        }
    }

    /// The host whose name a certificate must carry.
    pub fn host(&self) -> &str {
        let authority = self.authority();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_decides_about_tls_and_its_lack_leaves_it_to_the_flags() {
        let security = |name| Endpoint::parse(name).map(|endpoint| endpoint.security);
        assert_eq!(security("a:1"), Ok(Security::AsFlagged));
        assert_eq!(security("http://a:1"), Ok(Security::Plain));
        assert_eq!(security("https://a:1"), Ok(Security::Tls));
        assert!(security("ftp://a:1").is_err());
        let endpoint = Endpoint::parse("https://[::1]:2379/").expect("it is one");
        assert_eq!((endpoint.authority(), endpoint.host()), ("[::1]:2379", "::1"));
        let unix = Endpoint::parse("unix:///run/etcd").expect("it is one");
        assert_eq!(unix.address, Address::Unix("/run/etcd".to_owned()));
    }
}
