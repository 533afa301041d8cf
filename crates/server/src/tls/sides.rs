//! The files that the flags of each side name.

use super::files::{NamedFile, TlsError, system_bundle};
use crate::config::{TlsParameters, TransportSecurity};

/// Whom a side speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsSide {
    /// Clients, and readers of metrics: they are listened to only.
    Client,
    /// Other members: they are listened to and dialled.
    Peer,
}

impl TlsSide {
    /// As in etcd's log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TlsSide::Client => "client",
            TlsSide::Peer => "peer",
        }
    }

    pub(super) fn prefix(self) -> &'static str {
        match self {
            TlsSide::Client => "",
            TlsSide::Peer => "peer-",
        }
    }
}

/// The files of a side, each with its flag.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) side: TlsSide,
    /// What listeners show.
    pub(super) shown: Option<(NamedFile, NamedFile)>,
    /// What diallers show; without it, what listeners do.
    pub(super) shown_when_dialling: Option<(NamedFile, NamedFile)>,
    pub(super) trusted: Option<NamedFile>,
    /// The authorities of the machine, where some are needed and no flag names others.
    pub(super) system: Option<NamedFile>,
    pub(super) revoked: Option<NamedFile>,
    pub(super) settings: TransportSecurity,
    pub(super) parameters: TlsParameters,
}

impl TlsFiles {
    /// The files that the flags name.
    ///
    /// # Errors
    /// A certificate without a key, or a key without a certificate.
    pub(crate) fn of(
        side: TlsSide,
        settings: &TransportSecurity,
        parameters: &TlsParameters,
    ) -> Result<TlsFiles, TlsError> {
        let prefix = side.prefix();
        let named = |name: &str, path: &Option<std::path::PathBuf>| {
            path.clone().map(|path| NamedFile { flag: format!("{prefix}{name}"), path })
        };
        let crl = if side == TlsSide::Peer { "crl-file" } else { "client-crl-file" };
        let pair = |certificate: &str, key: &str, paths: [&Option<std::path::PathBuf>; 2]| match (
            named(certificate, paths[0]),
            named(key, paths[1]),
        ) {
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (None, None) => Ok(None),
            _ => Err(TlsError::Combination {
                flags: format!("--{prefix}{certificate}, --{prefix}{key}"),
                problem: "one is given without the other".to_owned(),
            }),
        };
        let mut files = TlsFiles {
            side,
            shown: pair("cert-file", "key-file", [&settings.cert_file, &settings.key_file])?,
            shown_when_dialling: pair(
                "client-cert-file",
                "client-key-file",
                [&settings.client_cert_file, &settings.client_key_file],
            )?,
            trusted: named("trusted-ca-file", &settings.trusted_ca_file),
            system: None,
            revoked: named(crl, &settings.crl_file),
            settings: settings.clone(),
            parameters: parameters.clone(),
        };
        let needs_authorities = settings.demands_certificates() || files.checks_acceptors();
        files.system = (needs_authorities && files.trusted.is_none())
            .then(|| system_bundle(&format!("{prefix}trusted-ca-file")));
        Ok(files)
    }

    /// The same with a generated certificate.
    pub(crate) fn with_generated(mut self, certificate: NamedFile, key: NamedFile) -> TlsFiles {
        self.shown = Some((certificate, key));
        self
    }

    /// Whether a member's certificate may be for another address than that of its connection.
    pub(crate) fn skips_address_check(&self) -> bool {
        self.settings.skip_client_san_verification
    }

    /// All files.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NamedFile> {
        let pairs = self.shown.iter().chain(&self.shown_when_dialling).flat_map(|(cert, key)| [cert, key]);
        pairs.chain(&self.trusted).chain(&self.system).chain(&self.revoked)
    }

    /// Whether an authority must vouch for members that are dialled. None does for generated certificates.
    pub(super) fn checks_acceptors(&self) -> bool {
        self.side == TlsSide::Peer
            && (!self.settings.generates_certificate() || self.settings.demands_certificates())
    }

    /// Files or flags that are good one by one and cannot be used together.
    pub(super) fn combination(&self, flag: &str, problem: String) -> TlsError {
        TlsError::Combination { flags: format!("--{}{flag}", self.side.prefix()), problem }
    }
}
