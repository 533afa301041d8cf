//! TLS as the flags ask for it: plain data, and the rules among the flags. Files are read when the member starts.
//!
//! Clients and peers each have a [`TransportSecurity`], of the flags without and with `--peer-`; what both share is in
//! [`TlsParameters`]. A secure URL (`https`, `unixs`) makes its side *used*: only then must its flags fit together, as
//! in etcd; a warning says that the flags of a side that is not used change nothing. A combination that would protect
//! less than it says is refused, though etcd may accept it.

use std::path::PathBuf;

use super::diagnostics::UsageError;
use super::types::cipher_suites;
use super::values::FlagValues;

/// TLS for clients and peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// For clients, and for metrics.
    pub client: TransportSecurity,
    /// For other members, in both directions.
    pub peer: TransportSecurity,
    /// For both.
    pub parameters: TlsParameters,
}

/// Certificates of one side, and whom it trusts. Lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportSecurity {
    /// Certificate shown by listeners, with its chain.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Certificate shown when dialling; without it that of the listeners.
    pub client_cert_file: Option<PathBuf>,
    /// Its key.
    pub client_key_file: Option<PathBuf>,
    /// Authorities whose certificates are trusted; without it, those of the system.
    pub trusted_ca_file: Option<PathBuf>,
    /// Whether a dialler must show a certificate. A file of authorities asks for the same.
    pub client_cert_auth: bool,
    /// Certificates that are no longer trusted.
    pub crl_file: Option<PathBuf>,
    /// Common names of which a certificate must have one, unless empty.
    pub allowed_common_names: Vec<String>,
    /// Host names and addresses for one of which a certificate must be, unless empty.
    pub allowed_hostnames: Vec<String>,
    /// Whether a dialler's certificate may be for another address than that of its connection.
    pub skip_client_san_verification: bool,
    /// Whether to make up a certificate if none is given.
    pub auto_tls: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2, of RFC 5246.
    Tls12,
    /// 1.3, of RFC 8446.
    Tls13,
}

/// Versions and suites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsParameters {
    /// Lowest version.
    pub min_version: TlsVersion,
    /// Highest version.
    pub max_version: TlsVersion,
    /// Numbers of the suites; empty for all.
    pub cipher_suites: Vec<u16>,
    /// Validity of generated certificates, in years.
    pub self_signed_validity_years: u64,
}

impl TransportSecurity {
    fn of(values: &FlagValues, prefix: &str) -> TransportSecurity {
        let file = |name: &str| {
            let text = values.text(&format!("{prefix}{name}"));
            Some(text).filter(|text| !text.is_empty()).map(PathBuf::from)
        };
        let is_peer = !prefix.is_empty();
        TransportSecurity {
            cert_file: file("cert-file"),
            key_file: file("key-file"),
            client_cert_file: file("client-cert-file"),
            client_key_file: file("client-key-file"),
            trusted_ca_file: file("trusted-ca-file"),
            client_cert_auth: values.bool(&format!("{prefix}client-cert-auth")),
            crl_file: file(if is_peer { "crl-file" } else { "client-crl-file" }),
            allowed_common_names: match is_peer {
                true => values.list("peer-cert-allowed-cn"),
                false => values.allowed_client_names.clone(),
            },
            allowed_hostnames: match is_peer {
                true => values.list("peer-cert-allowed-hostname"),
                false => values.list("client-cert-allowed-hostname"),
            },
            skip_client_san_verification: is_peer && values.bool("peer-skip-client-san-verification"),
            auto_tls: values.bool(&format!("{prefix}auto-tls")),
        }
    }

