//! A client of etcd's API: endpoints with failover, retries, deadlines, authentication.
//!
//! It is what etcdctl's library does for etcdctl, on HTTP/2 itself: a call is a handful of headers, one message there
//! and one back, and the rules below decide the errors and exit codes that scripts see.
//!
//! - All endpoints are tried, each a little after the one before; the first that accepts is used. While none does, the
//!   call waits until its deadline.
//! - A read is repeated while its error says `Unavailable`, at another endpoint. A write is not: it may have happened.
//! - A call that says the token is old is repeated once more with a token that is asked for.
//!
//! | file | does |
//! |---|---|
//! | `endpoint.rs` | reads an endpoint |
//! | `discovery.rs` | finds endpoints in DNS |
//! | `options.rs` | how to reach a cluster |
//! | `tls.rs`, `socket.rs` | connects, with TLS where it is asked for |
//! | `connection.rs` | one HTTP/2 connection |
//! | `call.rs` | messages on a stream, and the status at its end |
//! | `error.rs` | errors, with the texts of etcd's client |
//! | `watches.rs` | watches that survive a lost connection |
//! | `keep_alive.rs` | renews leases |
//! | `session.rs` | locks and elections on a lease |
//! | `metrics.rs` | the metrics of a member |

mod call;
mod connection;
pub(crate) mod discovery;
mod endpoint;
mod error;
pub(crate) mod keep_alive;
pub(crate) mod metrics;
mod options;
pub(crate) mod session;
mod socket;
pub(crate) mod tls;
pub(crate) mod watches;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use call::MessageStream;
use connection::Connection;
pub use endpoint::{Address, Endpoint, Security};
pub use error::CallError;
pub(crate) use options::{ClientOptions, Credentials};

/// Requests above this size are refused unless `--max-request-bytes` says otherwise, as etcd's client does.
const MAX_REQUEST_BYTES: usize = 2 * 1024 * 1024;

/// Attempts of one call, as etcd's client makes.
const MAX_ATTEMPTS: usize = 100;

/// Time between attempts once a majority of the endpoints was asked.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);

/// Time between the first tries of two endpoints: one that answers slowly must not hold up the others.
const NEXT_ENDPOINT_DELAY: Duration = Duration::from_millis(200);

/// Time between rounds in which no endpoint accepted a connection.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// A client of one cluster. It connects with its first call.
pub(crate) struct Client {
    options: ClientOptions,
    token: Mutex<Option<Arc<str>>>,
    /// Held while a token is asked for: a password costs the server much time, so calls share one login.
    login: tokio::sync::Mutex<()>,
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// The endpoint to try first.
    first: AtomicUsize,
    /// Why no connection could be made lately.
    refused: Mutex<Option<String>>,
}

impl Client {
    /// A client, with its token if it needs one.
    ///
    /// # Errors
    ///
    /// No endpoint gave a token within the dial timeout.
    pub(crate) async fn open(options: ClientOptions) -> Result<Self, CallError> {
        let token = match &options.credentials {
            Some(Credentials::Token(token)) => Some(Arc::from(token.as_str())),
            _ => None,
        };
        let dial_timeout = options.dial_timeout;
        let client = Self {
            options,
            token: Mutex::new(token),
            login: Default::default(),
            connection: Default::default(),
            first: AtomicUsize::new(0),
            refused: Mutex::new(None),
        };
        client.renew_token(None, Some(Instant::now() + dial_timeout)).await?;
        Ok(client)
    }

