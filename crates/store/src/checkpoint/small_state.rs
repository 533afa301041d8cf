//! The frame of small state: alarms, members, removed members, cluster version. Every checkpoint has it, and it
//! replaces what the checkpoints before had. Written and read here, side by side.

use api::etcdserverpb as pb;

use super::codec::{FieldReader, put_bytes, put_number, put_signed};
use super::error::RestoreError;
use crate::state::{ClusterMember, StoreState};

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
    body
}

/// Replaces the small state by what the frame has.
pub(super) fn read(fields: &mut FieldReader<'_>, state: &mut StoreState) -> Result<(), RestoreError> {
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
