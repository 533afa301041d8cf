//! Finds the leader, and the members' addresses.

use std::rc::Rc;

use api::etcdserverpb as pb;
use api::methods;
use ctl::{CallError, Endpoint};

use super::{Dialling, Lane, Login};

/// The addresses of the leader, asked for at the first endpoint that knows it.
///
/// # Errors
/// No endpoint knows a leader, or the leader's addresses are not known.
pub(crate) async fn leader_endpoints(
    endpoints: &[Endpoint],
    dialling: &Rc<Dialling>,
    login: Option<&Login>,
) -> Result<Vec<Endpoint>, CallError> {
    let mut last = CallError::status(14, "no endpoint knows a leader".to_owned());
    for endpoint in endpoints {
        match leader_at(endpoint, dialling, login).await {
            Ok(urls) if !urls.is_empty() => return Ok(urls),
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn leader_at(
    endpoint: &Endpoint,
    dialling: &Rc<Dialling>,
    login: Option<&Login>,
) -> Result<Vec<Endpoint>, CallError> {
    let lane = Lane::open(endpoint.clone(), Rc::clone(dialling), login.cloned()).await?;
    let status: pb::StatusResponse = lane.ask(methods::MAINTENANCE_STATUS, &pb::StatusRequest {}).await?;
    let request = pb::MemberListRequest { linearizable: false };
    let list: pb::MemberListResponse = lane.ask(methods::CLUSTER_MEMBER_LIST, &request).await?;
    let leader = list.members.into_iter().find(|member| member.id == status.leader);
    let urls = leader.map(|leader| leader.client_urls).unwrap_or_default();
    Ok(urls.iter().filter_map(|url| Endpoint::parse(url).ok()).collect())
}
