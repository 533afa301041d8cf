//! How a member without data joins a running cluster (`--initial-cluster-state existing`): it asks the members of
//! `--initial-cluster` for the cluster's id and all members, and finds itself among them by its peer URLs.
//!
//! Nothing is created before all of that fits, so a member that was started with a mistake can be started again; one
//! that failed before it had written its first checkpoint asks again. A member answers with what it has applied, which
//! may be old. So half of the others must give the same answer: together with this member, they are a majority of those
//! that `--initial-cluster` names. (A linearizable read would wait for ever where this member is the second voter: it
//! is part of the quorum already.)
//!
//! ```text
//! --name m3 --initial-cluster m1=http://a:2380,m2=http://b:2380,m3=http://c:2380
//!   GET http://a:2380/members -> cluster 7: 1f (m1, http://a:2380), 2e (m2, http://b:2380), 3d (no name yet, http://c:2380)
//!   -> this is member 3d of cluster 7
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use member::InitialMember;
use serde::Deserialize;

use crate::config::{ServerConfig, Url};
use crate::http;
use crate::peers::PeerHttp;

/// Time for one member to answer; etcd's.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest list of members that is read.
const MAX_LIST_BYTES: usize = 4 << 20;

/// The cluster that a member joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JoinedCluster {
    pub(super) cluster_id: u64,
    /// Which of the clusters with this id; see [`member::identity::peer_cluster_id`].
    pub(super) lineage: u64,
    pub(super) member_id: u64,
    /// All members, this one among them.
    pub(super) members: Vec<InitialMember>,
}

impl JoinedCluster {
    /// Whether another answer names the same members. One that has just started may have its name in one only.
    fn says_the_same(&self, other: &JoinedCluster) -> bool {
        let members = |joined: &JoinedCluster| -> BTreeMap<u64, Vec<String>> {
            joined.members.iter().map(|member| (member.id, member.peer_urls.clone())).collect()
        };
        (self.cluster_id, self.lineage, self.member_id, members(self))
            == (other.cluster_id, other.lineage, other.member_id, members(other))
    }
}

/// A member in the answer to `GET /members`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ListedMember {
    pub(super) id: u64,
    /// Empty until it has published itself.
    #[serde(default)]
    pub(super) name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
}

/// Asks the other members of `--initial-cluster`, one after the other, until enough of them give the same answer, which
/// fits.
///
/// # Errors
/// What does not fit, or why there are too few answers; the last of these.
pub(super) async fn ask_members(config: &ServerConfig, peers: &PeerHttp) -> Result<JoinedCluster, String> {
    let others: Vec<_> = config.cluster.initial.iter().filter(|(name, _)| *name != config.name).collect();
    let mut answers = Answers { needed: others.len().div_ceil(2), given: Vec::new() };
    let mut last = "--initial-cluster names no other member; each needs a name of its own".to_owned();
    for (_, urls) in others {
        match ask_member(config, peers, urls).await {
            Ok(joined) => match answers.add(joined) {
                Some(joined) => return Ok(joined),
                None => last = answers.shortage(),
            },
            Err(error) => last = error,
        }
    }
    Err(format!("cannot fetch cluster info from peer urls: {last}"))
}

/// Asks one member, at its URLs.
async fn ask_member(config: &ServerConfig, peers: &PeerHttp, urls: &[Url]) -> Result<JoinedCluster, String> {
    let mut last = "it has no peer URL".to_owned();
    for url in urls {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, list_members(url, peers)).await;
        let listed = asked.map_err(|_| "it does not answer".to_owned()).and_then(|answer| answer);
        let joined = listed.map_err(|error| format!("{url}: {error}")).and_then(|(cluster, listed)| {
            let joined = find_own(&config.name, &config.cluster.initial, cluster, listed, &resolve);
            joined.map_err(|error| format!("the members that {url} lists do not fit the flags: {error}"))
        });
        match joined {
            Ok(joined) => return Ok(joined),
            Err(error) => {
                tracing::warn!(address = url.as_str(), %error, "failed to get cluster response");
                last = error;
            }
        }
    }
    Err(last)
}

