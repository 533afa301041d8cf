//! Addresses, names, wildcards, and a resolver that is wrong or silent.
use std::io::{Error, ErrorKind};

use super::*;

struct Fixed;

impl Resolver for Fixed {
    fn name_of(&self, address: IpAddr) -> std::io::Result<String> {
        match address.to_string().as_str() {
            "10.0.0.1" => Ok("m1.example.".to_owned()),
            _ => Err(Error::new(ErrorKind::NotFound, "no such address")),
        }
    }

    fn addresses_of(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        match name {
            "alias.example" => Ok(vec!["10.0.0.2".parse().expect("an address")]),
            _ => Err(Error::new(ErrorKind::NotFound, "no such name")),
        }
    }
}

/// One that never answers about addresses, until it is dropped.
struct SilentAboutAddresses(parking_lot::Mutex<std::sync::mpsc::Receiver<()>>);

impl Resolver for SilentAboutAddresses {
    fn name_of(&self, _: IpAddr) -> std::io::Result<String> {
        let _ = self.0.lock().recv();
        Err(Error::new(ErrorKind::TimedOut, "no answer"))
    }

    fn addresses_of(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Fixed.addresses_of(name)
    }
}

#[tokio::test]
async fn a_resolver_that_is_silent_about_addresses_delays_no_name_that_it_knows() {
    let (end, silence) = std::sync::mpsc::channel();
    let resolver = Arc::new(SilentAboutAddresses(parking_lot::Mutex::new(silence)));
    let remote = "10.0.0.2".parse().expect("an address");
    assert_eq!(check(&names(&["alias.example"], &[]), remote, resolver).await, Ok(()));
    drop(end);
}

/// Time is moved on by hand: it does not pass by itself while a thread is blocked.
#[tokio::test(start_paused = true)]
async fn a_resolver_that_answers_nothing_is_given_up_after_ten_seconds() {
    let (end, silence) = std::sync::mpsc::channel();
    let resolver = Arc::new(SilentAboutAddresses(parking_lot::Mutex::new(silence)));
    let remote = "10.0.0.2".parse().expect("an address");
    let names = names(&["*.example"], &[]);
    let mut checked = std::pin::pin!(check(&names, remote, resolver));
    assert!(futures_util::poll!(&mut checked).is_pending());
    tokio::time::advance(RESOLVER_TIMEOUT - Duration::from_millis(2)).await;
    assert!(futures_util::poll!(&mut checked).is_pending());
    tokio::time::advance(Duration::from_millis(4)).await;
    let error = checked.await.expect_err("nothing vouches for the address");
    assert!(error.contains("no answer of the resolver after 10s"), "{error}");
    drop(end);
}

fn names(dns_names: &[&str], ip_addresses: &[&str]) -> CertificateNames {
    CertificateNames {
        dns_names: dns_names.iter().map(|name| (*name).to_owned()).collect(),
        ip_addresses: ip_addresses.iter().map(|ip| ip.parse().expect("an address")).collect(),
        ..CertificateNames::default()
    }
}

async fn checked(dns_names: &[&str], ip_addresses: &[&str], remote: &str) -> Result<(), String> {
    let remote = remote.parse().expect("an address");
    check(&names(dns_names, ip_addresses), remote, Arc::new(Fixed)).await
}

#[tokio::test]
async fn a_certificate_fits_its_addresses_and_those_of_its_names() {
    for (dns_names, ip_addresses, remote) in [
        (&[][..], &[][..], "10.0.0.9"),
        (&[], &["10.0.0.9", "::1"], "::1"),
        (&["m1.example"], &[], "10.0.0.1"),
        (&["*.example"], &["10.0.0.9"], "10.0.0.1"),
        (&["other.example", "alias.example"], &[], "10.0.0.2"),
    ] {
        assert_eq!(
            checked(dns_names, ip_addresses, remote).await,
            Ok(()),
            "{dns_names:?} {ip_addresses:?} {remote}"
        );
    }
    for (dns_names, ip_addresses, remote, error) in [
        (&[][..], &["10.0.0.9"][..], "10.0.0.1", "x509: certificate is valid for 10.0.0.9, not 10.0.0.1"),
        (
            &["m2.example"],
            &[],
            "10.0.0.1",
            "tls: \"10.0.0.1\" does not match any of DNSNames [\"m2.example\"] (no such name)",
        ),
        (
            &["*.example"],
            &[],
            "10.0.0.2",
            "tls: \"10.0.0.2\" does not match any of DNSNames [\"*.example\"] (no such address)",
        ),
    ] {
        assert_eq!(checked(dns_names, ip_addresses, remote).await, Err(error.to_owned()));
    }
}
