//! From a path to a handler: the one table of the methods that are served.
//!
//! A path that is not in the table is answered `Unimplemented`, in the words of grpc-go.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use api::{Code, methods};
use bytes::Bytes;
use foldhash::fast::FixedState;
use http2::RequestHead;

use super::call::Call;
use super::call_metrics::{CallMetrics, RunningCall};
use super::rows;
use super::streamed_range::{StreamedRange, UnaryResponse};
use super::streaming_call::{CountedRequests, Responses};
use super::{auth, backup, cluster, concurrency, health, kv, lease, maintenance, watch};
use crate::auth::{Needs, Source};
use crate::call_times::LoopTimes;
use crate::grpc::{
    AnswerRoom, CallFuture, CallReply, ClientGone, EncodedMessage, Failure, GrpcService, RequestStream,
};
use crate::node::Node;
use crate::overload::OpenCall;
use crate::spans::CallSpan;

/// Bytes of a message beyond the request limit: the envelope of a request of exactly that size.
const MESSAGE_OVERHEAD_BYTES: usize = 512 * 1024;

/// Methods in which either side streams. They run long by design, so there is no warning about it.
const STREAMS: [&str; 7] = [
    methods::KV_RANGE_STREAM,
    methods::WATCH_WATCH,
    methods::LEASE_KEEP_ALIVE,
    methods::MAINTENANCE_SNAPSHOT,
    methods::BACKUP_BASE,
    methods::ELECTION_OBSERVE,
    health::WATCH,
];

/// Methods whose calls last for as long as their clients like: those that stream without an end, and those that wait
/// for other clients.
const ENDLESS: [&str; 6] = [
    methods::WATCH_WATCH,
    methods::LEASE_KEEP_ALIVE,
    methods::ELECTION_OBSERVE,
    methods::LOCK_LOCK,
    methods::ELECTION_CAMPAIGN,
    health::WATCH,
];

/// Methods that are served although their client leaves other answers untaken: renewals are small, and a lease must not
/// end for that.
const URGENT: [&str; 1] = [methods::LEASE_KEEP_ALIVE];

/// Methods that a learner serves, as in etcd: of ranges only those that are serializable.
const SERVED_BY_LEARNERS: [&str; 3] =
    [methods::KV_RANGE, methods::MAINTENANCE_STATUS, methods::MAINTENANCE_SNAPSHOT];

/// The gRPC side of the client port, for one connection.
///
/// Each call holds it. Its count of references belongs to the connection, so that calls of different workers do not
/// write to the same cache line.
#[derive(Clone)]
pub(crate) struct Dispatch(Arc<ConnectionDispatch>);

struct ConnectionDispatch {
    node: Arc<Node>,
    methods: Arc<Methods>,
    connection: u64,
    source: Source,
    common_name: Option<Arc<str>>,
}

/// What is served, by path. The paths are ours, so no client can choose ones that collide.
type Methods = HashMap<&'static str, ServedMethod, FixedState>;

/// A method that is served.
struct ServedMethod {
    metrics: CallMetrics,
    needs: Needs,
    /// Whether the limits of a client count: a health check is answered also when its address has had its share.
    is_limited: bool,
    is_urgent: bool,
    serve: Serve,
}

/// Begins the future of a call.
type Serve = fn(Exchange) -> CallFuture;

/// What the future of a call begins with.
struct Exchange {
    connection: Arc<ConnectionDispatch>,
    metrics: CallMetrics,
    needs: Needs,
    is_urgent: bool,
    call: Call,
    /// If clients have limits.
    open: Option<OpenCall>,
    requests: RequestStream,
    reply: CallReply,
    span: Option<Box<CallSpan>>,
}

impl Dispatch {
    /// Serves the methods over `node`.
    pub(crate) fn new(node: Arc<Node>) -> Dispatch {
        let epoch = node.handoff.epoch();
        let method = |(path, needs, serve): (&'static str, Needs, Serve)| {
            let metrics = CallMetrics::new(path, STREAMS.contains(&path), &node.metrics, &node.live, epoch);
            let (is_limited, is_urgent) = (!health::ALL.contains(&path), URGENT.contains(&path));
            (path, ServedMethod { metrics, needs, is_limited, is_urgent, serve })
        };
        let methods = SERVED.into_iter().map(method).collect();
        let methods = Arc::new(methods);
        let source = Source::default();
        Dispatch(Arc::new(ConnectionDispatch { methods, node, connection: 0, source, common_name: None }))
    }

