//! A member without data that is to begin a cluster (`--initial-cluster-state new`) asks the other first members
//! whether it has been started before.
//!
//! If it has, its directory is lost, and it must not take part under its old id: `member::FirstStart` says why, and
//! decides. Here the others are asked, as etcd does with `GET /members` and the same second of time. Nothing is created
//! before they have been, so an operator can start the member again with other flags.
//!
//! ```text
//! all others refuse connections        nothing has begun, as far as this member can know: it begins
//! one lists this member with a name    it exits: its data is lost
//! some list others with names          it begins if enough of them answer; else it asks again, and exits after a while
//! ```

use std::time::{Duration, Instant};

use member::{FirstStart, ListedMembers, MemberStanding};
use tokio::task::JoinSet;

use super::join::{ListedMember, MAX_WAIT, ROUND_PAUSE, list_members};
use crate::config::{ServerConfig, Url};
use crate::peers::PeerHttp;

/// Time for one member to answer at one URL; etcd's.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns when the member may begin.
///
/// # Errors
/// Why it must not, and what to do.
pub(super) async fn check(config: &ServerConfig, own: (u64, u64), peers: &PeerHttp) -> Result<(), String> {
    let began = Instant::now();
    let mut is_told = false;
    let others = config.other_members().count();
    loop {
        let verdict = FirstStart::of(own.1, others, &ask_others(config, own.0, peers).await);
        if verdict == FirstStart::Begins {
            return Ok(());
        }
        let text = explain(own.1, verdict);
        if !matches!(verdict, FirstStart::Unknown { .. }) || began.elapsed() >= MAX_WAIT {
            return Err(text);
        }
        if !is_told {
            tracing::warn!("{text}");
            is_told = true;
        }
        tokio::time::sleep(ROUND_PAUSE).await;
    }
}

/// What the operator reads. The first words are etcd's.
fn explain(own_id: u64, verdict: FirstStart) -> String {
    const REPLACE: &str = "remove the member, add it again (etcdctl member remove, member add), and start it with an \
                           empty data directory and --initial-cluster-state existing";
    match verdict {
        FirstStart::Begins => String::new(),
        FirstStart::WasStarted => format!(
            "member {own_id:x} has already been bootstrapped: other members list it as started, and its data is not \
             here; if it was lost, {REPLACE}"
        ),
        FirstStart::WasRemoved => format!(
            "member {own_id:x} is no member any more: the cluster that --initial-cluster names goes on without it, and \
             its id is never used again; to run it again, add a member (etcdctl member add), and start it with \
             --initial-cluster-state existing"
        ),
        FirstStart::Unknown { answered, needed } => format!(
            "the cluster that --initial-cluster names runs already, and {answered} of the members that it \
             names answer, which cannot know whether member {own_id:x} has been started before; {needed} must answer: \
             start the others that it names first. If the data of this member was lost, {REPLACE}. If too few of the \
             others will ever run again for that, restart one of them with --force-new-cluster, and add members to it"
        ),
    }
}

/// The answers of those that know this cluster, all asked at the same time.
async fn ask_others(config: &ServerConfig, cluster_id: u64, peers: &PeerHttp) -> Vec<ListedMembers> {
    let mut asked = JoinSet::new();
    for (_, urls) in config.other_members() {
        asked.spawn(ask(urls.clone(), cluster_id, peers.clone()));
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// The answer of one member, at the first of its URLs that gives one.
async fn ask(urls: Vec<Url>, cluster_id: u64, peers: PeerHttp) -> Option<ListedMembers> {
    for url in &urls {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, list_members(url, &peers)).await;
        let Ok(Ok(((found, _), members))) = answer else { continue };
        // One of another cluster knows nothing about this one; the handshake says that it was met.
        return (found == cluster_id).then(|| {
            let standing = |member: &ListedMember| MemberStanding {
                is_published: !member.name.is_empty(),
                is_voter: !member.is_learner,
            };
            members.iter().map(|member| (member.id, standing(member))).collect()
        });
    }
    None
}

#[cfg(test)]
mod tests {
    //! Every refusal says what to do.
    use super::*;

    #[test]
    fn a_refusal_names_the_member_and_the_way_back() {
        let started = explain(0x1f, FirstStart::WasStarted);
        assert!(started.starts_with("member 1f has already been bootstrapped"), "{started}");
        let unknown = explain(0x1f, FirstStart::Unknown { answered: 1, needed: 2 });
        assert!(
            unknown.contains("1 of the members that it names answer") && unknown.contains("2 must answer"),
            "{unknown}"
        );
        for text in [started, unknown] {
            assert!(text.contains("member remove, member add"), "{text}");
        }
        let removed = explain(0x1f, FirstStart::WasRemoved);
        assert!(removed.contains("no member any more") && removed.contains("member add"), "{removed}");
    }
}
