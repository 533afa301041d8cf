//! The versions that this release claims to be, and versions of clusters. Clients and tools decide by them which
//! requests to send.
//!
//! They are etcd's, whose API this is. Stele's own version is that of its packages.

use std::fmt;

/// Release of etcd whose behaviour we offer: `Status.version`, and `etcdserver` of `/version`.
pub const ETCD_VERSION: &str = "3.7.3";

/// Version of the cluster once all its members run this release: `etcdcluster` of `/version`.
pub const CLUSTER_VERSION: &str = "3.7.0";

/// `Status.storageVersion`, and `storage` of `/version`, unless a downgrade is enabled.
pub const STORAGE_VERSION: &str = "3.7.0";

/// The lines of `etcd --version`: the release whose behaviour this is, then what etcd says about how it was built.
pub fn etcd_version_lines() -> String {
    let (own, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let architecture = go_architecture();
    format!(
        "etcd Version: {ETCD_VERSION}\nGit SHA: Stele {own}\nGo Version: none (Rust)\nGo OS/Arch: \
         {system}/{architecture}"
    )
}

/// The name that Go has for this processor.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A version without a patch, as clusters and downgrades have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion {
    /// As in 3 of `3.7.0`.
    pub major: i64,
    /// As in 7 of `3.7.0`.
    pub minor: i64,
}

impl ClusterVersion {
    /// Reads `3.7`, `3.7.1` or `3.7.1-rc.1+build`, of which it keeps major and minor: what etcd takes as the target of
    /// a downgrade (`convertToClusterVersion`, and `NewVersion` of go-semver).
    pub fn parse(text: &str) -> Option<ClusterVersion> {
        ClusterVersion::parse_whole(text).or_else(|| ClusterVersion::parse_whole(&format!("{text}.0")))
    }

    fn parse_whole(text: &str) -> Option<ClusterVersion> {
        let (text, metadata) = text.split_once('+').unwrap_or((text, ""));
        let (text, pre_release) = text.split_once('-').unwrap_or((text, ""));
        let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        if !metadata.bytes().chain(pre_release.bytes()).all(is_label) {
            return None;
        }
        let mut numbers = text.splitn(3, '.').map(|number| number.parse::<i64>().ok());
        let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(ClusterVersion { major, minor })
    }

    /// The only version to which a cluster of this one can be downgraded.
    pub fn downgrade_target(self) -> ClusterVersion {
        ClusterVersion { minor: self.minor.saturating_sub(1), ..self }
    }

    /// As in `3.7`: how answers to downgrade requests have it.
    pub fn short(self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.0", self.major, self.minor)
    }
}

/// The storage version of a cluster of this version: the cluster's own after a downgrade was enabled, which no release
/// of etcd newer than that refuses to read; else this release's.
pub fn storage_version(cluster_version: Option<&str>) -> String {
    let cluster = cluster_version.and_then(ClusterVersion::parse);
    let own = ClusterVersion::parse(STORAGE_VERSION);
    cluster
        .min(own)
        .filter(|_| cluster.is_some())
        .map_or_else(|| STORAGE_VERSION.to_owned(), |least| least.to_string())
}

#[cfg(test)]
mod tests {
    //! Which texts are versions, and what follows from one.
    use super::*;

    #[test]
    fn texts_are_read_as_etcd_reads_them() {
        let version = |text| ClusterVersion::parse(text).map(|version| version.to_string());
        for text in ["3.6", "3.6.0", "3.6.9", "3.6.1-rc.0", "3.6.1+build", "03.6"] {
            assert_eq!(version(text).as_deref(), Some("3.6.0"), "{text}");
        }
        for text in [
            "",
            "3",
            "3.",
            "3.x",
            "v3.6",
            "3.6.",
            "3.6.1.2",
            "3.6-rc",
            "3.6.1-r_c",
            " 3.6",
            "-3.6",
            "3.6.1+a+b",
        ] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn the_storage_version_follows_a_downgrade() {
        assert_eq!(storage_version(None), STORAGE_VERSION);
        assert_eq!(storage_version(Some("3.7.0")), STORAGE_VERSION);
        assert_eq!(storage_version(Some("3.6.0")), "3.6.0");
        assert_eq!(storage_version(Some("3.8.0")), STORAGE_VERSION);
        assert_eq!(storage_version(Some("nothing")), STORAGE_VERSION);
    }
}
