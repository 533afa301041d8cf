//! The JSON of etcd's messages: the names of their fields, in order.

use api::{authpb, etcdserverpb as pb, mvccpb};

use crate::print::json::{Object, ToJson};

/// Declares the JSON of messages; a field's name there is given where it differs.
macro_rules! messages {
    ($($kind:ty { $($field:ident $(= $name:literal)?),* })*) => {
        $(impl ToJson for $kind {
            fn json(&self, out: &mut String) {
                let mut object = Object::new(out);
                $(object.field(messages!(@name $field $($name)?), &self.$field);)*
                object.end();
            }
            fn is_left_out(&self) -> bool {
                false
            }
        })*
    };
    (@name $field:ident $name:literal) => { $name };
    (@name $field:ident) => { stringify!($field) };
}

messages! {
    pb::ResponseHeader { cluster_id, member_id, revision, raft_term }
    mvccpb::KeyValue { key, create_revision, mod_revision, version, value, lease }
    mvccpb::Event { r#type = "type", kv, prev_kv }
    pb::RangeResponse { header, kvs, more, count }
    pb::PutResponse { header, prev_kv }
    pb::DeleteRangeResponse { header, deleted, prev_kvs }
    pb::TxnResponse { header, succeeded, responses }
    pb::LeaseRevokeResponse { header }
    pb::Member { id = "ID", name, peer_urls = "peerURLs", client_urls = "clientURLs", is_learner = "isLearner" }
    pb::MemberAddResponse { header, member, members }
    pb::MemberRemoveResponse { header, members }
    pb::MemberUpdateResponse { header, members }
    pb::MemberListResponse { header, members }
    pb::MemberPromoteResponse { header, members }
    pb::AlarmMember { member_id = "memberID", alarm }
    pb::AlarmResponse { header, alarms }
    pb::MoveLeaderResponse { header }
    pb::DowngradeResponse { header, version }
    pb::DowngradeInfo { enabled, target_version = "targetVersion" }
    pb::StatusResponse {
        header, version, db_size = "dbSize", leader, raft_index = "raftIndex", raft_term = "raftTerm",
        raft_applied_index = "raftAppliedIndex", errors, db_size_in_use = "dbSizeInUse", is_learner = "isLearner",
        storage_version = "storageVersion", db_size_quota = "dbSizeQuota", downgrade_info = "downgradeInfo"
    }
    pb::HashKvResponse { header, hash, compact_revision, hash_revision }
    authpb::Permission { perm_type = "permType", key, range_end }
    pb::AuthStatusResponse { header, enabled, auth_revision = "authRevision" }
    pb::AuthUserAddResponse { header }
    pb::AuthUserGetResponse { header, roles }
    pb::AuthUserDeleteResponse { header }
    pb::AuthUserChangePasswordResponse { header }
    pb::AuthUserGrantRoleResponse { header }
    pb::AuthUserRevokeRoleResponse { header }
    pb::AuthUserListResponse { header, users }
    pb::AuthRoleAddResponse { header }
    pb::AuthRoleGetResponse { header, perm }
    pb::AuthRoleListResponse { header, roles }
    pb::AuthRoleDeleteResponse { header }
    pb::AuthRoleGrantPermissionResponse { header }
    pb::AuthRoleRevokePermissionResponse { header }
}

impl ToJson for pb::ResponseOp {
    fn json(&self, out: &mut String) {
        use pb::response_op::Response;
        let mut inner = String::new();
        let mut object = Object::new(&mut inner);
        match &self.response {
            Some(Response::ResponseRange(response)) => object.always("response_range", response),
            Some(Response::ResponsePut(response)) => object.always("response_put", response),
            Some(Response::ResponseDeleteRange(response)) => object.always("response_delete_range", response),
            Some(Response::ResponseTxn(response)) => object.always("response_txn", response),
            None => &mut object,
        }
        .end();
        Object::new(out).raw("Response", &inner).end();
    }

    fn is_left_out(&self) -> bool {
        false
    }
}

/// The header of answers that have none of their own in JSON: its fields stand among theirs.
pub(crate) fn header_fields(object: &mut Object<'_>, header: &Option<pb::ResponseHeader>) {
    if let Some(header) = header {
        object
            .field("cluster_id", &header.cluster_id)
            .field("member_id", &header.member_id)
            .field("revision", &header.revision)
            .field("raft_term", &header.raft_term);
    }
}

/// An answer about members with ids as hexadecimal numbers, as `--hex` asks for.
pub(crate) struct HexMembers<'a> {
    pub(crate) header: &'a Option<pb::ResponseHeader>,
    /// The member that was added.
    pub(crate) added: Option<&'a pb::Member>,
    pub(crate) members: &'a [pb::Member],
}

struct HexMember<'a>(&'a pb::Member);

impl ToJson for HexMember<'_> {
    fn json(&self, out: &mut String) {
        Object::new(out)
            .always("ID", &format!("{:x}", self.0.id))
            .field("name", &self.0.name)
            .field("peerURLs", &self.0.peer_urls)
            .field("clientURLs", &self.0.client_urls)
            .field("isLearner", &self.0.is_learner)
            .end();
    }

    fn is_left_out(&self) -> bool {
        false
    }
}

impl ToJson for HexMembers<'_> {
    fn json(&self, out: &mut String) {
        let mut header = String::new();
        if let Some(fields) = self.header {
            Object::new(&mut header)
                .always("cluster_id", &format!("{:x}", fields.cluster_id))
                .always("member_id", &format!("{:x}", fields.member_id))
                .field("revision", &fields.revision)
                .field("raft_term", &fields.raft_term)
                .end();
        }
        let mut object = Object::new(out);
        object.raw("header", &header);
        if let Some(added) = self.added {
            object.always("member", &HexMember(added));
        }
        let members: Vec<HexMember<'_>> = self.members.iter().map(HexMember).collect();
        object.always("members", &members).end();
    }

    fn is_left_out(&self) -> bool {
        false
    }
}