    /// The same for one connection: where it comes from, and the common name of the certificate that its client has
    /// proven to own, if that names a user.
    pub(crate) fn for_connection(
        &self,
        connection: u64,
        source: Source,
        common_name: Option<Arc<str>>,
    ) -> Dispatch {
        let (node, methods) = (self.0.node.clone(), self.0.methods.clone());
        Dispatch(Arc::new(ConnectionDispatch { node, methods, connection, source, common_name }))
    }

    /// Whether callers must be users, as far as this member has applied the log.
    pub(crate) fn is_auth_enabled(&self) -> bool {
        self.0.node.reader.is_auth_enabled()
    }
}

impl ConnectionDispatch {
    /// Finds the method.
    fn method(&self, head: &RequestHead) -> Result<&ServedMethod, Failure> {
        let path = String::from_utf8_lossy(head.path());
        self.methods.get(&*path).ok_or_else(|| unknown(&path))
    }

    /// Refuses what a learner does not serve, a call that asked for a leader while there is none, and one that is past
    /// the limits of its client. All are counted by the client's version.
    fn admit(&self, head: &RequestHead, method: &ServedMethod) -> Result<(Call, Option<OpenCall>), Failure> {
        let (call, version) = Call::from_head(head, self.connection, self.source, self.common_name.as_ref())?;
        self.node.metrics.events.client_request(method.metrics.is_stream(), version);
        if self.node.is_learner() && !SERVED_BY_LEARNERS.contains(&method.metrics.path()) {
            return Err(api::Error::NotSupportedForLearner.into());
        }
        if call.require_leader && !self.node.has_leader() {
            return Err(api::Error::NoLeader.into());
        }
        let open = match method.is_limited {
            true => self.node.admit_client(&call.credentials)?,
            false => None,
        };
        Ok((call, open))
    }
}

impl GrpcService for Dispatch {
    fn max_message_bytes(&self) -> usize {
        self.0.node.live.max_request_bytes().saturating_add(MESSAGE_OVERHEAD_BYTES)
    }

    fn call(&self, head: &RequestHead, requests: RequestStream, reply: CallReply) -> CallFuture {
        let refuse = |reply: CallReply, failure: &Failure| -> CallFuture {
            reply.finish(Err(failure));
            Box::pin(std::future::ready(()))
        };
        let connection = &self.0;
        let method = match connection.method(head) {
            Ok(method) => method,
            Err(failure) => return refuse(reply, &failure),
        };
        let tracer = connection.node.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(head, &connection.source));
        match connection.admit(head, method).and_then(|call| requests.supported().map(|()| call)) {
            Ok((call, open)) => {
                let (connection, metrics) = (connection.clone(), method.metrics);
                let (needs, is_urgent) = (method.needs, method.is_urgent);
                (method.serve)(Exchange {
                    connection,
                    metrics,
                    needs,
                    is_urgent,
                    call,
                    open,
                    requests,
                    reply,
                    span,
                })
            }
            Err(failure) => {
                method.metrics.refused(&failure, span);
                refuse(reply, &failure)
            }
        }
    }

    fn is_endless(&self, head: &RequestHead) -> bool {
        ENDLESS.iter().any(|path| path.as_bytes() == head.path())
    }

    fn is_urgent(head: &RequestHead) -> bool {
        URGENT.iter().any(|path| path.as_bytes() == head.path())
    }
}

/// The function that serves calls of one request and one response.
macro_rules! unary {
    ($handler:path) => {
        |exchange| {
            Box::pin(unary(exchange, |connection, call, body| async move {
                ($handler(&connection.node, &call, body).await, call.times.get())
            }))
        }
    };
}

/// The function that serves calls in which either side streams.
macro_rules! streaming {
    ($handler:path) => {
        |exchange| Box::pin(streaming(exchange, $handler))
    };
}

