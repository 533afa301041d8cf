//! How a member without data joins a running cluster (`--initial-cluster-state existing`): it asks the members of
//! `--initial-cluster` for the cluster's id and all members, and finds itself among them by its peer URLs.
//!
//! Nothing is created before all of that fits, so a member that was started with a mistake can be started again; one
//! that failed before it had written its first checkpoint asks again. A member answers with what it has applied, which
//! may be old, and not know that this member was started before its directory was lost. So half of the voters, rounded
//! up, must give the same answer: each quorum that can have published this member has one of them (RFC 0038). (A
//! linearizable read would wait forever where this member is the second voter: it is part of the quorum already.)
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
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use member::InitialMember;
use serde::Deserialize;
use tokio::time::Instant;

use crate::config::{ServerConfig, Url};
use crate::http;
use crate::peers::PeerHttp;

/// Time for one member to answer at one URL: a third of [`MAX_WAIT`], so that its other URLs are tried, too.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// How long answers are waited for: a member may be starting, or may not have applied yet that this one was added.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(10);

/// Time from an answer to the next question.
pub(super) const ROUND_PAUSE: Duration = Duration::from_millis(200);

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
    /// The names that `--initial-cluster` gives those that vote.
    voters: BTreeSet<String>,
}

impl JoinedCluster {
    /// Whether another answer names the same members. One that has just started may have its name in one only.
    fn says_the_same(&self, other: &JoinedCluster) -> bool {
        let members = |joined: &JoinedCluster| -> BTreeMap<u64, Vec<String>> {
            joined.members.iter().map(|member| (member.id, member.peer_urls.clone())).collect()
        };
        (self.cluster_id, self.lineage, self.member_id, &self.voters, members(self))
            == (other.cluster_id, other.lineage, other.member_id, &other.voters, members(other))
    }

    /// How many voters must give this answer. See RFC 0038.
    fn needed(&self) -> usize {
        self.voters.len().div_ceil(2)
    }
}

/// Why an answer does not let this member join.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Misfit {
    /// The member with this id has published itself: its data is lost. True whatever others say about that id.
    Started(u64, String),
    /// There is no answer, or it does not fit the flags.
    Other(String),
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
    #[serde(rename = "isLearner", default)]
    pub(super) is_learner: bool,
}

/// Asks the other members of `--initial-cluster` until enough of them give the same answer, which fits.
///
/// # Errors
/// What does not fit, or why there are too few answers.
pub(super) async fn ask_members(config: &ServerConfig, peers: &PeerHttp) -> Result<JoinedCluster, String> {
    let members: BTreeMap<&str, &[Url]> =
        config.other_members().map(|(name, urls)| (name.as_str(), urls.as_slice())).collect();
    let names: Vec<&str> = members.keys().copied().collect();
    let gathered = gather(&names, |name| ask_member(config, peers, members[name])).await;
    gathered.map_err(|error| format!("cannot fetch cluster info from peer urls: {error}"))
}

/// Asks all members at the same time, and each of them again a while after its answer, because it may not have applied
/// yet what others have. One that does not answer holds up no other.
async fn gather<'a, F: Future<Output = Result<JoinedCluster, Misfit>>>(
    names: &[&'a str],
    ask: impl Fn(&'a str) -> F,
) -> Result<JoinedCluster, String> {
    let deadline = Instant::now() + MAX_WAIT;
    let ask_after = |pause, name: &'a str| {
        let asked = &ask;
        async move {
            tokio::time::sleep(pause).await;
            (name, asked(name).await)
        }
    };
    let mut asking: FuturesUnordered<_> = names.iter().map(|name| ask_after(Duration::ZERO, name)).collect();
    let mut newest: BTreeMap<&str, Result<JoinedCluster, Misfit>> = BTreeMap::new();
    while let Ok(Some((name, answer))) = tokio::time::timeout_at(deadline, asking.next()).await {
        newest.insert(name, answer);
        let answers = Answers::of(&newest);
        if let Some(verdict) = answers.verdict() {
            return verdict;
        }
        if newest.len() == names.len() && answers.given.is_empty() {
            break;
        }
        asking.push(ask_after(ROUND_PAUSE, name));
    }
    if newest.is_empty() && !names.is_empty() {
        return Err(format!("no answer from {}", names.join(", ")));
    }
    Err(Answers::of(&newest).shortage())
}

/// Asks one member, at its URLs.
async fn ask_member(config: &ServerConfig, peers: &PeerHttp, urls: &[Url]) -> Result<JoinedCluster, Misfit> {
    let mut last = Misfit::Other("it has no peer URL".to_owned());
    for url in urls {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, list_members(url, peers)).await;
        let listed = asked.map_err(|_| "it does not answer".to_owned()).and_then(|answer| answer);
        let listed = listed.map_err(|error| Misfit::Other(format!("{url}: {error}")));
        let unfit = |error| format!("the members that {url} lists do not fit the flags: {error}");
        let joined = listed.and_then(|(cluster, listed)| {
            let joined = find_own(&config.name, &config.cluster.initial, cluster, listed, &resolve);
            joined.map_err(|misfit| match misfit {
                Misfit::Started(id, error) => Misfit::Started(id, unfit(error)),
                Misfit::Other(error) => Misfit::Other(unfit(error)),
            })
        });
        match joined {
            Ok(joined) => return Ok(joined),
            Err(misfit) => {
                let (Misfit::Started(_, error) | Misfit::Other(error)) = &misfit;
                tracing::warn!(address = url.as_str(), %error, "failed to get cluster response");
                last = misfit;
            }
        }
    }
    Err(last)
}