/// The answers that fit.
struct Answers {
    /// How many members must give the same answer.
    needed: usize,
    /// Each answer, and how many members gave it.
    given: Vec<(JoinedCluster, usize)>,
}

impl Answers {
    /// Adds the answer of a member; returns it if enough members have given it.
    fn add(&mut self, joined: JoinedCluster) -> Option<JoinedCluster> {
        let position = self.given.iter().position(|(given, _)| given.says_the_same(&joined));
        let position = position.unwrap_or(self.given.len());
        if position == self.given.len() {
            self.given.push((joined, 0));
        }
        let (given, count) = &mut self.given[position];
        *count += 1;
        (*count >= self.needed).then(|| given.clone())
    }

    fn shortage(&self) -> String {
        let most = self.given.iter().map(|(_, count)| *count).max().unwrap_or(0);
        format!("the same members must be listed by {} of the others, and are by {most}", self.needed)
    }
}

/// The cluster's id and lineage.
type ListedCluster = (u64, u64);

/// The cluster and the members that the member at `url` knows.
///
/// # Errors
/// Why there is no such answer.
pub(super) async fn list_members(
    url: &Url,
    peers: &PeerHttp,
) -> Result<(ListedCluster, Vec<ListedMember>), String> {
    let response = peers.send(url, Request::get("/members"), Body::empty()).await?;
    let cluster_id = response.headers().get("x-etcd-cluster-id").ok_or("its answer names no cluster id")?;
    let cluster_id = cluster_id.to_str().unwrap_or_default();
    let cluster_id = u64::from_str_radix(cluster_id, 16)
        .map_err(|_| format!("its answer has {cluster_id:?} as its cluster id"))?;
    let lineage = http::lineage_of(response.headers()).ok_or("the lineage in its answer is no number")?;
    let body = axum::body::to_bytes(Body::new(response.into_body()), MAX_LIST_BYTES).await;
    let body = body.map_err(|error| error.to_string())?;
    let members: Vec<ListedMember> = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    Ok(((cluster_id, lineage), members))
}

/// Compares the members that a cluster lists with those of `--initial-cluster`, and finds this one among them.
fn find_own(
    name: &str,
    initial: &[(String, Vec<Url>)],
    (cluster_id, lineage): ListedCluster,
    listed: Vec<ListedMember>,
    resolve: &dyn Fn(&str) -> Vec<SocketAddr>,
) -> Result<JoinedCluster, String> {
    if listed.len() != initial.len() {
        return Err(format!(
            "member count is unequal: the cluster has {}, --initial-cluster {}; name all members there, and add this \
             one to the cluster (etcdctl member add) before it is started",
            listed.len(),
            initial.len()
        ));
    }
    let named = |member: &ListedMember| {
        initial.iter().find(|(_, urls)| {
            let urls: Vec<String> = urls.iter().map(|url| url.as_str().to_owned()).collect();
            are_equal(&urls, &member.peer_urls, resolve)
        })
    };
    let mut own = None;
    for member in &listed {
        let Some((found, _)) = named(member) else {
            return Err(format!(
                "PeerURLs: no match found for existing member ({:x}, {:?})",
                member.id, member.peer_urls
            ));
        };
        if found == name {
            own = Some(member.clone());
        }
    }
    let own =
        own.ok_or_else(|| format!("no member has the peer URLs that --initial-cluster gives {name:?}"))?;
    if !own.name.is_empty() {
        return Err(format!(
            "member {:x} has been started before, as {:?}, and its data is not here; if it was lost, remove the \
             member and add it again",
            own.id, own.name
        ));
    }
    let members = listed.into_iter().map(|member| InitialMember {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
    });
    Ok(JoinedCluster { cluster_id, lineage, member_id: own.id, members: members.collect() })
}

