//! What strangers send before it is known who they are: the first bytes of a connection, certificates, header blocks,
//! heads and messages of calls, tokens, and requests of the JSON gateway. Six targets, and their seeds.

pub mod certificates;
pub mod first_bytes;
pub mod gateway_requests;
pub mod grpc_request;
pub mod hpack;
pub mod tokens;

use server::config::SignMethod;

use crate::input::script::put_bytes;

/// The seed corpora: of which target, under which name, which bytes.
pub fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut seeds = first_bytes_seeds();
    seeds.extend(hpack_seeds());
    seeds.extend(token_seeds());
    seeds.extend(certificate_seeds());
    let gateway = gateway_requests::seeds().into_iter().map(|(name, bytes)| ("gateway", name, bytes));
    seeds.extend(gateway);
    seeds.extend(grpc_request::seeds().into_iter().map(|(name, bytes)| ("grpc_request", name, bytes)));
    seeds
}

/// What clients begin with, in the clear and with TLS.
fn first_bytes_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    // TLS 1.3 by its extension, one suite, one group, no key share: the acceptor asks for another hello.
    let extensions = [
        &[0, 43, 0, 3, 2, 3, 4][..],
        &[0, 10, 0, 4, 0, 2, 0, 29],
        &[0, 13, 0, 4, 0, 2, 4, 3],
        &[0, 51, 0, 2, 0, 0],
        &[0, 16, 0, 5, 0, 3, 2, b'h', b'2'],
    ]
    .concat();
    let versions_random_and_suite = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let hello = [&versions_random_and_suite[..], &two_bytes(&extensions), &extensions].concat();
    let message = [&[1, 0][..], &two_bytes(&hello), &hello].concat();
    let record = [&[0x16, 3, 1][..], &two_bytes(&message), &message].concat();
    let http2 = [&[5][..], http2::PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    vec![
        ("first_bytes", "http2", http2),
        ("first_bytes", "http1", b"\xffGET /health HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("first_bytes", "hello", [&[200][..], &record].concat()),
        ("first_bytes", "hello-in-parts", [&[3][..], &record, &record].concat()),
    ]
}

/// Blocks of a usual client; and a table that shrinks, with strings in Huffman's code.
fn hpack_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let script = |blocks: &[(u8, &[u8])]| {
        let mut script = Vec::new();
        for (kind, block) in blocks {
            script.push(*kind);
            put_bytes(&mut script, block);
        }
        script
    };
    let first = b"\x83\x86\x44\x0d/etcdserverpb\x40\x02te\x08trailers";
    let huffman = b"\x3f\x1f\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    vec![
        ("hpack", "calls", script(&[(0x7f, first), (0x7f, b"\x83\x86\xbf\xbe"), (1, b"\x83\x86\xbf\xbe")])),
        ("hpack", "resized", script(&[(0x80, huffman), (0x81, b"\x20\x3f\xe1\x1f\x82\x10\x01a\x01b")])),
    ]
}

/// The length of bytes, as TLS writes it.
fn two_bytes(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).expect("they are few").to_be_bytes()
}

/// A certificate with names and addresses, it as an authority, a list that revokes two, and keys.
fn certificate_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let script = |name, kind: u8, parts: &[&[u8]]| {
        let mut script = vec![kind];
        parts.iter().for_each(|part| put_bytes(&mut script, part));
        ("certificates", name, script)
    };
    let keys = |method| certificates::KEYS + number_of(method);
    let p256: &[u8] = include_bytes!("../../testdata/p256.key");
    vec![
        script("certificate", certificates::CERTIFICATE, &[include_bytes!("../../testdata/ca.der")]),
        script("authorities", certificates::AUTHORITIES, &[include_bytes!("../../testdata/ca.pem")]),
        script("list-der", certificates::REVOKED, &[include_bytes!("../../testdata/crl.der")]),
        script("list-pem", certificates::REVOKED, &[include_bytes!("../../testdata/crl.pem")]),
        script("pair", keys(SignMethod::Es256), &[include_bytes!("../../testdata/p256.pub"), p256]),
        script("private", keys(SignMethod::Es256), &[b"", p256]),
        script("secret", keys(SignMethod::Hs256), &[b"", b"a secret"]),
        script("of-certificate", keys(SignMethod::Es256), &[include_bytes!("../../testdata/ca.pem"), b""]),
    ]
}

/// The number of a method of signing.
fn number_of(method: SignMethod) -> u8 {
    let at = SignMethod::ALL.iter().position(|other| *other == method);
    at.and_then(|at| u8::try_from(at).ok()).expect("it is one of them")
}

/// Tokens, good and odd.
fn token_seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let script = |name, kind: u8, texts: &[&[u8]]| {
        let mut script = vec![kind];
        texts.iter().for_each(|text| put_bytes(&mut script, text));
        ("tokens", name, script)
    };
    let header: &[u8] = br#"{"alg":"HS256","typ":"JWT"}"#;
    let claims: &[u8] = br#"{"exp":4000000000,"revision":7,"username":"ann"}"#;
    let (text, signed) = (tokens::TEXT, tokens::SIGNED);
    vec![
        script("simple", text, &[b"Bearer abcdefghijklmnop.12"]),
        script("good", text, &[tokens::signed(header, claims).as_bytes()]),
        script("signed", signed, &[header, claims]),
        script("critical", signed, &[br#"{"alg":"HS256","crit":["x"]}"#, claims]),
        script("fraction", signed, &[header, br#"{"exp":4e9,"revision":7.5,"nbf":1,"username":""}"#]),
    ]
}
