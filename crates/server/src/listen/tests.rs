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
