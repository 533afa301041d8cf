//! The rules that tie secure URLs (`https`, `unixs`) and the flags of TLS to each other, in etcd's words where it has
//! them.

use super::diagnostics::Note;
use super::settings::ServerConfig;
use super::types::url::Url;

impl ServerConfig {
    /// Whether clients, metrics or HTTP are served with TLS.
    pub(crate) fn serves_clients_securely(&self) -> bool {
        let urls = &self.urls;
        let listening = urls.listen_client.iter().chain(&urls.listen_client_http).chain(&urls.listen_metrics);
        are_secure(listening)
    }

    /// Whether connections from or to other members may have TLS.
    pub(crate) fn speaks_securely_to_peers(&self) -> bool {
        let of_cluster = self.cluster.initial.iter().flat_map(|(_, urls)| urls);
        are_secure(self.urls.listen_peer.iter().chain(&self.urls.initial_advertise_peer).chain(of_cluster))
            || !self.security.peer.is_empty()
            || self.security.peer.demands_certificates()
    }

    /// Checks the flags of each side that is used.
    pub(super) fn check_secure_urls(&self) -> Result<(), String> {
        let (urls, security) = (&self.urls, &self.security);
        let mut clients = urls.listen_client.iter().chain(&urls.listen_client_http);
        if let Some(url) = clients.find(|url| url.scheme().is_secure())
            && security.client.is_empty()
        {
            return Err(format!(
                "TLS key/cert (--cert-file, --key-file) must be provided for client url {url} with HTTPS scheme"
            ));
        }
        let is_shared = |url: &&Url| urls.listen_client.iter().any(|other| other.is_at_address_of(url));
        if let Some(url) = urls.listen_client_http.iter().find(is_shared) {
            return Err(format!(
                "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url {url}"
            ));
        }
        if are_secure(urls.listen_metrics.iter()) && security.client.is_empty() {
            return Err(
                "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"
                    .to_owned(),
            );
        }
        if let Some(url) = urls.listen_peer.iter().find(|url| url.scheme().is_secure())
            && security.peer.is_empty()
        {
            return Err(format!(
                "cannot listen on TLS for {}: KeyFile and CertFile are not presented (--peer-cert-file, \
                 --peer-key-file)",
                url.address()
            ));
        }
        let years = security.parameters.self_signed_validity_years;
        if self.serves_clients_securely() {
            security.client.check("", years)?;
        }
        if self.speaks_securely_to_peers() {
            security.peer.check("peer-", years)?;
        }
        Ok(())
    }

    /// Tells which flags change nothing, and what protects less than it seems to.
    pub(super) fn security_notes(&self) -> Vec<Note> {
        let (urls, client, peer) = (&self.urls, &self.security.client, &self.security.peer);
        let clients = urls.listen_client.iter().chain(&urls.listen_client_http);
        let clients = clients.map(|url| (client, "", "client-url", url));
        let peers = urls.listen_peer.iter().map(|url| (peer, "peer-", "peer-url", url));
        let mut notes = Vec::new();
        for (side, prefix, field, url) in clients.chain(peers).filter(|(.., url)| !url.scheme().is_secure()) {
            if !side.is_empty() {
                let message = "scheme is http or unix while key and cert files are present; \
                     ignoring key and cert files";
                notes.push(Note::warning(message, [(field, url.as_str())]));
            }
            if side.demands_certificates() {
                let message = "scheme is http or unix while client certificates are demanded; ignoring client cert \
                               auth for this URL";
                notes.push(Note::warning(message, [(field, url.as_str())]));
            }
            let restricting = side.restricting_flags(prefix).join(", ");
            if !restricting.is_empty() {
                let message =
                    "scheme is http or unix while flags restrict certificates; ignoring them for this URL";
                notes.push(Note::warning(message, [(field, url.as_str()), ("flags", &restricting)]));
            }
        }
        for (side, message) in [
            (client, "ignoring client auto TLS since certs given"),
            (peer, "ignoring peer auto TLS since certs given"),
        ] {
            if side.auto_tls && !side.generates_certificate() {
                notes.push(Note::warning(message, []));
            }
        }
        if peer.generates_certificate() {
            let message = "--peer-auto-tls encrypts but authenticates no member: any program that reaches the peer \
                           URLs can speak as one";
            notes.push(Note::warning(message, []));
        } else if are_secure(urls.listen_peer.iter()) && !peer.demands_certificates() {
            let message = "--peer-cert-file without --peer-trusted-ca-file or --peer-client-cert-auth encrypts but \
                           authenticates no member that connects: any program that reaches the peer URLs can speak as \
                           one";
            notes.push(Note::warning(message, []));
        }
        notes
    }
}

fn are_secure<'a>(mut urls: impl Iterator<Item = &'a Url>) -> bool {
    urls.any(|url| url.scheme().is_secure())
}