    /// A call that may be repeated: it changes nothing.
    ///
    /// # Errors
    ///
    /// What the server answered, or that the deadline passed.
    pub(crate) async fn read<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        deadline: Option<Instant>,
    ) -> Result<A, CallError> {
        self.call(method, request, deadline, true).await
    }

    /// A call that is made once.
    ///
    /// # Errors
    ///
    /// What the server answered, or that the deadline passed.
    pub(crate) async fn write<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        deadline: Option<Instant>,
    ) -> Result<A, CallError> {
        self.call(method, request, deadline, false).await
    }

    async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        deadline: Option<Instant>,
        repeatable: bool,
    ) -> Result<A, CallError> {
        let quorum = self.options.endpoints.len() / 2 + 1;
        let mut last = CallError::Deadline;
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 && attempt.is_multiple_of(quorum) {
                let wait = async {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    Ok(())
                };
                until(deadline, wait).await?;
            }
            let token = self.token();
            last = match self.attempt(method, request, deadline, token.as_deref()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if (last.is_old_token() || last.wants_user()) && self.password().is_some() {
                self.renew_token(token, deadline).await?;
            } else if last.is_old_auth_revision() {
                // The client has no token; the server has only seen other users change meanwhile.
            } else if last.is_unavailable() && repeatable
                || last.is_learner() && self.options.endpoints.len() > 1
            {
                self.leave().await;
            } else {
                return Err(last);
            }
        }
        Err(last)
    }

    async fn attempt<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        deadline: Option<Instant>,
        token: Option<&str>,
    ) -> Result<A, CallError> {
        until(deadline, async {
            let mut stream = self.open_stream(method, deadline, token).await?;
            stream.send(request, true)?;
            let answer = stream.next().await?;
            match answer {
                Some(answer) => {
                    // The status stands after the message.
                    stream.next::<A>().await?;
                    Ok(answer)
                }
                None => Err(CallError::status(13, "the server sent no message".to_owned())),
            }
        })
        .await
        .map_err(|error| self.late(error))
    }

    /// A stream of messages in both directions. It begins with a new token: it is not repeated for one that has ended.
    ///
    /// # Errors
    ///
    /// The deadline passed before an endpoint accepted a connection.
    pub(crate) async fn stream(
        &self,
        method: &'static str,
        deadline: Option<Instant>,
    ) -> Result<MessageStream, CallError> {
        self.renew_token(self.token(), deadline).await?;
        let token = self.token();
        let opened = self.open_stream(method, deadline, token.as_deref());
        until(deadline, opened).await.map_err(|error| self.late(error))
    }

    async fn open_stream(
        &self,
        method: &'static str,
        deadline: Option<Instant>,
        token: Option<&str>,
    ) -> Result<MessageStream, CallError> {
        loop {
            let mut connection = self.connect().await;
            let max = match self.options.max_request_bytes {
                0 => MAX_REQUEST_BYTES,
                bytes => bytes,
            };
            match connection.open(method, token, deadline).await {
                Ok((send, answer)) => {
                    self.note_refusal(None);
                    return Ok(MessageStream::new(send, answer, max, self.options.max_response_bytes));
                }
                // Nothing was sent yet, so another connection is as good. With TLS 1.3, a server that refuses a
                // certificate says so behind the handshake.
                Err(error) => {
                    self.note_refusal(Some(error.reason()));
                    self.leave().await;
                }
            }
        }
    }

    /// Drops the connection, so that the next call uses another endpoint.
    pub(crate) async fn leave(&self) {
        self.connection.lock().await.take();
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection, made if there is none. It waits as long as no endpoint accepts one.
    async fn connect(&self) -> Connection {
        let mut kept = self.connection.lock().await;
        loop {
            if let Some(connection) = kept.as_ref().filter(|connection| connection.is_open()) {
                return connection.clone();
            }
            *kept = self.first_to_accept().await;
            if kept.is_none() {
                tokio::time::sleep(RECONNECT_INTERVAL).await;
            }
        }
    }

    async fn first_to_accept(&self) -> Option<Connection> {
        let mut tries = JoinSet::new();
        let count = self.options.endpoints.len();
        let first = self.first.load(Ordering::Relaxed);
        for number in 0..count {
            let endpoint = self.options.endpoints[(first + number) % count].clone();
            let options = self.options.clone();
            tries.spawn(async move {
                tokio::time::sleep(NEXT_ENDPOINT_DELAY * number as u32).await;
                Connection::open_to(&endpoint, &options).await
            });
        }
        while let Some(connection) = tries.join_next().await {
            match connection {
                Ok(Ok(connection)) => return Some(connection),
                Ok(Err(error)) => self.note_refusal(Some(error.reason())),
                Err(_) => {}
            }
        }
        None
    }

    fn password(&self) -> Option<(&str, &str)> {
        match &self.options.credentials {
            Some(Credentials::Password { user, password }) if !user.is_empty() && !password.is_empty() => {
                Some((user, password))
            }
            _ => None,
        }
    }

    /// Asks for a token in place of `used`, if there is a password and no other call has got one meanwhile. Until it
    /// comes, calls use the one that there is.
    async fn renew_token(&self, used: Option<Arc<str>>, deadline: Option<Instant>) -> Result<(), CallError> {
        let Some((name, password)) = self.password() else { return Ok(()) };
        let _login = until(deadline, async { Ok(self.login.lock().await) }).await?;
        if self.token() != used {
            return Ok(());
        }
        let request = pb::AuthenticateRequest { name: name.to_owned(), password: password.to_owned() };
        let answer: Result<pb::AuthenticateResponse, _> =
            self.attempt(methods::AUTH_AUTHENTICATE, &request, deadline, None).await;
        match answer {
            Ok(answer) => {
                self.set_token(answer.token.into());
                Ok(())
            }
            Err(error) if error.is_auth_not_enabled() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes why there is no connection, or that there is one.
    fn note_refusal(&self, reason: Option<String>) {
        if let Ok(mut refused) = self.refused.lock() {
            *refused = reason;
        }
    }

    /// The end of a call by its deadline, with the reason if there was no connection.
    fn late(&self, error: CallError) -> CallError {
        match self.refused.lock().ok().and_then(|refused| refused.clone()) {
            Some(reason) if error == CallError::Deadline => CallError::Unreachable(reason),
            _ => error,
        }
    }

    fn token(&self) -> Option<Arc<str>> {
        self.token.lock().ok().and_then(|token| token.clone())
    }

    fn set_token(&self, new: Arc<str>) {
        if let Ok(mut token) = self.token.lock() {
            *token = Some(new);
        }
    }
}

/// Runs until the deadline.
pub(crate) async fn until<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.unwrap_or(Err(CallError::Deadline)),
        None => work.await,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// How to reach one endpoint, as the default flags say.
    pub(crate) fn options(endpoint: &str) -> ClientOptions {
        ClientOptions {
            endpoints: vec![Endpoint::parse(endpoint).expect("it is right")],
            dial_timeout: Duration::from_secs(2),
            keepalive_interval: Duration::from_secs(2),
            keepalive_timeout: Duration::from_secs(6),
            max_request_bytes: 0,
            max_response_bytes: 0,
            credentials: None,
            tls: None,
            tls_flagged: false,
            server_name: None,
        }
    }
}
