//! The first members of a cluster register at a discovery service: a cluster that speaks etcd's API, and runs already.
//!
//! ```text
//! an operator   put /_etcd/registry/TOKEN/_config/size 3
//! each member   get /_etcd/registry/TOKEN/_config/size              3
//!               get /_etcd/registry/TOKEN/members/ --prefix         fewer than 3 others
//!               put /_etcd/registry/TOKEN/members/1f2e m1=http://10.0.0.1:2380
//!               get /_etcd/registry/TOKEN/members/ --prefix         until there are 3
//! ```
//!
//! The first three that registered are the cluster, by the revisions at which their keys were created; a fourth one is
//! refused. The keys, their order and the errors are etcd's, so members of both systems can meet there. Members look
//! for the others by asking again, instead of watching. A service that does not answer is asked again forever, as in
//! etcd.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use api::mvccpb::KeyValue;
use member::identity::member_id;
use rustls::ClientConfig;

use crate::config::{ServiceDiscovery, Url, parse_initial_cluster};
use crate::grpc_client::GrpcClient;
use crate::tls::service_client;

/// Time between two looks for members that have not registered yet.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Seconds to wait after the first failure; they double with each one that follows.
const FIRST_RETRY_SECONDS: u64 = 2;

/// Most seconds to wait; etcd's.
const MAX_RETRY_SECONDS: u64 = 256;

/// A member that has registered.
#[derive(Debug, PartialEq, Eq)]
struct Registered {
    created_at: i64,
    key: Vec<u8>,
    /// `name=URL,name=URL`.
    urls: String,
}

