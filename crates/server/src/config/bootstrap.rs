//! How a cluster starts: `--initial-cluster`, and whether it matches this member.
//!
//! These rules hold only when a member starts without data; on a restart its identity is in its data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};

use super::diagnostics::UsageError;
use super::settings::{ClusterState, ServerConfig};
use super::types::url::{self, Url};

/// Reads `name=url,name=url`: names and the URLs of each, sorted. A name may occur several times.
pub(crate) fn parse_initial_cluster(text: &str) -> Result<Vec<(String, Vec<Url>)>, String> {
    let mut members: BTreeMap<&str, BTreeSet<Url>> = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, url) = pair.split_once('=').unwrap_or((pair, ""));
        members.entry(name).or_default().insert(Url::parse(url)?);
    }
    Ok(members.into_iter().map(|(name, urls)| (name.to_owned(), urls.into_iter().collect())).collect())
}

impl ServerConfig {
    /// The other members that the flags name, each with its peer URLs.
    pub(crate) fn other_members(&self) -> impl Iterator<Item = &(String, Vec<Url>)> {
        self.cluster.initial.iter().filter(|(name, _)| *name != self.name)
    }

    /// Checks what must hold when this member starts without data. May ask the system's resolver for host names.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate_bootstrap(&self) -> Result<(), UsageError> {
        self.check_bootstrap(&resolve).map_err(UsageError::config)
    }

    fn check_bootstrap(&self, resolve: &dyn Fn(&Url) -> Vec<SocketAddr>) -> Result<(), String> {
        let initial = &self.cluster.initial;
        if initial.is_empty() {
            return Err("initial cluster unset and no discovery endpoints found".to_owned());
        }
        let own = initial.iter().find(|(name, _)| *name == self.name).map(|(_, urls)| urls);
        let own = own.ok_or_else(|| {
            format!("couldn't find local name {:?} in the initial cluster configuration", self.name)
        })?;
        if self.cluster.state == ClusterState::New {
            self.check_advertised(own, resolve)?;
        }
        let mut seen = BTreeSet::new();
        if !initial.iter().flat_map(|(_, urls)| urls).all(|url| seen.insert(url)) {
            return Err(format!("initial cluster {} has duplicate url", describe(initial)));
        }
        Ok(())
    }

    /// The URLs of `--initial-cluster` and the advertised ones must be the same, or lead to the same addresses.
    fn check_advertised(&self, own: &[Url], resolve: &dyn Fn(&Url) -> Vec<SocketAddr>) -> Result<(), String> {
        let advertised = &self.urls.initial_advertise_peer;
        let only_in = |urls: &[Url], others: &[Url]| {
            let missing: Vec<_> = urls.iter().filter(|url| !others.contains(url)).cloned().collect();
            (!missing.is_empty()).then_some(missing)
        };
        let (only_own, only_advertised) = (only_in(own, advertised), only_in(advertised, own));
        if only_own.is_none() && only_advertised.is_none() {
            return Ok(());
        }
        let addresses = |urls: &[Url]| urls.iter().flat_map(resolve).collect::<BTreeSet<_>>();
        let resolved = addresses(own);
        if own.len() == advertised.len() && !resolved.is_empty() && resolved == addresses(advertised) {
            return Ok(());
        }
        let with_name = |urls: &[Url]| {
            urls.iter().map(|url| format!("{}={url}", self.name)).collect::<Vec<_>>().join(",")
        };
        Err(match (only_own, only_advertised) {
            (Some(missing), _) => format!(
                "--initial-cluster has {} but missing from --initial-advertise-peer-urls={}",
                with_name(&missing),
                url::join(advertised)
            ),
            (None, missing) => format!(
                "--initial-advertise-peer-urls has {} but missing from --initial-cluster={}",
                url::join(&missing.unwrap_or_default()),
                with_name(own)
            ),
        })
    }
}

fn resolve(url: &Url) -> Vec<SocketAddr> {
    // A name that does not resolve equals only itself, which has been compared before.
    url.address().to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

fn describe(initial: &[(String, Vec<Url>)]) -> String {
    let pairs = initial.iter().flat_map(|(name, urls)| urls.iter().map(move |url| format!("{name}={url}")));
    pairs.collect::<Vec<_>>().join(",")
}
