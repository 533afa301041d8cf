//! The flags that say which cluster a new data directory belongs to, checked as etcd checks them.

use std::collections::BTreeMap;

use log::Identity;
use member::InitialMember;
use member::identity::url::Url;
use member::identity::{cluster_id, member_id};

use crate::line::{CommandLine, Refusal};

/// The cluster of a new data directory, and which member of it this is.
pub(crate) struct NewCluster {
    pub(crate) identity: Identity,
    pub(crate) members: Vec<InitialMember>,
}

impl NewCluster {
    /// Reads `--name`, `--initial-cluster`, `--initial-cluster-token` and `--initial-advertise-peer-urls`.
    ///
    /// # Errors
    /// What is wrong with them, in etcd's words where it has some.
    pub(crate) fn of_flags(line: &CommandLine) -> Result<NewCluster, Refusal> {
        let values = &line.values;
        let advertised = urls(values.text("initial-advertise-peer-urls").split(','))?;
        let cluster = url_map(values.text("initial-cluster"))?;
        let (name, token) = (values.text("name"), values.text("initial-cluster-token"));
        let Some(own) = cluster.get(name) else {
            let why = format!("couldn't find local name {name:?} in the initial cluster configuration");
            return Err(Refusal::error(why));
        };
        if *own != advertised {
            return Err(Refusal::error(format!(
                "--initial-cluster has {name}={} but --initial-advertise-peer-urls has {}: both must name the same \
                 URLs",
                own.join(","),
                advertised.join(",")
            )));
        }
        let mut all: Vec<&String> = cluster.values().flatten().collect();
        all.sort_unstable();
        if all.windows(2).any(|two| two[0] == two[1]) {
            let given = values.text("initial-cluster");
            return Err(Refusal::error(format!("initial cluster {given} has duplicate url")));
        }
        let member = |(name, urls): (&String, &Vec<String>)| InitialMember {
            id: member_id(urls, token, None),
            name: name.clone(),
            peer_urls: urls.clone(),
        };
        let members: Vec<InitialMember> = cluster.iter().map(member).collect();
        let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
        let member_id = member_id(own, token, None);
        let identity = Identity { cluster_id: cluster_id(&ids), member_id, incarnation: random() };
        Ok(NewCluster { identity, members })
    }
}

/// `a=http://host:1,b=http://host:2`; a name that is repeated has several URLs.
fn url_map(text: &str) -> Result<BTreeMap<String, Vec<String>>, Refusal> {
    let mut given: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (name, url) = part.split_once('=').unwrap_or((part, ""));
        given.entry(name).or_default().push(url);
    }
    given.into_iter().map(|(name, some)| Ok((name.to_owned(), urls(some.into_iter())?))).collect()
}

/// Checks URLs as a server does, and sorts them.
fn urls<'a>(given: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Refusal> {
    let parsed = given.map(Url::parse).collect::<Result<Vec<_>, _>>().map_err(Refusal::error)?;
    let mut urls: Vec<String> = parsed.iter().map(|url| url.as_str().to_owned()).collect();
    urls.sort_unstable();
    Ok(urls)
}

/// A random number other than 0.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds each of these from the system's entropy.
    std::hash::RandomState::new().build_hasher().finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_sorted() {
        let map = url_map("b=http://h:2,a=http://h:3,a=https://[::1]:1").expect("it is right");
        assert_eq!(map["a"], ["http://h:3", "https://[::1]:1"]);
        assert_eq!(map["b"], ["http://h:2"]);
        let sockets = url_map("a=unix:///run/a.sock").expect("a server takes sockets");
        assert_eq!(sockets["a"], ["unix:///run/a.sock"]);
        for (wrong, why) in [
            ("a=ftp://h:1", "URL scheme must be"),
            ("a", "URL scheme must be"),
            ("a=http://h", "does not have the form"),
            ("a=http://h:1/p", "must not contain a path"),
            ("a=http://h:1?x", "must not contain a path"),
            ("a=http://h:99999", "does not have the form"),
            ("a=http://u@h:1", "does not have the form"),
        ] {
            let refused = url_map(wrong).expect_err(wrong);
            assert!(refused.message.starts_with("URL") && refused.message.contains(why), "{refused:?}");
        }
    }
}
