//! The cluster of a new data directory: a new one of the flags, which are checked as etcd checks them, or one that goes
//! on, of which a flag names the member.

use std::collections::BTreeMap;

use log::Identity;
use member::InitialMember;
use member::identity::url::Url;
use member::identity::{cluster_id, member_id};
use store::{ClusterMember, ImportedMembers};

use crate::line::{CommandLine, Refusal};

/// The name of a member of a new cluster without `--name`; etcd's.
const DEFAULT_NAME: &str = "default";

/// A cluster with which a data directory begins, and whose of its members it is.
pub(crate) struct DirectoryCluster {
    pub(crate) identity: Identity,
    pub(crate) members: ImportedMembers,
}

impl DirectoryCluster {
    /// A new directory of a member.
    pub(crate) fn new(cluster_id: u64, member_id: u64, members: ImportedMembers) -> DirectoryCluster {
        DirectoryCluster { identity: Identity { cluster_id, member_id, incarnation: random() }, members }
    }
}

impl From<NewCluster> for DirectoryCluster {
    /// A name counts as that of a member which was started, so the members begin without.
    fn from(cluster: NewCluster) -> DirectoryCluster {
        let member = |member: InitialMember| ClusterMember {
            id: member.id,
            peer_urls: member.peer_urls,
            ..ClusterMember::default()
        };
        let members = cluster.members.into_iter().map(member).collect();
        let members = ImportedMembers { members, ..ImportedMembers::default() };
        DirectoryCluster::new(cluster.cluster_id, cluster.member_id, members)
    }
}

/// The cluster of a new data directory, and which member of it this is.
pub(crate) struct NewCluster {
    pub(crate) cluster_id: u64,
    pub(crate) member_id: u64,
    pub(crate) members: Vec<InitialMember>,
}

impl NewCluster {
    /// Reads `--name`, `--initial-cluster`, `--initial-cluster-token` and `--initial-advertise-peer-urls`.
    ///
    /// # Errors
    /// What is wrong with them, in etcd's words where it has some.
    pub(crate) fn of_flags(line: &CommandLine) -> Result<NewCluster, Refusal> {
        NewCluster::of_member(line, line.values.text("name"))
    }

    /// As [`of_flags`](Self::of_flags), if the line has `--initial-cluster`. Without it the members stay.
    ///
    /// # Errors
    /// As [`of_flags`](Self::of_flags); a flag of a new cluster without that one.
    pub(crate) fn if_requested(line: &CommandLine) -> Result<Option<NewCluster>, Refusal> {
        let values = &line.values;
        if values.on_line("initial-cluster") {
            let name = Some(values.text("name")).filter(|name| !name.is_empty());
            return NewCluster::of_member(line, name.unwrap_or(DEFAULT_NAME)).map(Some);
        }
        match ["initial-cluster-token", "initial-advertise-peer-urls"]
            .iter()
            .find(|flag| values.on_line(flag))
        {
            None => Ok(None),
            Some(flag) => Err(Refusal::bad_args(format!(
                "--{flag} is for a new cluster: give --initial-cluster too, or leave it out and the members stay"
            ))),
        }
    }

    fn of_member(line: &CommandLine, name: &str) -> Result<NewCluster, Refusal> {
        let values = &line.values;
        let advertised = urls(values.text("initial-advertise-peer-urls").split(','))?;
        let cluster = url_map(values.text("initial-cluster"))?;
        let token = values.text("initial-cluster-token");
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
        Ok(NewCluster { cluster_id: cluster_id(&ids), member_id: member_id(own, token, None), members })
    }
}

/// Which of the members that stay, each an id and a name, the new directory is for: the one with the name of `--name`,
/// or without a name `own`, whose directory is read.
///
/// # Errors
/// No member, or more than one, has the name; or `own` was removed, so its data is old.
pub(crate) fn staying_member(name: &str, own: u64, members: &[(u64, &str)]) -> Result<u64, Refusal> {
    if !members.iter().any(|(id, _)| *id == own) {
        return Err(Refusal::error(format!(
            "member {own:x}, whose directory this is, is no member of its cluster any more: take another member's \
             directory, or begin a new cluster with --initial-cluster"
        )));
    }
    if name.is_empty() {
        return Ok(own);
    }
    let named: Vec<u64> = members.iter().filter(|(_, other)| *other == name).map(|(id, _)| *id).collect();
    if let [id] = named.as_slice() {
        return Ok(*id);
    }
    let shown = |(id, name): &(u64, &str)| match *name {
        "" => format!("{id:x} without a name"),
        name => format!("{name} ({id:x})"),
    };
    let how_many = if named.is_empty() { "no member has" } else { "several members have" };
    Err(Refusal::error(format!(
        "{how_many} the name {name:?}: the members are {}",
        members.iter().map(shown).collect::<Vec<_>>().join(", ")
    )))
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
    fn a_name_picks_a_member_that_stays() {
        let members = [(0x1a, "a"), (0x2b, "b"), (0x3c, "b"), (0x4d, "")];
        let pick = |name, own| staying_member(name, own, &members).map_err(|refusal| refusal.message);
        assert_eq!((pick("", 0x2b), pick("a", 0x2b)), (Ok(0x2b), Ok(0x1a)));
        let unknown = pick("c", 0x2b).expect_err("no member has it");
        assert_eq!(
            unknown,
            "no member has the name \"c\": the members are a (1a), b (2b), b (3c), 4d without a name"
        );
        assert!(pick("b", 0x2b).is_err_and(|why| why.starts_with("several members have")));
        for name in ["", "a"] {
            assert!(
                pick(name, 0x5e).is_err_and(|why| why.starts_with("member 5e, whose directory")),
                "{name}"
            );
        }
    }

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
