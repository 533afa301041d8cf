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

/// Connections the system holds until they are accepted: enough for a thousand clients that come back at once; the
/// system lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// On an address of the network.
    Tcp(TcpListener),
    /// On a path of the file system; the path is removed when this is dropped.
    Unix(UnixListener, SocketPath),
}

/// The path of a socket, removed with it.
#[derive(Debug)]
pub struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        // Left behind it is only litter: the next start removes it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A URL that could not be bound.
#[derive(Debug, thiserror::Error)]
pub struct ListenError {
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
pub fn bind(flag: &'static str, urls: &[Url], sockets: Sockets) -> Result<Vec<Listener>, ListenError> {
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
    socket.listen(BACKLOG)?;
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

/// Removes a socket nobody listens on any more; anything else stays.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