/// What each method needs of its caller, and the function that serves it. The future of each method is boxed on its
/// own: a put must not have the size of a watch.
const SERVED: [(&str, Needs, Serve); methods::ALL.len() + health::ALL.len()] = [
    (methods::KV_PUT, Needs::Ranges, unary!(kv::put)),
    (methods::KV_RANGE, Needs::Ranges, unary!(kv::range)),
    (methods::KV_TXN, Needs::Ranges, unary!(kv::txn)),
    (methods::KV_DELETE_RANGE, Needs::Ranges, unary!(kv::delete_range)),
    (methods::KV_COMPACT, Needs::RootApplied, unary!(kv::compact)),
    (methods::KV_RANGE_STREAM, Needs::Ranges, streaming!(kv::range_stream)),
    (methods::WATCH_WATCH, Needs::Ranges, streaming!(watch::watch)),
    (methods::LEASE_GRANT, Needs::User, unary!(lease::grant)),
    (methods::LEASE_REVOKE, Needs::User, unary!(lease::revoke)),
    (methods::LEASE_KEEP_ALIVE, Needs::Ranges, streaming!(lease::keep_alive)),
    (methods::LEASE_TIME_TO_LIVE, Needs::User, unary!(lease::time_to_live)),
    (methods::LEASE_LEASES, Needs::User, unary!(lease::leases)),
    (methods::CLUSTER_MEMBER_LIST, Needs::User, unary!(cluster::member_list)),
    (methods::CLUSTER_MEMBER_ADD, Needs::Root, unary!(cluster::member_add)),
    (methods::CLUSTER_MEMBER_REMOVE, Needs::Root, unary!(cluster::member_remove)),
    (methods::CLUSTER_MEMBER_UPDATE, Needs::Root, unary!(cluster::member_update)),
    (methods::CLUSTER_MEMBER_PROMOTE, Needs::Root, unary!(cluster::member_promote)),
    (methods::MAINTENANCE_ALARM, Needs::User, unary!(maintenance::alarm)),
    (methods::MAINTENANCE_STATUS, Needs::User, unary!(maintenance::status)),
    (methods::MAINTENANCE_DEFRAGMENT, Needs::RootHere, unary!(maintenance::defragment)),
    (methods::MAINTENANCE_HASH, Needs::RootHere, unary!(maintenance::hash)),
    (methods::MAINTENANCE_HASH_KV, Needs::RootHere, unary!(maintenance::hash_kv)),
    (methods::MAINTENANCE_MOVE_LEADER, Needs::RootHere, unary!(maintenance::move_leader)),
    (methods::MAINTENANCE_DOWNGRADE, Needs::Root, unary!(maintenance::downgrade)),
    (methods::MAINTENANCE_SNAPSHOT, Needs::RootHere, streaming!(backup::snapshot)),
    (methods::BACKUP_BASE, Needs::RootHere, streaming!(backup::base)),
    (methods::BACKUP_ENTRIES, Needs::RootHere, unary!(backup::entries)),
    (methods::ADMIN_RELOAD, Needs::RootHere, unary!(maintenance::reload)),
    (methods::LOCK_LOCK, Needs::Steps, unary!(concurrency::lock)),
    (methods::LOCK_UNLOCK, Needs::Steps, unary!(concurrency::unlock)),
    (methods::ELECTION_CAMPAIGN, Needs::Steps, unary!(concurrency::campaign)),
    (methods::ELECTION_PROCLAIM, Needs::Steps, unary!(concurrency::proclaim)),
    (methods::ELECTION_LEADER, Needs::Steps, unary!(concurrency::leader)),
    (methods::ELECTION_OBSERVE, Needs::Steps, streaming!(concurrency::observe)),
    (methods::ELECTION_RESIGN, Needs::Steps, unary!(concurrency::resign)),
    (methods::AUTH_AUTHENTICATE, Needs::Nothing, unary!(auth::authenticate)),
    (methods::AUTH_ENABLE, Needs::RootApplied, unary!(auth::auth_enable)),
    (methods::AUTH_DISABLE, Needs::RootApplied, unary!(auth::auth_disable)),
    (methods::AUTH_STATUS, Needs::ValidToken, unary!(auth::auth_status)),
    (methods::AUTH_USER_ADD, Needs::RootApplied, unary!(auth::user_add)),
    (methods::AUTH_USER_GET, Needs::Oneself, unary!(auth::user_get)),
    (methods::AUTH_USER_LIST, Needs::RootApplied, unary!(auth::user_list)),
    (methods::AUTH_USER_DELETE, Needs::RootApplied, unary!(auth::user_delete)),
    (methods::AUTH_USER_CHANGE_PASSWORD, Needs::RootApplied, unary!(auth::user_change_password)),
    (methods::AUTH_USER_GRANT_ROLE, Needs::RootApplied, unary!(auth::user_grant_role)),
    (methods::AUTH_USER_REVOKE_ROLE, Needs::RootApplied, unary!(auth::user_revoke_role)),
    (methods::AUTH_ROLE_ADD, Needs::RootApplied, unary!(auth::role_add)),
    (methods::AUTH_ROLE_GET, Needs::Oneself, unary!(auth::role_get)),
    (methods::AUTH_ROLE_LIST, Needs::RootApplied, unary!(auth::role_list)),
    (methods::AUTH_ROLE_DELETE, Needs::RootApplied, unary!(auth::role_delete)),
    (methods::AUTH_ROLE_GRANT_PERMISSION, Needs::RootApplied, unary!(auth::role_grant_permission)),
    (methods::AUTH_ROLE_REVOKE_PERMISSION, Needs::RootApplied, unary!(auth::role_revoke_permission)),
    (health::CHECK, Needs::Nothing, unary!(health::check)),
    (health::LIST, Needs::Nothing, unary!(health::list)),
    (health::WATCH, Needs::Nothing, streaming!(health::watch)),
];

