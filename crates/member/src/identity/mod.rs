//! Member and cluster ids, computed as etcd computes them, so that `--initial-cluster` gives the same ids here and
//! there.
//!
//! A member id is the first eight bytes, big-endian, of SHA-1 over its sorted peer URLs, the cluster token and, for a
//! member added to a running cluster, the second it was added at. A cluster id is the same over its sorted member ids.
//!
//! `--force-new-cluster` keeps both, so members of the old cluster would be taken for members of the forced one, lead
//! it and replace its data. The *lineage* of the state tells them apart: 0, a number that the forced member drew, or
//! one that was computed from the state with which a restored cluster begins. It is part of every checkpoint and
//! snapshot, and members show each other [`peer_cluster_id`]:
//!
//! ```text
//! cluster 7, never forced: members show each other 7
//! member 2 is forced and draws lineage 51: it shows 7 ^ 51 = 52; members 1 and 3 show 7: neither side connects
//! member 4 joins, and learns the lineage from member 2: both show 52
//! ```

pub mod url;

use sha1::{Digest, Sha1};

/// The id of a member. `added_at_s` (Unix seconds) is given for members added at run time, so that a member added
/// again gets another id.
pub fn member_id(peer_urls: &[String], token: &str, added_at_s: Option<i64>) -> u64 {
    let mut urls = peer_urls.to_vec();
    urls.sort();
    let mut hash = Sha1::new();
    for url in &urls {
        hash.update(url.as_bytes());
    }
    hash.update(token.as_bytes());
    if let Some(second) = added_at_s {
        hash.update(second.to_string().as_bytes());
    }
    first_eight(hash)
}

/// The id of a cluster that starts with these members.
pub fn cluster_id(member_ids: &[u64]) -> u64 {
    let mut ids = member_ids.to_vec();
    ids.sort_unstable();
    let mut hash = Sha1::new();
    for id in ids {
        hash.update(id.to_be_bytes());
    }
    first_eight(hash)
}

/// The cluster id that members of a lineage show each other in the handshake. Members of another lineage, also of
/// releases that know of none, take it for the id of another cluster.
pub fn peer_cluster_id(cluster_id: u64, lineage: u64) -> u64 {
    cluster_id ^ lineage
}

fn first_eight(hash: Sha1) -> u64 {
    let digest = hash.finalize();
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

#[cfg(test)]
mod tests {
    //! Ids that etcd itself printed.
    use super::*;

    #[test]
    fn the_default_single_member_has_the_well_known_ids() {
        let id = member_id(&["http://localhost:2380".into()], "etcd-cluster", None);
        assert_eq!(format!("{id:x}"), "8e9e05c52164694d");
        assert_eq!(format!("{:x}", cluster_id(&[id])), "cdf818194e3a8c32");
    }

    #[test]
    fn order_does_not_matter() {
        let urls = ["http://b:1".to_string(), "http://a:1".to_string()];
        let swapped = [urls[1].clone(), urls[0].clone()];
        assert_eq!(member_id(&urls, "t", None), member_id(&swapped, "t", None));
        assert_eq!(cluster_id(&[1, 2]), cluster_id(&[2, 1]));
    }

    #[test]
    fn lineages_are_told_apart_and_a_cluster_that_was_never_forced_shows_its_id() {
        assert_eq!(peer_cluster_id(7, 0), 7);
        assert_ne!(peer_cluster_id(7, 51), peer_cluster_id(7, 52));
    }
}
