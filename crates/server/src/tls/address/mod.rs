//! Whether a member's certificate is for the address it connects from, as etcd's peer listeners check it.
//!
//! A certificate without host names and addresses fits any address. One with addresses fits those. One with host names
//! fits an address that resolves to one of them (a reverse look-up, which alone can satisfy a wildcard), or to which
//! one of them resolves. The resolver is asked only about members that their authority vouches for.
//!
//! Both questions are asked at once, each on a thread that may block: a resolver that is silent about addresses, which
//! is common, delays no certificate whose names it knows. The two together have their own time, not that of the
//! handshake.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::certificate::CertificateNames;

/// Time for the resolver: what a usual one needs to give up a name, two questions of five seconds each.
pub(crate) const RESOLVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The system's resolver, or a test's. Both functions block.
pub(crate) trait Resolver: Send + Sync {
    /// The name of an address.
    fn name_of(&self, address: IpAddr) -> std::io::Result<String>;
    /// The addresses of a name.
    fn addresses_of(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// Asks the system.
pub(crate) struct SystemResolver;

impl Resolver for SystemResolver {
    fn name_of(&self, address: IpAddr) -> std::io::Result<String> {
        dns_lookup::lookup_addr(&address).map_err(std::io::Error::from)
    }

    fn addresses_of(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect())
    }
}

/// Checks a certificate against the address of its connection, which is no IPv4 address in IPv6's form. Takes
/// [`RESOLVER_TIMEOUT`] at most.
///
/// # Errors
/// Why it does not fit, in etcd's words.
pub(crate) async fn check(
    names: &CertificateNames,
    remote: IpAddr,
    resolver: Arc<dyn Resolver>,
) -> Result<(), String> {
    let has_none = names.ip_addresses.is_empty() && names.dns_names.is_empty();
    if has_none || names.ip_addresses.contains(&remote) {
        return Ok(());
    }
    if names.dns_names.is_empty() {
        let valid: Vec<_> = names.ip_addresses.iter().map(IpAddr::to_string).collect();
        return Err(format!("x509: certificate is valid for {}, not {remote}", valid.join(", ")));
    }
    let mismatch = || format!("tls: \"{remote}\" does not match any of DNSNames {:?}", names.dns_names);
    match tokio::time::timeout(RESOLVER_TIMEOUT, resolves(&names.dns_names, remote, resolver)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(mismatch()),
        Ok(Err(error)) => Err(format!("{} ({error})", mismatch())),
        Err(_) => Err(format!("{} (no answer of the resolver after {RESOLVER_TIMEOUT:?})", mismatch())),
    }
}

/// Whether the address and one of the names resolve to each other; else the error of a look-up that had one.
async fn resolves(
    dns_names: &[String],
    remote: IpAddr,
    resolver: Arc<dyn Resolver>,
) -> std::io::Result<bool> {
    let (names, asked) = (dns_names.to_vec(), resolver.clone());
    let mut reverse = tokio::task::spawn_blocking(move || has_name(&names, remote, asked.as_ref()));
    let names = dns_names.to_vec();
    let mut forward = tokio::task::spawn_blocking(move || has_address(&names, remote, resolver.as_ref()));
    // Whichever says yes first counts.
    let (first, second) = tokio::select! {
        found = &mut reverse => (found, forward),
        found = &mut forward => (found, reverse),
    };
    let first = first.map_err(std::io::Error::from).flatten();
    if matches!(first, Ok(true)) {
        return first;
    }
    match second.await.map_err(std::io::Error::from).flatten() {
        Ok(false) => first,
        found => found,
    }
}

/// Whether the address has one of the names.
fn has_name(dns_names: &[String], remote: IpAddr, resolver: &dyn Resolver) -> std::io::Result<bool> {
    let found = resolver.name_of(remote)?;
    let found = found.strip_suffix('.').unwrap_or(&found);
    Ok(dns_names.iter().any(|name| match name.strip_prefix('*') {
        Some(domain) if domain.starts_with('.') => found.ends_with(domain),
        _ => name == found,
    }))
}

/// Whether one of the names has the address; the error is the last of those that look-ups had.
fn has_address(dns_names: &[String], remote: IpAddr, resolver: &dyn Resolver) -> std::io::Result<bool> {
    let mut last = None;
    for name in dns_names.iter().filter(|name| !name.starts_with("*.")) {
        match resolver.addresses_of(name) {
            Ok(addresses) if addresses.contains(&remote) => return Ok(true),
            Ok(_) => {}
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(false), Err)
}

#[cfg(test)]
mod tests;