/// A method without a row does not compile.
const _: () = assert!(rows::have_all(&SERVED, &methods::ALL) && rows::have_all(&SERVED, &health::ALL));

/// Why a path is not served: its form is wrong, or its service or method is unknown.
fn unknown(path: &str) -> Failure {
    let known = |service: &str| {
        let prefix = format!("/{service}/");
        methods::ALL.iter().chain(&health::ALL).any(|method| method.starts_with(&prefix))
    };
    let message = match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        None => format!("malformed method name: {path:?}"),
        Some((service, _)) if !known(service) => format!("unknown service {service}"),
        Some((service, method)) => format!("unknown method {method} for service {service}"),
    };
    Failure::new(Code::Unimplemented, message)
}

/// Runs a call of one request and one response.
async fn unary<F, H, A>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<ConnectionDispatch>, Call, Bytes) -> F,
    F: Future<Output = (Result<A, Failure>, LoopTimes)>,
    A: Into<UnaryResponse>,
{
    let Exchange { connection, metrics, needs, mut call, open, mut requests, mut reply, span, .. } = exchange;
    let body = match requests.first().await {
        Ok(body) => body,
        Err(failure) => return reply.finish(Err(&failure)),
    };
    call.room = requests.into_room();
    let mut running = metrics.begin_unary(&body, call.credentials.source(), span);
    running.counts_as(open);
    running.received(body.len());
    let answer = async {
        match connection.node.admit(needs, &call.credentials).await {
            Ok(()) => handler(connection, call, body).await,
            Err(error) => (Err(error.into()), LoopTimes::default()),
        }
    };
    let Ok((answer, times)) = reply.unless_gone(answer).await else { return };
    running.timed(times);
    match answer.map(Into::into) {
        Ok(UnaryResponse::Whole(message)) => {
            running.answered(&message);
            running.sent(1, message.len());
            running.ended(Ok(()));
            reply.answer(message);
        }
        Ok(UnaryResponse::Streamed(range)) => {
            running.answered_bytes(range.len());
            send_range(*range, reply, running).await;
        }
        Err(mut failure) => {
            // A step before may have had its effect.
            failure.is_not_taken &= needs != Needs::Steps;
            end(Ok(Err(failure)), running, reply);
        }
    }
}

/// Ends a call with its result, unless its client has gone.
fn end(sent: Result<Result<(), Failure>, ClientGone>, mut running: RunningCall, reply: CallReply) {
    let Ok(ended) = sent else { return };
    running.ended(ended.as_ref().copied());
    match ended {
        Err(failure) if failure.is_not_taken => reply.not_taken(&failure),
        ended => reply.finish(ended.as_ref().copied()),
    }
}

/// Answers with a range while it is encoded. If a value is damaged and no peer has an intact copy, the call fails
/// partway through its message.
async fn send_range(mut range: StreamedRange, mut reply: CallReply, running: RunningCall) {
    let sent = async {
        let bytes = range.len();
        reply.begin_message(bytes)?;
        while let Some(chunk) = reply.unless_gone(range.next()).await? {
            match chunk {
                Ok(parts) => parts.into_iter().try_for_each(|part| reply.continue_message(part))?,
                Err(failure) => return Ok(Err(failure)),
            }
            reply.sent().await?;
        }
        running.sent(1, bytes);
        Ok(Ok(()))
    };
    end(sent.await, running, reply);
}

