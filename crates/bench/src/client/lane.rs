//! A connection that is made again when it was lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use ctl::{CallError, Endpoint};
use prost::Message;

use super::dial::Dialling;
use super::link::{Link, Talk};
use crate::wire::Wire;

/// Time between two tries to make a lost connection again.
const REDIAL_INTERVAL: Duration = Duration::from_millis(50);

/// What a server says of a token that ended, or that is older than a change of users: etcd's client asks for another
/// one too.
const TOKEN_ERRORS: [&str; 2] =
    ["etcdserver: invalid auth token", "etcdserver: revision of auth store is old"];

/// Who the client is.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// A place of a member where calls are made.
pub(crate) struct Lane {
    endpoint: Endpoint,
    dialling: Rc<Dialling>,
    login: Option<Login>,
    link: RefCell<Rc<Link>>,
    /// Held by the one that makes the connection again.
    redial: tokio::sync::Mutex<()>,
    /// Attempts to make it again that have begun.
    attempts: Cell<u64>,
    /// Why the last attempt failed, if it did.
    failure: RefCell<Option<CallError>>,
}

impl Lane {
    /// Connects, and asks for a token if there is a user.
    ///
    /// # Errors
    /// The endpoint cannot be reached, or refuses the user.
    pub(super) async fn open(
        endpoint: Endpoint,
        dialling: Rc<Dialling>,
        login: Option<Login>,
    ) -> Result<Self, CallError> {
        let link = connect(&endpoint, &dialling, login.as_ref()).await?;
        Ok(Self {
            endpoint,
            dialling,
            login,
            link: RefCell::new(link),
            redial: Default::default(),
            attempts: Cell::new(0),
            failure: RefCell::default(),
        })
    }

    /// A call with one message there and one back, both encoded.
    ///
    /// # Errors
    /// What the server answered, or why it cannot be reached.
    pub(crate) async fn call(&self, method: &'static str, message: &[u8]) -> Result<Vec<u8>, CallError> {
        let talk = self.stream(method, message, true).await?;
        let link = talk.link();
        match talk.answer().await {
            Err(error) if self.login.is_some() && TOKEN_ERRORS.iter().any(|text| error.says(text)) => {
                self.renew(&link).await?.open(method, message, true).await?.answer().await
            }
            answer => answer,
        }
    }

    /// A call with one message there and one back.
    ///
    /// # Errors
    /// What the server answered, or why it cannot be reached.
    pub(crate) async fn ask<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, CallError> {
        let answer = self.call(method, &request.encode_to_vec()).await?;
        A::decode(answer.as_slice()).map_err(|error| CallError::status(13, error.to_string()))
    }

    /// Begins a call; see [`Link::open`].
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(crate) async fn stream(
        &self,
        method: &'static str,
        message: &[u8],
        last: bool,
    ) -> Result<Talk, CallError> {
        let link = Rc::clone(&self.link.borrow());
        match link.open(method, message, last).await {
            // Nothing of the call was sent.
            Err(_) if link.closing().is_some() => self.renew(&link).await?.open(method, message, last).await,
            opened => opened,
        }
    }

    /// The connection after `failed`, which ended or whose token did. Callers that come together share an attempt: each
    /// takes the outcome of the first that began after it came.
    async fn renew(&self, failed: &Rc<Link>) -> Result<Rc<Link>, CallError> {
        let before = self.attempts.get();
        let _lock = self.redial.lock().await;
        let current = Rc::clone(&self.link.borrow());
        if !Rc::ptr_eq(&current, failed) && current.closing().is_none() {
            return Ok(current);
        }
        if self.attempts.get() > before
            && let Some(error) = &*self.failure.borrow()
        {
            return Err(error.clone());
        }
        self.attempts.set(self.attempts.get() + 1);
        let made = connect(&self.endpoint, &self.dialling, self.login.as_ref()).await;
        self.failure.replace(made.as_ref().err().cloned());
        match &made {
            Ok(link) => drop(self.link.replace(Rc::clone(link))),
            Err(_) => tokio::time::sleep(REDIAL_INTERVAL).await,
        }
        made
    }
}

async fn connect(
    endpoint: &Endpoint,
    dialling: &Dialling,
    login: Option<&Login>,
) -> Result<Rc<Link>, CallError> {
    let scheme = if dialling.is_secure(endpoint) { "https" } else { "http" };
    let link = |socket, token| Link::start(Wire::new(endpoint.authority(), scheme, token), socket);
    let socket = dialling.connect(endpoint).await?;
    let Some(login) = login else { return Ok(link(socket, None)) };
    let request = pb::AuthenticateRequest { name: login.user.clone(), password: login.password.clone() };
    let first = link(socket, None);
    let talk = first.open(methods::AUTH_AUTHENTICATE, &request.encode_to_vec(), true).await?;
    match talk.answer().await {
        Ok(answer) => {
            let answer = pb::AuthenticateResponse::decode(answer.as_slice());
            let token = answer.map_err(|error| CallError::status(13, error.to_string()))?.token;
            Ok(link(dialling.connect(endpoint).await?, Some(token)))
        }
        // As etcd's client does: where nothing is checked, a token is not needed.
        Err(error) if error.says("etcdserver: authentication is not enabled") => Ok(first),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_come_together_share_one_attempt() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            // A path, because another process may listen at a port as soon as it is free.
            let socket = std::env::temp_dir().join(format!("bench-lane-{}", std::process::id()));
            let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
            let endpoint = Endpoint::parse(&format!("unix://{}", socket.display()));
            let tls = ctl::TlsFlags::default().config().expect("a configuration");
            let dialling = Rc::new(Dialling { timeout: Duration::ZERO, tls, tls_flagged: false });
            let lane = Lane::open(endpoint.expect("an endpoint"), dialling, None).await.expect("a lane");
            let lane = Rc::new(lane);
            drop(listener);
            std::fs::remove_file(&socket).expect("it was there");
            let link = Rc::clone(&lane.link.borrow());
            let mut callers = tokio::task::JoinSet::new();
            for _ in 0..100 {
                let (lane, link) = (Rc::clone(&lane), Rc::clone(&link));
                callers.spawn_local(async move { lane.renew(&link).await.is_err() });
            }
            assert!(callers.join_all().await.into_iter().all(|failed| failed));
            // All but the first came while it was trying, or before.
            assert!(lane.attempts.get() <= 2, "{}", lane.attempts.get());
        });
    }
}
