//! Where a peer listens, or nothing does: Unix sockets, and what is reported when a process has ended.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use transport::{AcceptedConnection, PeersConfig, StreamClass};

use crate::cluster::{Member, identity, pair};

#[test]
fn the_end_of_a_process_is_told_from_a_connection_that_broke() {
    let (first, second) = pair(PeersConfig::new(identity(1)), PeersConfig::new(identity(2)));
    second.cut();
    first.journal.wait_up(2, 2);
    assert_eq!(first.journal.change(|seen| seen.not_listening.clone()), [], "its machine took the next ones");
    drop(second);
    for class in StreamClass::ALL {
        drop(first.journal.wait_for("a refused dial", |seen| seen.not_listening.contains(&(2, class))));
    }
    let downs = first.journal.change(|seen| seen.downs.len());
    assert_eq!(downs, 4, "both streams were lost twice before");
}

#[test]
fn members_meet_at_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m2.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (first, second) = (Member::start(1), Member::start(2));
    let peers = Arc::downgrade(&second.peers);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Some(peers) = peers.upgrade() else { return };
            let connection = TcpStream::from(OwnedFd::from(connection.unwrap()));
            peers.accept(AcceptedConnection::Plain(connection)).unwrap();
        }
    });
    first.peers.set(2, &[format!("unix://{}", path.display())]).unwrap();
    second.peers.set(1, &first.url()).unwrap();
    first.journal.wait_up(2, 1);
    second.journal.wait_up(1, 1);
    for class in StreamClass::ALL {
        first.send(2, class, vec![7; 1 << 20]);
        drop(second.journal.wait_for("a frame", |seen| seen.bodies(class).len() == 1));
    }
    let known = first.peers.open_snapshot(2, "a header".into()).map(|sender| sender.offset());
    assert_eq!(known.unwrap(), 0);
}

#[test]
fn a_socket_file_without_a_process_is_no_listener() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, abandoned) = (folder.path().join("gone"), folder.path().join("abandoned"));
    drop(UnixListener::bind(&abandoned).unwrap());
    let first = Member::start(1);
    for (peer, path) in [(2, gone), (3, abandoned)] {
        first.peers.set(peer, &[format!("unix:{}", path.display())]).unwrap();
        drop(first.journal.wait_for("a refused dial", |seen| {
            StreamClass::ALL.iter().all(|class| seen.not_listening.contains(&(peer, *class)))
        }));
    }
}

/// The system makes the dialler of such a socket wait; it gives up in time, and tries the next URL.
#[test]
fn a_listener_that_accepts_nothing_does_not_hold_the_dialler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full");
    let full = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    full.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    full.listen(0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    let mut hasty = PeersConfig::new(identity(1));
    hasty.timeouts.dial = Duration::from_millis(10);
    let (first, second) = (Member::configured(hasty), Member::start(2));
    let urls = [format!("unix://{}", path.display()), second.url().remove(0)];
    first.peers.set(2, &urls).unwrap();
    first.journal.wait_up(2, 1);
}