/// Why the service is not asked again.
enum LookFailure {
    /// It could not be asked: it is, later.
    Retry(String),
    /// For good.
    Final(&'static str),
}

/// Registers this member and waits for the others; returns all, by name.
///
/// # Errors
/// The service has no such cluster, the cluster is full, or a member registered something else than URLs.
pub(super) async fn join(
    service: &ServiceDiscovery,
    own_name: &str,
    advertised: &[Url],
) -> Result<Vec<(String, Vec<Url>)>, String> {
    let texts: Vec<String> = advertised.iter().map(|url| url.as_str().to_owned()).collect();
    let is_secure = |endpoint: &String| service.security.address_of(endpoint).1;
    let tls = match service.endpoints.iter().any(is_secure) {
        true => Some(service_client(&service.security).map_err(|error| error.to_string())?),
        false => None,
    };
    let registry = Registry {
        prefix: format!("/_etcd/registry/{}", service.token),
        own_id: member_id(&texts, &service.token, None),
        service,
        tls,
    };
    let pairs: Vec<String> = texts.iter().map(|url| format!("{own_name}={url}")).collect();
    registry.repeat(async || registry.look().await.map(drop)).await?;
    registry.repeat(async || registry.register(&pairs.join(",")).await).await?;
    loop {
        let (size, members) = registry.repeat(async || registry.look().await).await?;
        if members.len() >= size {
            let urls: Vec<&str> = members.iter().take(size).map(|member| member.urls.as_str()).collect();
            tracing::info!(initial_cluster = urls.join(","), "the discovery service knows all members");
            return parse_initial_cluster(&urls.join(","))
                .map_err(|_| "discovery: invalid peer URL".to_owned());
        }
        tracing::info!(size, found = members.len(), "waiting for peers from discovery service");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// What the service keeps about the cluster.
struct Registry<'a> {
    prefix: String,
    own_id: u64,
    service: &'a ServiceDiscovery,
    tls: Option<Arc<ClientConfig>>,
}

impl Registry<'_> {
    /// Does something until the service can be asked.
    async fn repeat<T>(&self, attempt: impl AsyncFn() -> Result<T, LookFailure>) -> Result<T, String> {
        let mut seconds = FIRST_RETRY_SECONDS;
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(LookFailure::Final(error)) => return Err(error.to_owned()),
                Err(LookFailure::Retry(error)) => {
                    tracing::warn!(error, backoff_seconds = seconds, "retry connecting to discovery service");
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    seconds = (2 * seconds).min(MAX_RETRY_SECONDS);
                }
            }
        }
    }

    /// The size of the cluster, and the members that have registered, in order. They must leave room for this one.
    async fn look(&self) -> Result<(usize, Vec<Registered>), LookFailure> {
        let client = self.client().await?;
        let size = self.get(&client, format!("{}/_config/size", self.prefix), false).await?;
        let size = size.first().ok_or(LookFailure::Final("discovery: size key not found"))?;
        let size = std::str::from_utf8(&size.value).ok().and_then(|text| text.parse().ok());
        let size: usize =
            size.filter(|size| *size > 0).ok_or(LookFailure::Final("discovery: size key is bad"))?;
        let found = self.get(&client, format!("{}/members", self.prefix), true).await?;
        let members = in_order(found);
        let own = self.own_key().into_bytes();
        match members.iter().take(size).any(|member| member.key == own) || members.len() < size {
            true => Ok((size, members)),
            false => Err(LookFailure::Final("discovery: cluster is full")),
        }
    }

    async fn register(&self, urls: &str) -> Result<(), LookFailure> {
        let (key, value) = (self.own_key().into(), urls.to_owned().into());
        let put = pb::PutRequest { key, value, ..pb::PutRequest::default() };
        let client = self.client().await?;
        let answer = client.call::<pb::PutResponse>("/etcdserverpb.KV/Put", &put).await;
        answer.map(drop).map_err(LookFailure::Retry)
    }

    fn own_key(&self) -> String {
        format!("{}/members/{:x}", self.prefix, self.own_id)
    }

    async fn get(&self, client: &GrpcClient, key: String, all: bool) -> Result<Vec<KeyValue>, LookFailure> {
        // All keys that begin with this one come before it with its last byte one larger, which is a letter here.
        let mut end = key.clone().into_bytes();
        end.last_mut().into_iter().for_each(|last| *last += 1);
        let range_end = if all { end.into() } else { bytes::Bytes::new() };
        let range = pb::RangeRequest { key: key.into(), range_end, ..pb::RangeRequest::default() };
        let answer = client.call::<pb::RangeResponse>("/etcdserverpb.KV/Range", &range).await;
        answer.map(|answer| answer.kvs).map_err(LookFailure::Retry)
    }

    /// A client of the service, as the user that the flags name.
    async fn client(&self) -> Result<GrpcClient, LookFailure> {
        let ServiceDiscovery { endpoints, dial_timeout, request_timeout, user, security, .. } = self.service;
        let mut client = GrpcClient {
            endpoints: endpoints.clone(),
            security: security.clone(),
            tls: self.tls.clone(),
            dial_timeout: *dial_timeout,
            request_timeout: *request_timeout,
            token: None,
        };
        if let Some((name, password)) = user.clone() {
            let request = pb::AuthenticateRequest { name, password };
            let answer = client.call::<pb::AuthenticateResponse>("/etcdserverpb.Auth/Authenticate", &request);
            client.token = Some(answer.await.map_err(LookFailure::Retry)?.token);
        }
        Ok(client)
    }
}

/// Those that registered something that can be a member, by the revisions at which they did.
fn in_order(found: Vec<KeyValue>) -> Vec<Registered> {
    let registered = found.into_iter().filter_map(|kv| {
        let urls = String::from_utf8(kv.value.to_vec()).ok()?.trim().to_owned();
        let key = kv.key.to_vec();
        urls.contains('=').then_some(Registered { created_at: kv.create_revision, key, urls })
    });
    let mut members: Vec<Registered> = registered.collect();
    members.sort_by(|a, b| (a.created_at, &a.key).cmp(&(b.created_at, &b.key)));
    members
}

#[cfg(test)]
mod tests {
    //! The order of registrations; the rest is tested against real services, in `tests/go/membership`.
    use super::*;

    #[test]
    fn those_that_came_first_are_the_cluster() {
        let kv = |key: &'static str, value: &'static str, create_revision| KeyValue {
            key: key.into(),
            value: value.into(),
            create_revision,
            ..KeyValue::default()
        };
        let members =
            in_order(vec![kv("a", "m1=http://a:1", 9), kv("b", "no URL", 3), kv("c", " m3=http://c:1\n", 5)]);
        let urls: Vec<&str> = members.iter().map(|member| member.urls.as_str()).collect();
        assert_eq!(urls, ["m3=http://c:1", "m1=http://a:1"]);
    }
}
