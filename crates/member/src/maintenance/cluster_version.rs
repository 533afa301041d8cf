//! The cluster version, which the leader keeps in step with the release of the members and with a downgrade.
//!
//! ```text
//! no version yet                     3.7.0: what all members of this release can do
//! downgrade to 3.6 enabled           3.6.0: clients and tools see the older version, nothing else changes
//! downgrade cancelled                3.7.0 again
//! ```
//!
//! A version that is newer than this release, and no downgrade, is that of a newer member, and left alone.

use api::membershippb::ClusterVersionSetRequest;
use api::version::{CLUSTER_VERSION, ClusterVersion};
use bytes::Bytes;
use prost::Message;

/// When the leader last proposed a version.
#[derive(Debug, Default)]
pub(crate) struct ClusterVersions {
    proposed_at_ns: Option<u64>,
}

impl ClusterVersions {
    /// The command that sets the version that the cluster should have, if it has another and none was proposed for
    /// `again_ns`.
    pub(crate) fn propose(
        &mut self,
        (now_ns, again_ns): (u64, u64),
        present: Option<String>,
        downgrade_target: Option<String>,
    ) -> Option<Bytes> {
        let ver = wanted(present, downgrade_target)?;
        if self.proposed_at_ns.is_some_and(|at_ns| now_ns < at_ns + again_ns) {
            return None;
        }
        self.proposed_at_ns = Some(now_ns);
        Some(ClusterVersionSetRequest { ver }.encode_to_vec().into())
    }

    /// A version was set: the next may be proposed at once.
    pub(crate) fn settled(&mut self) {
        self.proposed_at_ns = None;
    }
}

/// The version that the cluster should have, unless it has it.
fn wanted(present: Option<String>, downgrade_target: Option<String>) -> Option<String> {
    let Some(present) = present else { return Some(CLUSTER_VERSION.to_owned()) };
    match downgrade_target {
        Some(target) => (target != present).then_some(target),
        None => {
            let is_older = ClusterVersion::parse(&present) < ClusterVersion::parse(CLUSTER_VERSION);
            is_older.then(|| CLUSTER_VERSION.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which version is proposed, and how often.
    use super::*;

    #[test]
    fn the_version_follows_the_downgrade() {
        let wanted = |present: Option<&str>, target: Option<&str>| {
            wanted(present.map(str::to_owned), target.map(str::to_owned))
        };
        assert_eq!(wanted(None, None).as_deref(), Some(CLUSTER_VERSION));
        assert_eq!(wanted(Some(CLUSTER_VERSION), None), None);
        assert_eq!(wanted(Some(CLUSTER_VERSION), Some("3.6.0")).as_deref(), Some("3.6.0"));
        assert_eq!(wanted(Some("3.6.0"), Some("3.6.0")), None);
        assert_eq!(wanted(Some("3.6.0"), None).as_deref(), Some(CLUSTER_VERSION));
        assert_eq!(wanted(Some("3.8.0"), None), None, "a newer release leads next");
    }

    #[test]
    fn a_version_is_proposed_again_when_it_may_be_lost() {
        let mut versions = ClusterVersions::default();
        let propose =
            |versions: &mut ClusterVersions, now_ns| versions.propose((now_ns, 100), None, None).is_some();
        assert!(propose(&mut versions, 5));
        assert!(!propose(&mut versions, 104));
        assert!(propose(&mut versions, 105));
        versions.settled();
        assert!(propose(&mut versions, 106));
    }
}
