//! How clients reach a cluster: in the clear or with TLS, without or with a user. Both systems get the same flags.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Outcome};

/// Who the clients are: a user that may read and write every key, by a role and not as root.
const USER: &str = "bench:bench";

/// Who makes users.
const ROOT: &str = "root:root";

/// How clients reach the members of a cluster. The default is in the clear, without users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Clients speak TLS.
    pub(crate) is_secure: bool,
    /// Clients show a certificate, too, which the members demand.
    pub(crate) is_mutual: bool,
    /// With TLS: the members make their certificates themselves, and clients verify none, so no tool has to make any.
    pub(crate) is_self_signed: bool,
    /// Authentication is enabled, and clients have a token for a password.
    pub(crate) has_users: bool,
}

/// The suites of the members, of TLS 1.3 and 1.2: whatever a generator offers first, all rows are of one suite. Go's
/// clients and those of rustls begin with different ones.
const CIPHER_SUITES: [&str; 2] = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];

impl Access {
    /// The scheme of client URLs.
    pub(super) fn scheme(self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Writes the certificates that [`Access::member_flags`] and [`Access::client_flags`] name.
    pub(super) fn prepare(self, tools: &Path, folder: &Path) -> Outcome {
        if !self.is_secure || self.is_self_signed {
            return Ok(());
        }
        let mut load = Command::new(tools.join("load"));
        command::output(load.arg("certificates").arg(format!("--folder={}", folder.display()))).map(drop)
    }

    /// Flags of each member, besides its URLs.
    pub(super) fn member_flags(self, folder: &Path) -> Vec<String> {
        let mut flags = Vec::new();
        if self.is_self_signed {
            flags.push("--auto-tls".to_owned());
        } else if self.is_secure {
            flags.extend(files(folder, [("cert-file", "server.pem"), ("key-file", "server.key")]));
            flags.push(format!("--cipher-suites={}", CIPHER_SUITES.join(",")));
        }
        if self.is_mutual {
            flags.push("--client-cert-auth".to_owned());
            flags.extend(files(folder, [("trusted-ca-file", "ca.pem")]));
        }
        if self.has_users {
            // The least cost: what a hundred connections spend for their passwords is not what is measured.
            flags.push("--bcrypt-cost=4".to_owned());
        }
        flags
    }

    /// Flags of the load generators and of `etcdctl`, besides the endpoints.
    pub(super) fn client_flags(self, folder: &Path) -> Vec<String> {
        let mut flags = self.transport_flags(folder);
        if self.has_users {
            flags.push(format!("--user={USER}"));
        }
        flags
    }

    fn transport_flags(self, folder: &Path) -> Vec<String> {
        let mut flags = Vec::new();
        if self.is_self_signed {
            flags.push("--insecure-skip-tls-verify".to_owned());
        } else if self.is_secure {
            flags.extend(files(folder, [("cacert", "ca.pem")]));
        }
        if self.is_mutual {
            flags.extend(files(folder, [("cert", "client.pem"), ("key", "client.key")]));
        }
        flags
    }

    /// Makes the users of a cluster that has just started, and enables authentication.
    pub(super) fn make_users(self, tools: &Path, folder: &Path, endpoints: &str) -> Outcome {
        if !self.has_users {
            return Ok(());
        }
        let etcdctl = |words: &[&str]| {
            let mut etcdctl = Command::new(tools.join("etcdctl"));
            etcdctl.arg(format!("--endpoints={endpoints}")).args(self.transport_flags(folder)).args(words);
            command::output(&mut etcdctl).map(drop)
        };
        etcdctl(&["user", "add", ROOT])?;
        etcdctl(&["role", "add", "root"])?;
        etcdctl(&["user", "grant-role", "root", "root"])?;
        etcdctl(&["role", "add", "all"])?;
        etcdctl(&["role", "grant-permission", "all", "readwrite", "", "--prefix"])?;
        etcdctl(&["user", "add", USER])?;
        etcdctl(&["user", "grant-role", "bench", "all"])?;
        etcdctl(&["auth", "enable"])
    }
}

fn files<const N: usize>(folder: &Path, named: [(&str, &str); N]) -> [String; N] {
    named.map(|(flag, file)| format!("--{flag}={}", folder.join(file).display()))
}

#[cfg(test)]
mod tests {
    //! Which flags follow.
    use super::*;

    #[test]
    fn members_and_clients_get_what_they_need_to_meet() {
        let folder = Path::new("/f");
        let flags = |access: Access| (access.member_flags(folder).len(), access.client_flags(folder).len());
        let secure = Access { is_secure: true, ..Access::default() };
        assert_eq!(flags(Access::default()), (0, 0));
        assert_eq!(flags(secure), (3, 1));
        assert_eq!(flags(Access { is_mutual: true, ..secure }), (5, 3));
        let self_signed = Access { is_self_signed: true, ..secure };
        assert_eq!(self_signed.member_flags(folder), ["--auto-tls"]);
        assert_eq!(self_signed.client_flags(folder), ["--insecure-skip-tls-verify"]);
        assert_eq!(flags(Access { has_users: true, ..Access::default() }), (1, 1));
        assert_eq!(secure.client_flags(folder), ["--cacert=/f/ca.pem"]);
        assert_eq!((secure.scheme(), Access::default().scheme()), ("https", "http"));
    }
}
