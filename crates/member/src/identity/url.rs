//! URLs of members: where to listen and what to advertise.
//!
//! A member's id is computed from the text of its peer URLs, so a URL keeps the text that was given, trimmed.

use std::fmt;

/// The transport of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// TCP without TLS.
    Http,
    /// TCP with TLS.
    Https,
    /// A Unix socket without TLS.
    Unix,
    /// A Unix socket with TLS.
    Unixs,
}

impl Scheme {
    /// Whether connections are encrypted.
    pub fn is_secure(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Unixs)
    }

    /// Whether the address is a path of the file system.
    pub fn is_unix(self) -> bool {
        matches!(self, Scheme::Unix | Scheme::Unixs)
    }
}

/// A checked URL: a scheme with `host:port`, or with the path of a Unix socket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Url {
    text: String,
    scheme: Scheme,
    address: usize,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// An unknown scheme, an address that is not `host:port`, or a path; in etcd's words.
    pub fn parse(text: &str) -> Result<Url, String> {
        let text = text.trim();
        let unknown = || format!("URL scheme must be http, https, unix, or unixs: {text}");
        let (scheme, _) = text.split_once(':').ok_or_else(unknown)?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "unix" => Scheme::Unix,
            "unixs" => Scheme::Unixs,
            _ => return Err(unknown()),
        };
        let address = match text.find("://") {
            Some(position) => position + "://".len(),
            None if scheme.is_unix() => text.find(':').map_or(0, |colon| colon + 1),
            None => return Err(not_host_port(text)),
        };
        let url = Url { text: text.to_owned(), scheme, address };
        if scheme.is_unix() { url.check_path() } else { url.check_host_port() }
    }

    fn check_path(self) -> Result<Url, String> {
        if self.address().is_empty() {
            return Err(format!("URL of a socket needs its path: {}", self.text));
        }
        Ok(self)
    }

    fn check_host_port(self) -> Result<Url, String> {
        if self.address().contains(['/', '?', '#']) {
            return Err(format!("URL must not contain a path: {}", self.text));
        }
        let (host, port) = split_host_port(self.address()).ok_or_else(|| not_host_port(&self.text))?;
        if host.contains(['@', ' ']) || port.parse::<u16>().is_err() {
            return Err(not_host_port(&self.text));
        }
        Ok(self)
    }

    /// The transport.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// `host:port`, or the path of a socket.
    pub fn address(&self) -> &str {
        &self.text[self.address..]
    }

    /// The host, without the brackets of an IPv6 address; empty for Unix sockets.
    pub fn host(&self) -> &str {
        self.host_port().map_or("", |(host, _)| host)
    }

    /// The port; none for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        self.host_port().and_then(|(_, port)| port.parse().ok())
    }

    fn host_port(&self) -> Option<(&str, &str)> {
        if self.scheme.is_unix() { None } else { split_host_port(self.address()) }
    }

    /// Whether both are for one address or one socket, with TLS or without.
    pub fn is_at_address_of(&self, other: &Url) -> bool {
        (self.scheme.is_unix(), self.address()) == (other.scheme.is_unix(), other.address())
    }

    /// The text that was given, trimmed.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn not_host_port(text: &str) -> String {
    format!("URL address does not have the form \"host:port\": {text}")
}

fn split_host_port(address: &str) -> Option<(&str, &str)> {
    let (host, port) = address.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']').map(|host| (host, port)),
        None if host.contains([':', '[', ']']) => None,
        None => Some((host, port)),
    }
}

/// Reads comma-separated URLs; sorted by their text, each once.
///
/// # Errors
/// As [`Url::parse`].
pub fn parse_list(text: &str) -> Result<Vec<Url>, String> {
    let mut urls = text.split(',').map(Url::parse).collect::<Result<Vec<_>, _>>()?;
    urls.sort();
    urls.dedup();
    Ok(urls)
}

/// URLs as one comma-separated text.
pub fn join(urls: &[Url]) -> String {
    urls.iter().map(Url::as_str).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    //! URLs: what is one, what is not, and what its parts are.

    use super::*;

    #[test]
    fn parts_are_found() {
        let cases = [
            ("http://127.0.0.1:2379", Scheme::Http, "127.0.0.1:2379", "127.0.0.1", Some(2379)),
            (" https://[::1]:2380 ", Scheme::Https, "[::1]:2380", "::1", Some(2380)),
            ("http://:2379", Scheme::Http, ":2379", "", Some(2379)),
            ("unix:///run/stele.sock", Scheme::Unix, "/run/stele.sock", "", None),
            ("unix://localhost:m2", Scheme::Unix, "localhost:m2", "", None),
            ("unixs:/run/stele.sock", Scheme::Unixs, "/run/stele.sock", "", None),
        ];
        for (text, scheme, address, host, port) in cases {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (url.scheme(), url.address(), url.host(), url.port()),
                (scheme, address, host, port),
                "{text}"
            );
            assert_eq!(url.to_string(), text.trim());
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let cases = [
            ("localhost:2379", "URL scheme must be http, https, unix, or unixs: localhost:2379"),
            ("", "URL scheme must be http, https, unix, or unixs: "),
            ("ftp://h:1", "URL scheme must be http, https, unix, or unixs: ftp://h:1"),
            ("http://localhost", "URL address does not have the form \"host:port\": http://localhost"),
            (
                "http://localhost:http",
                "URL address does not have the form \"host:port\": http://localhost:http",
            ),
            ("http://::1:2379", "URL address does not have the form \"host:port\": http://::1:2379"),
            ("http:h:2379", "URL address does not have the form \"host:port\": http:h:2379"),
            ("http://h:65536", "URL address does not have the form \"host:port\": http://h:65536"),
            ("http://h:2379/", "URL must not contain a path: http://h:2379/"),
            ("unix://", "URL of a socket needs its path: unix://"),
        ];
        for (text, error) in cases {
            assert_eq!(Url::parse(text).expect_err(text), error);
        }
    }

    #[test]
    fn lists_are_sorted_and_unique() {
        let urls = parse_list("http://b:2,http://a:1, http://b:2").expect("list");
        assert_eq!(join(&urls), "http://a:1,http://b:2");
    }
}
