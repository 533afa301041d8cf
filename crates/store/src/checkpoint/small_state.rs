//! The frame of small state: alarms, members, removed members, cluster version, command set, users and roles,
//! downgrade, lineage. Every checkpoint has it, and it replaces what the checkpoints before had. Written and read here,
//! side by side.

use api::etcdserverpb as pb;

use super::codec::{FieldReader, put_bytes, put_number, put_signed};
use super::error::{OLDEST_FORMAT, RestoreError, WITH_AUTH, WITH_COMMAND_SET, WITH_DOWNGRADE, WITH_LINEAGE};
use crate::auth::{AuthRole, AuthUser, FrozenAuth, RangePermission};
use crate::state::{ClusterMember, DOWNGRADE_COMMAND_SET, FIRST_COMMAND_SET, StoreState};

/// The first command set with users and roles, so that its checkpoints have format 4.
const FIRST_SET_WITH_AUTH: u8 = 3;

/// What the frame holds, as it was when this was made. Users and roles may be many, so they are shared with the state,
/// not copied in the hold of its lock.
pub(super) struct SmallState {
    before_auth: Vec<u8>,
    auth: Option<FrozenAuth>,
    behind_auth: Vec<u8>,
}

impl SmallState {
    /// That of a state.
    pub(super) fn of(state: &StoreState) -> SmallState {
        let format = format_of(state);
        let mut behind_auth = Vec::new();
        if has_downgrade(format) {
            let target = state.members.downgrade_target.as_deref();
            put_bytes(&mut behind_auth, target.unwrap_or_default().as_bytes());
        }
        if has_lineage(format) {
            put_number(&mut behind_auth, state.members.lineage);
        }
        let auth = has_auth(format).then(|| state.auth.freeze());
        SmallState { before_auth: put_members(state), auth, behind_auth }
    }

    /// The body of the frame.
    pub(super) fn body(self) -> Vec<u8> {
        let mut body = self.before_auth;
        if let Some(auth) = self.auth {
            put_auth(&mut body, &auth);
        }
        body.extend_from_slice(&self.behind_auth);
        body
    }
}

/// Alarms, members and the version of the cluster.
fn put_members(state: &StoreState) -> Vec<u8> {
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
    match state.members.command_set {
        _ if state.members.lineage != 0 => WITH_LINEAGE,
        FIRST_COMMAND_SET => OLDEST_FORMAT,
        set if set < FIRST_SET_WITH_AUTH => WITH_COMMAND_SET,
        set if set < DOWNGRADE_COMMAND_SET => WITH_AUTH,
        _ => WITH_DOWNGRADE,
    }
}

fn has_command_set(format: u16) -> bool {
    format >= WITH_COMMAND_SET
}

fn has_auth(format: u16) -> bool {
    format >= WITH_AUTH
}

fn has_downgrade(format: u16) -> bool {
    format >= WITH_DOWNGRADE
}

fn has_lineage(format: u16) -> bool {
    format >= WITH_LINEAGE
}

/// Replaces the small state by what the frame of a checkpoint of this format has.
pub(super) fn read(
    format: u16,
    fields: &mut FieldReader<'_>,
    state: &mut StoreState,
) -> Result<(), RestoreError> {
    state.alarms = Default::default();
    state.members = Default::default();
    state.auth = Default::default();
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
        // Only the lineage makes a state with the first command set need a format that has the set.
        let least = if has_lineage(format) { FIRST_COMMAND_SET } else { FIRST_COMMAND_SET + 1 };
        let set = u8::try_from(fields.number()?).ok().filter(|set| *set >= least);
        state.members.command_set = set.ok_or(RestoreError::Malformed("no such command set"))?;
        state.members.changed_at = fields.number()?;
    }
    if has_auth(format) {
        read_auth(fields, state)?;
    }
    if has_downgrade(format) {
        let target = fields.string()?;
        state.members.downgrade_target = (!target.is_empty()).then_some(target);
    }
    if has_lineage(format) {
        let lineage = Some(fields.number()?).filter(|lineage| *lineage != 0);
        state.members.lineage = lineage.ok_or(RestoreError::Malformed("no lineage"))?;
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

fn put_auth(out: &mut Vec<u8>, auth: &FrozenAuth) {
    out.push(u8::from(auth.is_enabled));
    put_number(out, auth.revision);
    put_number(out, auth.users().len() as u64);
    for user in auth.users() {
        put_bytes(out, user.name.as_bytes());
        put_bytes(out, &user.password);
        out.push(u8::from(user.no_password));
        put_number(out, user.roles.len() as u64);
        user.roles.iter().for_each(|role| put_bytes(out, role.as_bytes()));
    }
    put_number(out, auth.roles().len() as u64);
    for role in auth.roles() {
        put_bytes(out, role.name.as_bytes());
        put_number(out, role.permissions.len() as u64);
        for permission in &role.permissions {
            put_bytes(out, &permission.start);
            put_bytes(out, &permission.end);
            put_signed(out, permission.kind.into());
        }
    }
}

fn read_auth(fields: &mut FieldReader<'_>, state: &mut StoreState) -> Result<(), RestoreError> {
    let is_enabled = fields.byte()? != 0;
    let revision = fields.number()?;
    let users = (0..fields.number()?).map(|_| read_user(fields)).collect::<Result<Vec<_>, _>>()?;
    let roles = (0..fields.number()?).map(|_| read_role(fields)).collect::<Result<Vec<_>, _>>()?;
    state.auth.restore(is_enabled, revision, users, roles);
    Ok(())
}

fn read_user(fields: &mut FieldReader<'_>) -> Result<AuthUser, RestoreError> {
    let name = fields.string()?;
    let password = fields.bytes()?.to_vec().into();
    let no_password = fields.byte()? != 0;
    let roles = (0..fields.number()?).map(|_| fields.string()).collect::<Result<Vec<_>, _>>()?;
    if !roles.is_sorted() {
        return Err(RestoreError::Malformed("the roles of a user are not sorted"));
    }
    Ok(AuthUser { name, password, no_password, roles })
}

fn read_role(fields: &mut FieldReader<'_>) -> Result<AuthRole, RestoreError> {
    let name = fields.string()?;
    let permissions = (0..fields.number()?).map(|_| read_permission(fields)).collect::<Result<_, _>>()?;
    Ok(AuthRole { name, permissions })
}

fn read_permission(fields: &mut FieldReader<'_>) -> Result<RangePermission, RestoreError> {
    let (start, end) = (fields.bytes()?.to_vec().into(), fields.bytes()?.to_vec().into());
    let kind = i32::try_from(fields.signed()?);
    Ok(RangePermission { start, end, kind: kind.map_err(|_| RestoreError::Malformed("no such permission"))? })
}
