//! Asks all members how they are.

use api::etcdserverpb as pb;
use api::methods;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{CallError, Client, ClientOptions, Endpoint};
use crate::exit::Exit;
use crate::shell::{Shell, open};

/// A member, and what it said.
pub(super) struct Asked {
    pub(super) member: pb::Member,
    /// The first of its client URLs, if it has one that can be used.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) status: Result<pb::StatusResponse, CallError>,
}

impl Asked {
    /// Its name, or its id while it has none.
    pub(super) fn name(&self) -> String {
        match self.member.name.as_str() {
            "" => format!("{:x}", self.member.id),
            name => name.to_owned(),
        }
    }

    /// Its client URL, for people.
    pub(super) fn url(&self) -> &str {
        self.endpoint.as_ref().map_or("no client URL", |endpoint| &endpoint.name)
    }

    /// Whether it leads, as it sees it.
    pub(super) fn leads(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| status.leader == self.member.id)
    }
}

/// The members, from whichever endpoint answers: without consensus, which a cluster in trouble may not reach.
pub(super) async fn members(shell: &mut Shell) -> Result<(ClientOptions, Client, Vec<pb::Member>), Exit> {
    let options = shell.client_options().await?;
    let deadline = shell.deadline();
    let client = open(options.clone()).await?;
    let request = pb::MemberListRequest { linearizable: false };
    let list: pb::MemberListResponse = client.read(methods::CLUSTER_MEMBER_LIST, &request, deadline).await?;
    let mut members = list.members;
    members.sort_by(|left, right| left.name.cmp(&right.name));
    Ok((options, client, members))
}

/// Asks each member for its status, all at once.
pub(super) async fn ask(options: &ClientOptions, members: &[pb::Member]) -> Vec<Asked> {
    let mut asked = JoinSet::new();
    for (at, member) in members.iter().cloned().enumerate() {
        let options = options.clone();
        asked.spawn(async move { (at, ask_one(options, member).await) });
    }
    let mut asked = asked.join_all().await;
    asked.sort_by_key(|(at, _)| *at);
    asked.into_iter().map(|(_, asked)| asked).collect()
}

async fn ask_one(options: ClientOptions, member: pb::Member) -> Asked {
    let endpoint = member.client_urls.iter().find_map(|url| Endpoint::parse(url).ok());
    let Some(endpoint) = endpoint else {
        return Asked { member, endpoint: None, status: Err(CallError::Deadline) };
    };
    let deadline = Some(Instant::now() + options.dial_timeout);
    let options = ClientOptions { endpoints: vec![endpoint.clone()], ..options };
    let status = match Client::open(options).await {
        Ok(client) => client.read(methods::MAINTENANCE_STATUS, &pb::StatusRequest {}, deadline).await,
        Err(error) => Err(error),
    };
    Asked { member, endpoint: Some(endpoint), status }
}