/// What the members have answered, each with its newest answer.
#[derive(Default)]
struct Answers {
    /// Each answer that fits, and how many voters gave it.
    given: Vec<(JoinedCluster, usize)>,
    /// Ids that a member lists as started, each with what the operator reads. An old answer may name the id that this
    /// member had before it was removed and added again, so this does not count against another id.
    started: BTreeMap<u64, String>,
    /// The last answer that does not fit.
    misfit: Option<String>,
}

impl Answers {
    fn of(newest: &BTreeMap<&str, Result<JoinedCluster, Misfit>>) -> Answers {
        let mut answers = Answers::default();
        newest.iter().for_each(|(name, answer)| answers.add(name, answer.clone()));
        answers
    }

    /// Adds the answer of the member that the flags call `name`.
    fn add(&mut self, name: &str, answer: Result<JoinedCluster, Misfit>) {
        let joined = match answer {
            Ok(joined) => joined,
            Err(Misfit::Started(id, error)) => return drop(self.started.insert(id, error)),
            Err(Misfit::Other(error)) => return self.misfit = Some(error),
        };
        let position = self.given.iter().position(|(given, _)| given.says_the_same(&joined));
        let position = position.unwrap_or(self.given.len());
        // A learner is part of no quorum.
        let votes = usize::from(joined.voters.contains(name));
        if position == self.given.len() {
            self.given.push((joined, 0));
        }
        self.given[position].1 += votes;
    }

    /// What follows, if these answers are enough.
    fn verdict(&self) -> Option<Result<JoinedCluster, String>> {
        let lost = self.given.iter().find_map(|(joined, _)| self.started.get(&joined.member_id));
        if let Some(error) = lost {
            return Some(Err(error.clone()));
        }
        let mut given = self.given.iter();
        given.find(|(joined, count)| *count >= joined.needed()).map(|(joined, _)| Ok(joined.clone()))
    }

    /// Why they are not enough.
    fn shortage(&self) -> String {
        if let Some((joined, count)) = self.given.iter().max_by_key(|(_, count)| *count) {
            return format!(
                "the same members must be listed by {} of the voters, and are by {count}: start the others first",
                joined.needed()
            );
        }
        let started = self.started.values().next().or(self.misfit.as_ref());
        let alone = "--initial-cluster names no other member; each needs a name of its own";
        started.map_or_else(|| alone.to_owned(), Clone::clone)
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
    Ok(((cluster_id, lineage), read_list(Body::new(response.into_body())).await?))
}

/// The members in the body of an answer.
async fn read_list(body: Body) -> Result<Vec<ListedMember>, String> {
    let body = axum::body::to_bytes(body, MAX_LIST_BYTES).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Compares the members that a cluster lists with those of `--initial-cluster`, and finds this one among them.
fn find_own(
    name: &str,
    initial: &[(String, Vec<Url>)],
    (cluster_id, lineage): ListedCluster,
    listed: Vec<ListedMember>,
    resolve: &dyn Fn(&str) -> Vec<SocketAddr>,
) -> Result<JoinedCluster, Misfit> {
    if listed.len() != initial.len() {
        return Err(Misfit::Other(format!(
            "member count is unequal: the cluster has {}, --initial-cluster {}; name all members there, and add this \
             one to the cluster (etcdctl member add) before it is started",
            listed.len(),
            initial.len()
        )));
    }
    let named = |member: &ListedMember| {
        initial.iter().find(|(_, urls)| {
            let urls: Vec<String> = urls.iter().map(|url| url.as_str().to_owned()).collect();
            are_equal(&urls, &member.peer_urls, resolve)
        })
    };
    let mut own = None;
    let mut voters = BTreeSet::new();
    for member in &listed {
        let Some((found, _)) = named(member) else {
            return Err(Misfit::Other(format!(
                "PeerURLs: no match found for existing member ({:x}, {:?})",
                member.id, member.peer_urls
            )));
        };
        if !member.is_learner {
            voters.insert(found.clone());
        }
        if found == name {
            own = Some(member.clone());
        }
    }
    let absent = || format!("no member has the peer URLs that --initial-cluster gives {name:?}");
    let own = own.ok_or_else(|| Misfit::Other(absent()))?;
    if !own.name.is_empty() {
        let error = format!(
            "member {:x} has been started before, as {:?}, and its data is not here; if it was lost, remove the \
             member and add it again",
            own.id, own.name
        );
        return Err(Misfit::Started(own.id, error));
    }
    let members = listed.into_iter().map(|member| InitialMember {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
    });
    Ok(JoinedCluster { cluster_id, lineage, member_id: own.id, members: members.collect(), voters })
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
mod tests;
