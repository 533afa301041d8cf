//! Opening the listening sockets of a member.
//!
//! All or nothing: when one URL cannot be bound, those bound before are closed with the error. Sockets come back ready
//! for an asynchronous runtime (non-blocking), in the order of their URLs.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::{Sockets, Url};

/// Connections that the system holds until they are accepted: enough for a thousand clients that reconnect at once. The
/// system lowers it to its own limit.
const MAX_BACKLOG: i32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum Listener {
    /// On an address of the network.
    Tcp(TcpListener),
    /// On a path of the file system; the path is removed when this is dropped.
    Unix(UnixListener, SocketPath),
}

/// The path of a socket, removed with it.
#[derive(Debug)]
pub(crate) struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        // If this fails, the next start removes the path.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A URL that could not be bound.
#[derive(Debug, thiserror::Error)]
pub(crate) struct ListenError {
    flag: &'static str,
    url: Url,
    #[source]
    cause: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { flag, url, cause } = self;
        write!(f, "cannot listen on {url} (--{flag}): {cause}")?;
        match cause.kind() {
            io::ErrorKind::AddrInUse => {
                f.write_str("; another process uses it: stop that or choose another port")
            }
            io::ErrorKind::AddrNotAvailable => f.write_str("; this machine has no such address"),
            io::ErrorKind::PermissionDenied => {
                f.write_str("; choose a port above 1023 or a directory you may write")
            }
            _ => Ok(()),
        }
    }
}

/// Listens on all URLs; `flag` is the name of the flag they came from, for errors.
///
/// # Errors
/// The first URL that cannot be bound.
pub(crate) fn bind(flag: &'static str, urls: &[Url], sockets: Sockets) -> Result<Vec<Listener>, ListenError> {
    let bind = |url: &Url| {
        let bound = if url.scheme().is_unix() { bind_unix(url) } else { bind_tcp(url, sockets) };
        bound.map_err(|cause| ListenError { flag, url: url.clone(), cause })
    };
    urls.iter().map(bind).collect()
}

fn bind_tcp(url: &Url, sockets: Sockets) -> io::Result<Listener> {
    let address = resolve(url)?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted member must get its port back although old connections linger.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sockets.reuse_port)?;
    socket.bind(&address.into())?;
    socket.listen(MAX_BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(Listener::Tcp(socket.into()))
}

/// The address to bind; of several that a name has, IPv4 first, as clients of `localhost` try it first.
fn resolve(url: &Url) -> io::Result<SocketAddr> {
    let addresses: Vec<_> = (url.host(), url.port().unwrap_or_default()).to_socket_addrs()?.collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    address.copied().ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address"))
}

fn bind_unix(url: &Url) -> io::Result<Listener> {
    let path = Path::new(url.address());
    remove_abandoned(path)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener, SocketPath(path.to_owned())))
}

/// Removes a socket that no process listens on; any other file stays.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Listeners on real sockets of this machine, each with a port or path of its own.

    use super::*;

    fn urls(texts: &[String]) -> Vec<Url> {
        texts.iter().map(|text| Url::parse(text).expect(text)).collect()
    }

    #[test]
    fn all_urls_are_bound_and_accept() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("stele.sock");
        let urls = urls(&[
            "http://127.0.0.1:0".into(),
            "http://localhost:0".into(),
            format!("unix://{}", path.display()),
        ]);
        let listeners = bind("listen-client-urls", &urls, Sockets::default()).expect("bound");
        for listener in &listeners {
            match listener {
                Listener::Tcp(tcp) => {
                    std::net::TcpStream::connect(tcp.local_addr().expect("address")).expect("connects");
                }
                Listener::Unix(..) => {
                    UnixStream::connect(&path).expect("connects");
                }
            }
        }
        assert_eq!(listeners.len(), 3);
        drop(listeners);
        assert!(!path.exists(), "the path goes with its listener");
    }

    #[test]
    fn a_used_port_is_told_with_flag_and_url() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let url = format!("http://{}", taken.local_addr().expect("address"));
        let error = bind("listen-peer-urls", &urls(std::slice::from_ref(&url)), Sockets::default())
            .expect_err("taken")
            .to_string();
        assert!(error.starts_with(&format!("cannot listen on {url} (--listen-peer-urls): ")), "{error}");
        assert!(error.ends_with("; another process uses it: stop that or choose another port"), "{error}");
    }

    #[test]
    fn a_port_is_shared_only_when_asked_for() {
        let shared = Sockets { reuse_port: true };
        let first = bind("x", &urls(&["http://127.0.0.1:0".into()]), shared).expect("bound");
        let Listener::Tcp(tcp) = &first[0] else { panic!("tcp") };
        let same = urls(&[format!("http://{}", tcp.local_addr().expect("address"))]);
        bind("x", &same, shared).expect("shared");
        bind("x", &same, Sockets::default()).expect_err("not shared");
    }

    /// `--socket-reuse-address` has no effect, as this is always so.
    #[test]
    fn a_port_is_bound_again_although_old_connections_linger() {
        let first = bind("x", &urls(&["http://127.0.0.1:0".into()]), Sockets::default()).expect("bound");
        let Listener::Tcp(tcp) = &first[0] else { panic!("tcp") };
        tcp.set_nonblocking(false).expect("a socket");
        let address = tcp.local_addr().expect("address");
        let client = std::net::TcpStream::connect(address).expect("connects");
        let (server, _) = tcp.accept().expect("accepts");
        // The side that closes first lingers: the port of the listener.
        drop(server);
        drop(client);
        drop(first);
        let plain = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        plain.bind(&address.into()).expect_err("it lingers");
        bind("x", &urls(&[format!("http://{address}")]), Sockets::default()).expect("bound again");
    }

    #[test]
    fn only_an_abandoned_socket_is_removed() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("stele.sock");
        let url = urls(&[format!("unix://{}", path.display())]);
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        let listening = bind("x", &url, Sockets::default()).expect("abandoned");
        bind("x", &url, Sockets::default()).expect_err("in use");
        drop(listening);
        std::fs::write(&path, "precious").expect("write");
        bind("x", &url, Sockets::default()).expect_err("no socket");
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    }
}