/// The next messages, made when there is room for them.
async fn next_in_room(
    room: &AnswerRoom,
    responses: &mut Responses,
) -> Option<Result<Vec<EncodedMessage>, Failure>> {
    room.wait().await;
    responses.next().await
}

/// Runs a call in which either side streams.
async fn streaming<F, H>(exchange: Exchange, handler: H)
where
    H: FnOnce(Arc<Node>, Call, CountedRequests) -> F,
    F: Future<Output = Result<Responses, Failure>>,
{
    let Exchange { connection, metrics, needs, is_urgent, call, open, requests, mut reply, span } = exchange;
    let node = connection.node.clone();
    let account = open.as_ref().map(|open| open.account().clone());
    let call = Call { spans: span.as_deref().map(CallSpan::inner), ..call };
    let mut running = metrics.begin(span);
    running.counts_as(open);
    let requests = CountedRequests::new(requests, metrics, account);
    let room = if is_urgent { AnswerRoom::default() } else { reply.room() };
    let sent = async {
        let begun = async {
            node.admit(needs, &call.credentials).await?;
            handler(node, call, requests).await
        };
        let mut responses = match reply.unless_gone(begun).await? {
            Ok(responses) => responses,
            Err(failure) => return Ok(Err(failure)),
        };
        while let Some(messages) = reply.unless_gone(next_in_room(&room, &mut responses)).await? {
            let messages = match messages {
                Ok(messages) => messages,
                Err(failure) => return Ok(Err(failure)),
            };
            let (count, bytes) = (messages.len(), messages.iter().map(EncodedMessage::len).sum());
            reply.send(messages).await?;
            running.sent(count, bytes);
        }
        Ok(Ok(()))
    };
    end(sent.await, running, reply);
}

#[cfg(test)]
mod tests {
    //! What each method needs, a second time: a row that was changed by mistake would open a method to anyone.
    use std::collections::BTreeMap;

    use super::*;

    /// Methods by what they need: services and methods, without packages.
    const NEEDED: [(Needs, &str); 9] = [
        (Needs::Nothing, "Auth/Authenticate Health/Check Health/List Health/Watch"),
        (Needs::ValidToken, "Auth/AuthStatus"),
        (
            Needs::User,
            "Lease/LeaseGrant Lease/LeaseRevoke Lease/LeaseTimeToLive Lease/LeaseLeases \
             Cluster/MemberList Maintenance/Alarm Maintenance/Status",
        ),
        (
            Needs::Root,
            "Cluster/MemberAdd Cluster/MemberRemove Cluster/MemberUpdate Cluster/MemberPromote \
             Maintenance/Downgrade",
        ),
        (
            Needs::RootHere,
            "Maintenance/Defragment Maintenance/Hash Maintenance/HashKV Maintenance/MoveLeader \
             Maintenance/Snapshot Backup/Base Backup/Entries Admin/Reload",
        ),
        (
            Needs::RootApplied,
            "KV/Compact Auth/AuthEnable Auth/AuthDisable Auth/UserAdd Auth/UserList Auth/UserDelete \
             Auth/UserChangePassword Auth/UserGrantRole Auth/UserRevokeRole Auth/RoleAdd \
             Auth/RoleList Auth/RoleDelete Auth/RoleGrantPermission Auth/RoleRevokePermission",
        ),
        (Needs::Oneself, "Auth/UserGet Auth/RoleGet"),
        (
            Needs::Ranges,
            "KV/Put KV/Range KV/Txn KV/DeleteRange KV/RangeStream Watch/Watch Lease/LeaseKeepAlive",
        ),
        (
            Needs::Steps,
            "Lock/Lock Lock/Unlock Election/Campaign Election/Proclaim Election/Leader \
             Election/Observe Election/Resign",
        ),
    ];

    #[test]
    fn each_method_needs_what_it_has_to() {
        let of_row = |(needs, methods): &(Needs, &'static str)| {
            methods.split(' ').map(|name| (name, *needs)).collect()
        };
        let needed: BTreeMap<&str, Needs> = NEEDED.iter().flat_map(|row| -> Vec<_> { of_row(row) }).collect();
        for (path, needs, _) in SERVED {
            let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
            assert_eq!(Some(needs), needed.get(name).copied(), "{path}");
        }
    }
}
