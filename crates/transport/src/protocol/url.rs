//! Peer URLs: `http://host:port` or `https://host:port`, where host is a name, an IPv4 address or an IPv6 address in
//! brackets; or the path of a Unix socket, `unix:///run/m1.sock` or `unix:/run/m1.sock`, with TLS `unixs:`. As in etcd a path may be relative:
//! `unix://localhost:m1` is the file `localhost:m1` in the working directory, and the certificate at `unixs://localhost:m1` must be for `localhost`. It must
//! be so, too, at a socket whose path has no such form.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

const SECURE_UNIX: &str = "unixs:";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerUrl {
    /// A host, without brackets, and a port.
    Tcp { is_secure: bool, host: String, port: u16 },
    /// The path of a socket.
    Unix { is_secure: bool, path: PathBuf },
}

/// The host of a Unix socket whose path does not begin with one.
const LOCAL_HOST: &str = "localhost";

/// Where a peer may listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PeerAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl PeerUrl {
    pub(crate) fn parse(url: &str) -> Result<PeerUrl, UrlError> {
        let bad = |problem| UrlError { url: url.to_owned(), problem };
        let path = |scheme: &str| url.strip_prefix(scheme).map(|path| (scheme == SECURE_UNIX, path));
        if let Some((is_secure, path)) = path(SECURE_UNIX).or_else(|| path("unix:")) {
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_path = !path.is_empty();
            let unix = PeerUrl::Unix { is_secure, path: path.into() };
            return is_path.then_some(unix).ok_or_else(|| bad("the path is missing"));
        }
        let uri: http::Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("the scheme is not http, https, unix or unixs")),
        };
        if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(bad("it has a path or a query"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(bad("it has a user"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("the host is missing"))?;
        let port = uri.port_u16().filter(|port| *port != 0).ok_or_else(|| bad("the port is missing"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(PeerUrl::Tcp { is_secure, host: host.to_owned(), port })
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, PeerUrl::Tcp { is_secure: true, .. } | PeerUrl::Unix { is_secure: true, .. })
    }

    /// The name or address that the acceptor's certificate must be for.
    pub(crate) fn host(&self) -> &str {
        match self {
            PeerUrl::Tcp { host, .. } => host,
            PeerUrl::Unix { path, .. } => {
                let name = path.to_str().and_then(|path| path.split_once(':')).map_or("", |(name, _)| name);
                if name.is_empty() || name.contains('/') { LOCAL_HOST } else { name }
            }
        }
    }

    /// All addresses of the host. Blocks on the resolver when the host is a name.
    pub(crate) fn resolve(&self) -> io::Result<Vec<PeerAddress>> {
        match self {
            PeerUrl::Tcp { host, port, .. } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.map(PeerAddress::Tcp).collect())
            }
            PeerUrl::Unix { path, .. } => Ok(vec![PeerAddress::Unix(path.clone())]),
        }
    }
}

impl PeerAddress {
    /// Connects, from the local address if one is given. The connection of a Unix socket is held as a `TcpStream`, too:
    /// that type is a descriptor with the calls of any stream socket. Options of TCP are not set on it.
    pub(crate) fn connect(&self, local: Option<IpAddr>, timeout: Duration) -> io::Result<TcpStream> {
        match self {
            PeerAddress::Tcp(address) => match local {
                Some(local) if local.is_ipv4() == address.is_ipv4() => connect_from(local, address, timeout),
                _ => TcpStream::connect_timeout(address, timeout),
            },
            PeerAddress::Unix(path) => connect_unix(path, timeout),
        }
    }
}

impl fmt::Display for PeerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerUrl::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            PeerUrl::Unix { path, .. } => path.display().fmt(f),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Tcp(address) => address.fmt(f),
            PeerAddress::Unix(path) => Path::display(path).fmt(f),
        }
    }
}

/// The name or address that the certificate of the acceptor at this peer URL must be for, without the brackets of an
/// IPv6 address.
///
/// # Errors
/// It is no peer URL.
pub fn acceptor_name(url: &str) -> Result<String, UrlError> {
    PeerUrl::parse(url).map(|url| url.host().to_owned())
}

/// Connects from an address of this machine; the system chooses the port.
fn connect_from(local: IpAddr, address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect_timeout(&(*address).into(), timeout)?;
    Ok(socket.into())
}

/// Connects to a Unix socket. While the backlog of its listener is full, the system makes the caller wait, for as long
/// as the socket may take to write.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&SockAddr::unix(path)?).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "its listener accepts nothing"),
        _ => error,
    })?;
    socket.set_write_timeout(None)?;
    Ok(OwnedFd::from(socket).into())
}

/// What is wrong with a peer URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "peer URL {url:?}: {problem}; expected http://host:port, https://host:port, unix:///path or unixs:///path"
)]
pub struct UrlError {
    /// As given.
    pub url: String,
    /// What was found.
    pub problem: &'static str,
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr, TcpListener};
    use std::time::Duration;

    use super::{PeerAddress, PeerUrl};

    #[test]
    fn a_connection_comes_from_the_address_that_is_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress::Tcp(listener.local_addr().unwrap());
        let source = |local: Option<IpAddr>| {
            let _connection = address.connect(local, Duration::from_secs(5)).unwrap();
            listener.accept().unwrap().1.ip().to_string()
        };
        assert_eq!(source(None), "127.0.0.1");
        assert_eq!(source(Some([127, 0, 0, 9].into())), "127.0.0.9");
        assert_eq!(source(Some(Ipv6Addr::LOCALHOST.into())), "127.0.0.1", "an address of the other family");
        let elsewhere = address.connect(Some([192, 0, 2, 1].into()), Duration::from_secs(5));
        assert!(elsewhere.is_err(), "not an address of this machine");
    }

    #[test]
    fn what_can_be_dialled_is_taken_apart() {
        let tcp = |host: &str, port| PeerUrl::Tcp { is_secure: false, host: host.to_owned(), port };
        let unix = |path: &str| PeerUrl::Unix { is_secure: false, path: path.into() };
        for (url, parts) in [
            ("http://10.0.0.1:2380", tcp("10.0.0.1", 2380)),
            ("http://10.0.0.1:2380/", tcp("10.0.0.1", 2380)),
            ("http://[::1]:7", tcp("::1", 7)),
            ("http://infra-0.example:2380", tcp("infra-0.example", 2380)),
            ("unix:///run/m1.sock", unix("/run/m1.sock")),
            ("unix:/run/m1.sock", unix("/run/m1.sock")),
            ("unix://localhost:m1", unix("localhost:m1")),
        ] {
            assert_eq!(PeerUrl::parse(url).unwrap(), parts, "{url}");
        }
        assert!(PeerUrl::parse("https://a:1").unwrap().is_secure());
        for (url, host) in [
            ("unixs://m1.example:sock", "m1.example"),
            ("unixs:///run/m1:2380", "localhost"),
            ("unixs:m1.sock", "localhost"),
        ] {
            let url = PeerUrl::parse(url).unwrap();
            assert_eq!((url.is_secure(), url.host()), (true, host), "{url}");
        }
        let resolved = PeerUrl::parse("http://[::1]:7").unwrap().resolve().unwrap();
        assert_eq!(resolved, [PeerAddress::Tcp("[::1]:7".parse().unwrap())]);
    }

    #[test]
    fn anything_else_is_refused_with_its_problem() {
        for (url, problem) in [
            ("", "it is not a URL"),
            ("10.0.0.1:2380", "the scheme is not http, https, unix or unixs"),
            ("unixs://", "the path is missing"),
            ("unix://", "the path is missing"),
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
