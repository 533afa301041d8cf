//! The frame of small state: alarms, members, removed members, cluster version, command set. Every checkpoint has it,
//! and it replaces what the checkpoints before had. Written and read here, side by side.

use api::etcdserverpb as pb;

use super::codec::{FieldReader, put_bytes, put_number, put_signed};
use super::error::{NEWEST_FORMAT, OLDEST_FORMAT, RestoreError};
use crate::state::{ClusterMember, FIRST_COMMAND_SET, StoreState};

/// The body of the frame.
pub(super) fn write(state: &StoreState) -> Vec<u8> {
    let mut body = Vec::new();
    let alarms = state.alarms.list(0);
    put_number(&mut body, alarms.len() as u64);
    for alarm in alarms {
        put_signed(&mut body, alarm.alarm.into());
        put_number(&mut body, alarm.member_id);
    }
    put_number(&mut body, state.members.members.len() as u64);
    for member in state.members.members.values() {
        put_member(&mut body, member);
    }
    put_number(&mut body, state.members.removed.len() as u64);
    for id in &state.members.removed {
        put_number(&mut body, *id);
    }
    put_bytes(&mut body, state.members.cluster_version.as_deref().unwrap_or_default().as_bytes());
    if has_command_set(format_of(state)) {
        put_number(&mut body, u64::from(state.members.command_set));
        put_number(&mut body, state.members.changed_at);
    }
    body
}

/// The format in which a state is written: the oldest that has all of it, so that a member of an older release can
/// read the checkpoint for as long as it can apply the cluster's commands.
pub(super) fn format_of(state: &StoreState) -> u16 {
    if state.members.command_set == FIRST_COMMAND_SET { OLDEST_FORMAT } else { NEWEST_FORMAT }
}

fn has_command_set(format: u16) -> bool {
    format > OLDEST_FORMAT
}

/// Replaces the small state by what the frame of a checkpoint of this format has.
pub(super) fn read(
    format: u16,
    fields: &mut FieldReader<'_>,
    state: &mut StoreState,
) -> Result<(), RestoreError> {
    state.alarms = Default::default();
    state.members = Default::default();
    for _ in 0..fields.number()? {
        let alarm = i32::try_from(fields.signed()?).map_err(|_| RestoreError::Malformed("no such alarm"))?;
        let member_id = fields.number()?;
        let action = pb::alarm_request::AlarmAction::Activate as i32;
        state.alarms.apply(&pb::AlarmRequest { action, member_id, alarm });
    }
    for _ in 0..fields.number()? {
        let member = read_member(fields)?;
        state.members.members.insert(member.id, member);
    }
    for _ in 0..fields.number()? {
        state.members.removed.insert(fields.number()?);
    }
    let version = fields.string()?;
    state.members.cluster_version = (!version.is_empty()).then_some(version);
    if has_command_set(format) {
        let set = u8::try_from(fields.number()?).ok().filter(|set| *set > FIRST_COMMAND_SET);
        state.members.command_set = set.ok_or(RestoreError::Malformed("no such command set"))?;
        state.members.changed_at = fields.number()?;
    }
    Ok(())
}

fn put_member(out: &mut Vec<u8>, member: &ClusterMember) {
    put_number(out, member.id);
    out.push(u8::from(member.learner));
    put_bytes(out, member.name.as_bytes());
    for urls in [&member.peer_urls, &member.client_urls] {
        put_number(out, urls.len() as u64);
        urls.iter().for_each(|url| put_bytes(out, url.as_bytes()));
    }
    put_number(out, member.incarnation);
}

fn read_member(fields: &mut FieldReader<'_>) -> Result<ClusterMember, RestoreError> {
    let id = fields.number()?;
    let learner = fields.byte()? != 0;
    let name = fields.string()?;
    let mut urls = || (0..fields.number()?).map(|_| fields.string()).collect::<Result<Vec<_>, _>>();
    let (peer_urls, client_urls) = (urls()?, urls()?);
    Ok(ClusterMember { id, name, peer_urls, client_urls, learner, incarnation: fields.number()? })
}
