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
        ("http://localhost:http", "URL address does not have the form \"host:port\": http://localhost:http"),
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
