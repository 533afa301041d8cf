//! How a member without data joins a running cluster (`--initial-cluster-state existing`): it asks the members of
//! `--initial-cluster` for the cluster's id and all members, and finds itself among them by its peer URLs.
//!
//! Nothing is created before all of that fits, so a member that was started with a mistake can be started again.
//!
//! ```text
//! --name m3 --initial-cluster m1=http://a:2380,m2=http://b:2380,m3=http://c:2380
//!   GET http://a:2380/members -> cluster 7: 1f (m1, http://a:2380), 2e (m2, http://b:2380), 3d (no name yet, http://c:2380)
//!   -> this is member 3d of cluster 7
//! ```

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header::HOST};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use member::InitialMember;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::config::{ServerConfig, Url};

/// Time for one member to answer; etcd's.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest list of members that is read.
const MAX_LIST_BYTES: usize = 4 << 20;

/// The cluster that a member joins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JoinedCluster {
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
    /// All members, this one among them.
    pub(super) members: Vec<InitialMember>,
}

/// A member in the answer to `GET /members`.
#[derive(Clone, Debug, Deserialize)]
struct ListedMember {
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
}

/// Asks the other members of `--initial-cluster`, one after the other, until an answer fits.
///
/// # Errors
/// What does not fit, or why there is no answer; the last of these.
pub(super) async fn ask_members(config: &ServerConfig) -> Result<JoinedCluster, String> {
    let mut last = "--initial-cluster names no other member".to_owned();
    let others = config.cluster.initial.iter().filter(|(name, _)| *name != config.name);
    for url in others.flat_map(|(_, urls)| urls) {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, list_members(url)).await;
        let listed = asked.map_err(|_| "it does not answer".to_owned()).and_then(|answer| answer);
        let joined = listed.map_err(|error| format!("{url}: {error}")).and_then(|(cluster_id, listed)| {
            let joined = find_own(&config.name, &config.cluster.initial, cluster_id, listed, &resolve);
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
    Err(format!("cannot fetch cluster info from peer urls: {last}"))
}

/// The cluster id and the members that the member at `url` knows.
async fn list_members(url: &Url) -> Result<(u64, Vec<ListedMember>), String> {
    if url.scheme().is_secure() || url.scheme().is_unix() {
        return Err("members are asked over http only".to_owned());
    }
    let text = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(url.address()).await.map_err(|error| text(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = Request::get("/members").header(HOST, url.address()).body(Body::empty());
    let request = request.map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    let cluster = response.headers().get("x-etcd-cluster-id").and_then(|id| id.to_str().ok());
    let cluster = cluster.and_then(|id| u64::from_str_radix(id, 16).ok());
    let cluster_id = cluster.ok_or("its answer names no cluster id")?;
    let body = axum::body::to_bytes(Body::new(response.into_body()), MAX_LIST_BYTES).await;
    let members: Vec<ListedMember> =
        serde_json::from_slice(&body.map_err(|error| text(&error))?).map_err(|error| text(&error))?;
    Ok((cluster_id, members))
}

/// Compares the members that a cluster lists with those of `--initial-cluster`, and finds this one among them.
fn find_own(
    name: &str,
    initial: &[(String, Vec<Url>)],
    cluster_id: u64,
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
    Ok(JoinedCluster { cluster_id, member_id: own.id, members: members.collect() })
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
        find_own(name, &flags(initial), 7, members.to_vec(), &same_machine)
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
}
