//! The Maintenance service, without snapshots, and the Admin service.

mod downgrade;
mod reload;

use api::etcdserverpb as pb;
use api::version;
use bytes::Bytes;
use member::Input;
use member::batch::CommandKind;
use pb::alarm_request::AlarmAction;
use store::{HashKvReply, Reply};

pub(super) use downgrade::downgrade;
pub(super) use reload::reload;

use super::call::{Call, decode};
use crate::grpc::{EncodedMessage, Failure};
use crate::node::Node;

/// etcd's default quota, which clients see when none was set.
const REPORTED_QUOTA_BYTES: i64 = 2 * 1024 * 1024 * 1024;

pub(super) async fn alarm(node: &Node, call: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::AlarmRequest = decode(body.clone())?;
    let alarms = if request.action == AlarmAction::Get as i32 {
        node.linearize().await?;
        let all = request.alarm == pb::AlarmType::None as i32;
        node.reader.alarms().into_iter().filter(|alarm| all || alarm.alarm == request.alarm).collect()
    } else {
        // To list alarms, any user will do; a change is checked where it is applied.
        let caller = node.identify_writer(&call.credentials).await?;
        match node.propose_for(&call.times, CommandKind::Alarm, caller, body).await? {
            Reply::Alarm { alarms, .. } => alarms,
            _ => return Err(Failure::unexpected()),
        }
    };
    Ok(EncodedMessage::message(&pb::AlarmResponse { header: Some(node.header_now()), alarms }))
}

pub(super) async fn status(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::StatusRequest>(body)?;
    let leader = node.status.leader();
    let mut errors = Vec::new();
    if leader == 0 {
        errors.push("etcdserver: no leader".to_owned());
    }
    errors.extend(node.reader.alarms().iter().map(alarm_text));
    let target = node.reader.downgrade_target();
    let (quota, sizes) = (node.live.quota_bytes(), node.db_sizes());
    let response = pb::StatusResponse {
        header: Some(node.header_now()),
        version: version::ETCD_VERSION.to_owned(),
        db_size: sizes.total as i64,
        leader,
        raft_index: node.status.committed_index(),
        raft_term: node.status.term(),
        raft_applied_index: node.status.applied_index(),
        errors,
        db_size_in_use: sizes.in_use as i64,
        is_learner: node.is_learner(),
        storage_version: node.storage_version(),
        db_size_quota: if quota == 0 { REPORTED_QUOTA_BYTES } else { quota as i64 },
        downgrade_info: Some(pb::DowngradeInfo {
            enabled: target.is_some(),
            target_version: target.unwrap_or_default(),
        }),
    };
    Ok(EncodedMessage::message(&response))
}

/// As Go prints an alarm: fields that are zero are left out. (It puts one or two spaces between them, by the
/// build.)
fn alarm_text(alarm: &pb::AlarmMember) -> String {
    let mut fields = Vec::new();
    if alarm.member_id != 0 {
        fields.push(format!("memberID:{}", alarm.member_id));
    }
    match pb::AlarmType::try_from(alarm.alarm) {
        Ok(pb::AlarmType::None) => {}
        Ok(kind) => fields.push(format!("alarm:{}", kind.as_str_name())),
        Err(_) => fields.push(format!("alarm:{}", alarm.alarm)),
    }
    fields.join(" ")
}

/// Answers at once: from now on, space is returned eagerly in the background.
pub(super) async fn defragment(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::DefragmentRequest>(body)?;
    let timer = node.metrics.events.defragment.start_timer();
    node.handoff.submit(Input::Defragment);
    timer.observe_duration();
    Ok(EncodedMessage::message(&pb::DefragmentResponse { header: None }))
}

/// A hash of this member's state: comparable between members, not with etcd's hash of its file.
pub(super) async fn hash(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    decode::<pb::HashRequest>(body)?;
    let (_, hash) = node.metrics.events.hash.observe_closure_duration(|| node.reader.state_hash());
    Ok(EncodedMessage::message(&pb::HashResponse {
        header: Some(node.header_now()),
        hash: (hash ^ (hash >> 32)) as u32,
    }))
}

pub(super) async fn hash_kv(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::HashKvRequest = decode(body)?;
    let HashKvReply { hash, compact_revision, hash_revision, revision } =
        node.hash_kv(request.revision).await?;
    let header = Some(node.header(revision));
    Ok(EncodedMessage::message(&pb::HashKvResponse { header, hash, compact_revision, hash_revision }))
}

pub(super) async fn move_leader(node: &Node, _: &Call, body: Bytes) -> Result<EncodedMessage, Failure> {
    let request: pb::MoveLeaderRequest = decode(body)?;
    node.move_leader(request.target_id).await?;
    Ok(EncodedMessage::message(&pb::MoveLeaderResponse { header: None }))
}