/// Whether two lists of URLs are the same, or lead to the same addresses.
fn are_equal(ours: &[String], theirs: &[String], resolve: &dyn Fn(&str) -> Vec<SocketAddr>) -> bool {
    let set = |urls: &[String]| urls.iter().cloned().collect::<BTreeSet<String>>();
    if set(ours) == set(theirs) {
        return true;
    }
    let addresses = |urls: &[String]| urls.iter().flat_map(|url| resolve(url)).collect::<BTreeSet<_>>();
    let resolved = addresses(ours);
    ours.len() == theirs.len() && !resolved.is_empty() && resolved == addresses(theirs)
}

fn resolve(url: &str) -> Vec<SocketAddr> {
    // A name that does not resolve equals only itself, which has been compared before.
    let parsed = Url::parse(url).ok();
    let addresses = parsed.and_then(|url| url.address().to_socket_addrs().ok());
    addresses.map(Iterator::collect).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! What fits, and what an operator reads about what does not.
    use super::*;

    fn flags(members: &[(&str, &str)]) -> Vec<(String, Vec<Url>)> {
        let member = |(name, url): &(&str, &str)| (name.to_string(), vec![Url::parse(url).expect("a URL")]);
        members.iter().map(member).collect()
    }

    fn listed(id: u64, name: &str, url: &str) -> ListedMember {
        ListedMember { id, name: name.to_owned(), peer_urls: vec![url.to_owned()] }
    }

    fn find(name: &str, initial: &[(&str, &str)], members: &[ListedMember]) -> Result<JoinedCluster, String> {
        let same_machine = |url: &str| match url {
            "http://a:1" | "http://alias:1" => vec![SocketAddr::from(([10, 0, 0, 1], 1))],
            _ => Vec::new(),
        };
        find_own(name, &flags(initial), (7, 0), members.to_vec(), &same_machine)
    }

    #[test]
    fn a_member_finds_itself_by_its_urls() {
        let initial = [("m1", "http://alias:1"), ("m2", "http://b:1")];
        let joined = find("m2", &initial, &[listed(1, "m1", "http://a:1"), listed(2, "", "http://b:1")]);
        let joined = joined.expect("it fits");
        assert_eq!((joined.cluster_id, joined.member_id, joined.members.len()), (7, 2, 2));
        assert_eq!(joined.members[0].peer_urls, ["http://a:1"], "the cluster's own URLs count");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let initial = [("m1", "http://a:1"), ("m2", "http://b:1")];
        let error = |members: &[ListedMember]| find("m2", &initial, members).expect_err("it does not fit");
        assert!(
            error(&[listed(1, "m1", "http://a:1")]).starts_with("member count is unequal: the cluster has 1")
        );
        let other = error(&[listed(1, "m1", "http://a:1"), listed(2, "", "http://c:1")]);
        assert_eq!(other, "PeerURLs: no match found for existing member (2, [\"http://c:1\"])");
        let started = error(&[listed(1, "m1", "http://a:1"), listed(2, "m2", "http://b:1")]);
        assert!(started.starts_with("member 2 has been started before, as \"m2\""), "{started}");
    }

    #[test]
    fn half_of_the_others_must_say_the_same() {
        let joined = |urls: [&str; 2]| {
            let initial = [("m1", urls[0]), ("m2", urls[1])];
            let listed = [listed(1, "m1", urls[0]), listed(2, "", urls[1])];
            find("m2", &initial, &listed).expect("it fits")
        };
        let forced = |joined: &JoinedCluster| JoinedCluster { lineage: 51, ..joined.clone() };
        let (new, old) = (joined(["http://a:2", "http://b:1"]), joined(["http://a:1", "http://b:1"]));
        let mut answers = Answers { needed: 2, given: Vec::new() };
        assert_eq!(answers.add(old), None);
        assert_eq!(answers.add(new.clone()), None, "one of them is old");
        assert_eq!(answers.add(forced(&new)), None, "one of them is of another lineage");
        assert_eq!(answers.shortage(), "the same members must be listed by 2 of the others, and are by 1");
        assert_eq!(answers.add(new.clone()), Some(new.clone()));
        let mut alone = Answers { needed: 1, given: Vec::new() };
        assert_eq!(alone.add(new.clone()), Some(new));
    }
}
