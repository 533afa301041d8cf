//! Entries as etcd logs them. `tests/go/utl` imports the logs of real members.

use super::*;
use api::membershippb::{
    Attributes, ClusterMemberAttrSetRequest, ClusterVersionSetRequest, DowngradeInfoSetRequest,
};

fn entry(kind: i32, data: Vec<u8>) -> WalEntry {
    WalEntry { kind, term: 2, index: 7, data: data.into() }
}

fn change(kind: i32, member_id: u64, context: &str) -> WalEntry {
    let context = Bytes::copy_from_slice(context.as_bytes());
    entry(CONF_CHANGE, EtcdConfChange { kind, member_id, context }.encode_to_vec())
}

/// A cluster of the voter 1, named `a`, and the learner 2.
fn begun() -> EtcdMembers {
    let mut members = EtcdMembers::default();
    members.take(&change(ADD_VOTER, 1, r#"{"id":1,"peerURLs":["http://h:1"],"name":"a"}"#));
    members.take(&change(
        ADD_LEARNER,
        2,
        r#"{"id":2,"peerURLs":["http://h:2"],"isLearner":true,"isPromote":false}"#,
    ));
    members
}

impl EtcdMembers {
    fn take(&mut self, entry: &WalEntry) {
        self.apply(entry).expect("it is known");
    }

    fn shown(&self) -> String {
        let member = |member: &MemberRecord| {
            let role = self.roles.get(&member.id);
            format!(
                "{} {} {} {} {}",
                member.id,
                member.name,
                role.map_or("nothing", |role| if *role == RaftRole::Learner { "learner" } else { "voter" }),
                member.peer_urls.join(","),
                member.client_urls.join(",")
            )
        };
        self.members.values().map(member).collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn conf_changes_change_members() {
    let mut members = begun();
    assert_eq!(members.shown(), "1 a voter http://h:1 ; 2  learner http://h:2 ");
    members.take(&change(ADD_VOTER, 2, r#"{"id":2,"peerURLs":null,"isPromote":true}"#));
    members.take(&change(UPDATE, 1, r#"{"id":1,"peerURLs":["http://h:9"]}"#));
    assert_eq!(members.shown(), "1 a voter http://h:9 ; 2  voter http://h:2 ");
    members.take(&change(REMOVE, 1, ""));
    members.take(&change(ADD_VOTER, 1, r#"{"id":1,"peerURLs":["http://h:1"]}"#));
    assert_eq!(
        (members.shown(), &members.removed),
        ("2  voter http://h:2 ".to_owned(), &BTreeSet::from([1]))
    );
}

#[test]
fn what_is_not_possible_has_no_effect() {
    let mut members = begun();
    let before = members.shown();
    for entry in [
        change(ADD_VOTER, 1, r#"{"id":1,"peerURLs":["http://h:7"]}"#),
        change(ADD_VOTER, 3, r#"{"id":3,"peerURLs":["http://h:2"]}"#),
        change(ADD_VOTER, 3, r#"{"id":3,"peerURLs":[],"isPromote":true}"#),
        change(UPDATE, 1, r#"{"id":1,"peerURLs":["http://h:2"]}"#),
        change(UPDATE, 3, r#"{"id":3,"peerURLs":["http://h:3"]}"#),
        change(REMOVE, 3, ""),
    ] {
        members.take(&entry);
    }
    assert_eq!((members.shown(), members.roles.len(), members.removed.len()), (before, 2, 0));
}

/// A database whose members have these ids; an odd one is a learner there.
fn recorded(ids: &[u64]) -> SmallRecords {
    let member = |id: &u64| MemberRecord {
        id: *id,
        is_learner: id % 2 == 1,
        peer_urls: vec![format!("http://h:{id}")],
        ..MemberRecord::default()
    };
    let members = ids.iter().map(member).collect();
    SmallRecords { members, removed_members: vec![9], ..SmallRecords::default() }
}

fn conf(voters: &[u64], learners: &[u64]) -> WalConfState {
    WalConfState { voters: voters.to_vec(), learners: learners.to_vec(), auto_leave: false }
}

#[test]
fn roles_are_those_of_raft() {
    let learners = |members: EtcdMembers| -> Vec<bool> {
        let imported = members.into_imported().expect("both have the same members");
        imported.members.iter().map(|member| member.learner).collect()
    };
    // Etcd 3.5.1 to 3.5.19: 1 and 3 were promoted, 2 has other URLs than before.
    let small = recorded(&[1, 2, 3]);
    let begun = || EtcdMembers::of(&small, &conf(&[1, 3], &[2]));
    assert_eq!(learners(begun()), [false, true, false]);
    let mut members = begun();
    members.take(&change(ADD_VOTER, 2, r#"{"id":2,"peerURLs":[],"isPromote":true}"#));
    members.take(&change(ADD_LEARNER, 4, r#"{"id":4,"peerURLs":["http://h:4"],"isLearner":true}"#));
    members.take(&change(REMOVE, 1, ""));
    assert_eq!(learners(members), [false, false, true]);
}

#[test]
fn conf_changes_of_the_database_change_roles_alone() {
    let small = recorded(&[1, 2]);
    let mut members = EtcdMembers::of(&small, &conf(&[7], &[]));
    let before = members.members.clone();
    for (kind, id, context) in [
        (ADD_VOTER, 1, r#"{"id":1,"peerURLs":["http://h:70"]}"#),
        (ADD_LEARNER, 2, r#"{"id":2,"peerURLs":["http://h:2"],"isLearner":true}"#),
        (ADD_VOTER, 9, r#"{"id":9,"peerURLs":["http://h:9"]}"#),
        (UPDATE, 1, r#"{"id":1,"peerURLs":["http://h:71"]}"#),
        (ADD_VOTER, 2, r#"{"id":2,"peerURLs":[],"isPromote":true}"#),
        (REMOVE, 9, ""),
        (REMOVE, 7, ""),
    ] {
        members.apply_role(&change(kind, id, context)).expect("it is known");
    }
    members.apply_role(&entry(REQUEST, vec![255])).expect("it concerns no role");
    assert_eq!((&members.members, members.removed.len()), (&before, 1));
    assert_eq!(members.roles, BTreeMap::from([(1, RaftRole::Voter), (2, RaftRole::Voter)]));
    members.apply_role(&change(ADD_VOTER, 3, r#"{"id":3,"peerURLs":[]}"#)).expect("it is known");
    assert_eq!(members.roles.len(), 3, "the record of 3 is lost, or it was not added");
    for unknown in [entry(2, Vec::new()), change(9, 1, r#"{"id":1}"#)] {
        assert!(members.apply_role(&unknown).is_err_and(|why| why.contains("kind")), "etcd does not use it");
    }
}

#[test]
fn other_members_than_rafts_are_refused() {
    for (ids, conf, why) in [
        (&[1, 2][..], conf(&[1], &[0x1f]), "the members 1, 2, but Raft's configuration has 1, 1f"),
        (&[1, 2], conf(&[1], &[]), "the members 1, 2, but Raft's configuration has 1"),
        (&[1], conf(&[], &[]), "the members 1, but Raft's configuration has none"),
    ] {
        let refused = EtcdMembers::of(&recorded(ids), &conf).into_imported().expect_err(why);
        assert!(refused.ends_with(why), "{refused}");
    }
}

#[test]
fn requests_of_both_versions_name_members_and_the_version() {
    let mut members = begun();
    let attributes = Attributes { name: "b".into(), client_urls: vec!["http://h:12".into()] };
    let named = ClusterMemberAttrSetRequest { member_id: 2, member_attributes: Some(attributes) };
    let request = pb::InternalRaftRequest {
        cluster_member_attr_set: Some(named),
        cluster_version_set: Some(ClusterVersionSetRequest { ver: "3.7.0".into() }),
        downgrade_info_set: Some(DowngradeInfoSetRequest { enabled: true, ver: "3.6.0".into() }),
        ..Default::default()
    };
    members.take(&entry(REQUEST, request.encode_to_vec()));
    assert_eq!(members.shown(), "1 a voter http://h:1 ; 2 b learner http://h:2 http://h:12");
    assert_eq!(members.cluster_version.as_deref(), Some("3.7.0"));
    assert_eq!(members.downgrade_target.as_deref(), Some("3.6.0"));
    let v2 = |path: &'static str, value: &'static str| V2Request {
        method: "PUT".into(),
        path: path.into(),
        value: value.into(),
    };
    let own = v2("/0/members/1/attributes", r#"{"name":"c","clientURLs":["http://h:11"]}"#);
    members.take(&entry(REQUEST, own.encode_to_vec()));
    let version = V2Envelope { request: Some(v2("/0/version", "3.5.0")) };
    members.take(&entry(REQUEST, version.encode_to_vec()));
    assert_eq!(members.shown(), "1 c voter http://h:1 http://h:11; 2 b learner http://h:2 http://h:12");
    assert_eq!(members.cluster_version.as_deref(), Some("3.5.0"));
    let of_client = V2Request { value: vec![0xff].into(), ..v2("/1/key", "") };
    members.take(&entry(REQUEST, of_client.encode_to_vec()));
    let over = pb::InternalRaftRequest {
        downgrade_info_set: Some(DowngradeInfoSetRequest::default()),
        ..Default::default()
    };
    members.take(&entry(REQUEST, over.encode_to_vec()));
    members.take(&entry(REQUEST, Vec::new()));
    let imported = members.into_imported().expect("a voter is left");
    assert_eq!(
        (imported.members.len(), imported.members[1].learner, imported.downgrade_target),
        (2, true, None)
    );
}

#[test]
fn what_is_not_known_is_refused() {
    let mut members = begun();
    for (entry, why) in [
        (entry(2, Vec::new()), "kind 2"),
        (change(9, 1, r#"{"id":1}"#), "kind 9"),
        (change(ADD_VOTER, 4, "{"), "not etcd's"),
    ] {
        let refused = members.apply(&entry).expect_err("it is not known");
        assert!(refused.contains(why), "{refused}");
    }
    assert!(EtcdMembers::default().into_imported().is_err(), "no member votes");
    members.take(&change(ADD_VOTER, 3, r#"{"id":3,"peerURLs":["ftp://h:3"]}"#));
    let refused = members.into_imported().expect_err("it cannot be dialled");
    assert!(refused.starts_with("member 3: URL scheme"), "{refused}");
}
