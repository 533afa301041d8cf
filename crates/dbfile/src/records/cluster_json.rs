//! The records that are JSON, as Go's encoder writes them: fields in this order, and without those that are left out if
//! empty.

use serde::{Deserialize, Deserializer, Serialize};

/// A member, in the bucket `members`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its id.
    pub id: u64,
    /// URLs for peers.
    #[serde(rename = "peerURLs", default, deserialize_with = "list_or_null")]
    pub peer_urls: Vec<String>,
    /// Whether it has no vote.
    #[serde(rename = "isLearner", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_learner: bool,
    /// Its name; empty until it has started.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URLs for clients; empty until it has started.
    #[serde(
        rename = "clientURLs",
        default,
        deserialize_with = "list_or_null",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub client_urls: Vec<String>,
}

/// The configuration of Raft, in the bucket `meta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfStateRecord {
    /// Members with a vote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters: Vec<u64>,
    /// Members without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learners: Vec<u64>,
    /// Voters of the configuration before, during a change of several members; etcd makes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub voters_outgoing: Vec<u64>,
    /// Learners from the end of such a change on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learners_next: Vec<u64>,
    /// Whether such a change ends by itself.
    #[serde(default)]
    pub auto_leave: bool,
}

/// A downgrade that an operator has begun, in the bucket `cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DowngradeRecord {
    /// The version to go to; empty if there is no downgrade.
    #[serde(rename = "target-version", default)]
    pub target_version: String,
    /// Whether there is one.
    #[serde(default)]
    pub enabled: bool,
}

/// Go writes a list that was never set as null.
fn list_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    //! The bytes that etcd writes, both ways. The golden files of etcd have more of them.
    use super::*;

    #[test]
    fn members_are_written_as_by_etcd() {
        let text = r#"{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default","clientURLs":["http://localhost:2379"]}"#;
        let member: MemberRecord = serde_json::from_str(text).unwrap();
        assert_eq!((member.id, member.is_learner), (0x8e9e_05c5_2164_694d, false));
        assert_eq!(serde_json::to_string(&member).unwrap(), text);
        let joining: MemberRecord =
            serde_json::from_str(r#"{"id":7,"peerURLs":null,"isLearner":true}"#).unwrap();
        assert!(joining.is_learner && joining.peer_urls.is_empty());
    }

    #[test]
    fn the_configuration_is_written_as_by_etcd() {
        let text = r#"{"voters":[1,2],"learners":[3],"auto_leave":false}"#;
        let conf: ConfStateRecord = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&conf).unwrap(), text);
        let text = r#"{"target-version":"3.6.0","enabled":true}"#;
        let downgrade: DowngradeRecord = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&downgrade).unwrap(), text);
    }
}
