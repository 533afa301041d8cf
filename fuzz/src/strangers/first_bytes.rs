//! The first bytes of a client's connection, in the clear and as a handshake of TLS.
//!
//! Which protocol it is does not depend on how the bytes arrive, and all of them are read again behind the decision. A
//! handshake that ends before it is complete is refused.
//!
//! The first byte says how many bytes arrive at a time.

use std::ffi::OsString;
use std::fs;
use std::sync::OnceLock;

use server::config::{Parsed, parse};
use server::untrusted::{Handshakes, first_bytes};

/// Receives the bytes.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let Some((at_a_time, bytes)) = data.split_first() else { return };
    let at_a_time = usize::from(*at_a_time);
    let (is_http2, read) = first_bytes(bytes, at_a_time).expect("nothing fails");
    assert_eq!(is_http2, bytes.starts_with(http2::PREFACE));
    assert_eq!(read, bytes);
    thread_local!(static HANDSHAKES: OnceLock<Handshakes> = const { OnceLock::new() });
    HANDSHAKES.with(|handshakes| {
        let handshakes = handshakes.get_or_init(listener);
        assert!(!handshakes.is_accepted(bytes, at_a_time), "no proof was given");
    });
}

/// A listener with a certificate that is generated.
fn listener() -> Handshakes {
    let folder = std::env::temp_dir().join(format!("stele-fuzz-tls-{}", std::process::id()));
    let data = format!("--data-dir={}", folder.display());
    let url = "https://127.0.0.1:2379";
    let urls = ["listen", "advertise"].map(|what| format!("--{what}-client-urls={url}"));
    let args = ["stele", "--auto-tls", &data, &urls[0], &urls[1]].map(OsString::from);
    let parsed = parse(args.into_iter(), std::iter::empty());
    let Ok(Parsed::Run(config)) = parsed else { panic!("the flags are good") };
    let handshakes = Handshakes::load(&config).expect("a certificate is generated");
    // What was read stays in force.
    let _ = fs::remove_dir_all(folder);
    handshakes
}