    /// Whether no certificate is given, nor to be generated.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_none() && self.key_file.is_none() && !self.auto_tls
    }

    /// Whether a certificate is generated: one that is given is preferred.
    pub fn generates_certificate(&self) -> bool {
        self.auto_tls && self.cert_file.is_none() && self.key_file.is_none()
    }

    /// Whether a dialler must show a certificate.
    pub fn demands_certificates(&self) -> bool {
        self.client_cert_auth || self.trusted_ca_file.is_some()
    }

    /// The flags that are given and only restrict who is trusted; `prefix` is `peer-` or empty.
    pub(super) fn restricting_flags(&self, prefix: &str) -> Vec<String> {
        let crl = if prefix.is_empty() { "client-crl-file" } else { "crl-file" };
        let host = if prefix.is_empty() { "client-cert-allowed-hostname" } else { "cert-allowed-hostname" };
        // For clients only the configuration file has it.
        let names = match prefix {
            "" => "client-transport-security.allowed-cn".to_owned(),
            _ => format!("--{prefix}cert-allowed-cn"),
        };
        [
            (format!("--{prefix}{crl}"), self.crl_file.is_some()),
            (names, !self.allowed_common_names.is_empty()),
            (format!("--{prefix}{host}"), !self.allowed_hostnames.is_empty()),
        ]
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| name)
        .collect()
    }

    /// The rules for a side that is used; `prefix` is `peer-` or empty, `validity_years` is for generated
    /// certificates.
    pub(super) fn check(&self, prefix: &str, validity_years: u64) -> Result<(), String> {
        if self.generates_certificate() && validity_years == 0 {
            return Err("--self-signed-cert-validity must be >0 (set to 0)".to_owned());
        }
        let text =
            |file: &Option<PathBuf>| file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        if self.cert_file.is_some() != self.key_file.is_some() {
            let (key, cert) = (text(&self.key_file), text(&self.cert_file));
            return Err(format!("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]"));
        }
        if self.client_cert_file.is_some() != self.client_key_file.is_some() {
            let (key, cert) = (text(&self.client_key_file), text(&self.client_cert_file));
            return Err(format!(
                "ClientKeyFile and ClientCertFile must both be present or both absent: key: {key}, cert: {cert}]"
            ));
        }
        let (names, hosts) = (&self.allowed_common_names, &self.allowed_hostnames);
        if !names.is_empty() && !hosts.is_empty() {
            return Err(format!(
                "AllowedCNs and AllowedHostnames are mutually exclusive (cns={names:?}, hostnames={hosts:?})"
            ));
        }
        let restricts = !names.is_empty() || !hosts.is_empty() || self.crl_file.is_some();
        if self.generates_certificate() && (restricts || self.demands_certificates()) {
            return Err(format!(
                "--{prefix}auto-tls authenticates no one and cannot be combined with flags that restrict who may \
                 connect (--{prefix}client-cert-auth, --{prefix}trusted-ca-file, a CRL, allowed names); give \
                 --{prefix}cert-file and --{prefix}key-file"
            ));
        }
        if restricts && !self.demands_certificates() {
            return Err(format!(
                "a CRL and allowed names restrict certificates, but none are asked for: set --{prefix}client-cert-auth \
                 and --{prefix}trusted-ca-file"
            ));
        }
        Ok(())
    }
}

impl Security {
    /// Reads the flags.
    ///
    /// # Errors
    /// Versions that do not exist or exclude each other, and suites where none can be chosen; in etcd's words.
    pub(super) fn of(values: &FlagValues) -> Result<Security, UsageError> {
        let parameters = parameters(values).map_err(UsageError::config)?;
        Ok(Security {
            client: TransportSecurity::of(values, ""),
            peer: TransportSecurity::of(values, "peer-"),
            parameters,
        })
    }
}

fn parameters(values: &FlagValues) -> Result<TlsParameters, String> {
    let (min, max) = (values.text("tls-min-version"), values.text("tls-max-version"));
    // As in etcd, an empty text leaves the choice to the library.
    let min_version = version("tls-min-version", min)?.unwrap_or(TlsVersion::Tls12);
    let max_version = version("tls-max-version", max)?.unwrap_or(TlsVersion::Tls13);
    if min_version > max_version {
        return Err(format!(
            "min version ({min}) is greater than max version ({max}) (--tls-min-version, --tls-max-version)"
        ));
    }
    let names = values.list("cipher-suites");
    let cipher_suites = names.iter().map(|name| cipher_suites::parse(name)).collect::<Result<Vec<_>, _>>()?;
    if min_version == TlsVersion::Tls13 && !cipher_suites.is_empty() {
        return Err("cipher suites cannot be configured when only TLS1.3 is enabled".to_owned());
    }
    let is_tls13 = |suite: &u16| cipher_suites::is_tls13(*suite);
    if max_version == TlsVersion::Tls12 && !names.is_empty() && cipher_suites.iter().all(is_tls13) {
        return Err(format!(
            "--cipher-suites names none of TLS 1.2 ({}), which --tls-max-version asks for",
            names.join(",")
        ));
    }
    let self_signed_validity_years = values.count("self-signed-cert-validity");
    Ok(TlsParameters { min_version, max_version, cipher_suites, self_signed_validity_years })
}

fn version(flag: &str, text: &str) -> Result<Option<TlsVersion>, String> {
    match text {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLS1.3" => Ok(Some(TlsVersion::Tls13)),
        _ => Err(format!("unexpected TLS version {text:?} (--{flag} must be one of: TLS1.2, TLS1.3)")),
    }
}
