//! Who a call's caller is: from its token or certificate, and what this member's state says of it.

use store::Caller;

use super::Node;
use crate::auth::{Credentials, Needs, TokenOwner, TokenRefusal, tokens};

impl Node {
    /// Who the caller is. While auth is disabled, all are anonymous.
    ///
    /// # Errors
    /// [`api::Error::InvalidAuthToken`]; that of a linearizable read, if the entry that assigned the token is not
    /// applied here yet; [`api::Error::TooManyRequests`] if too many signed tokens of its source are to be checked.
    pub(crate) async fn identify(&self, credentials: &Credentials) -> Result<Caller, api::Error> {
        if let Some(identified) = self.identify_applied(credentials) {
            return identified;
        }
        // Boxed, so that the future of each call has no room for what hardly any call does.
        Box::pin(self.identify_when_applied(credentials)).await
    }

    /// The same for a signed token that was not checked yet, and for a token whose entry, user or permissions may not
    /// be applied here yet: a client has it, so they are acknowledged, and applied here after a linearizable read.
    async fn identify_when_applied(&self, credentials: &Credentials) -> Result<Caller, api::Error> {
        if let (Some(jwt), Some(token)) = (&self.jwt, credentials.token()) {
            let owner = jwt.check(credentials.source(), token).await.map_err(|refusal| match refusal {
                TokenRefusal::Invalid => api::Error::InvalidAuthToken,
                TokenRefusal::TooMany => api::Error::TooManyRequests,
                TokenRefusal::Unavailable => api::Error::Stopped,
            })?;
            if owner.revision > self.reader.auth_revision() {
                self.linearize().await?;
            }
            return Ok(if self.reader.is_auth_enabled() { owner.into() } else { Caller::Anonymous });
        }
        self.linearize().await?;
        self.identify_now(credentials).unwrap_or(Err(api::Error::InvalidAuthToken))
    }

    /// Has the token of a call checked and applied here: [`Node::identify_now`] says whose it is from now on.
    ///
    /// # Errors
    /// Those of [`Node::identify`], but for a token that is not valid, which is no error here.
    pub(crate) async fn resolve_token(&self, credentials: &Credentials) -> Result<(), api::Error> {
        match self.identify(credentials).await {
            Ok(_) | Err(api::Error::InvalidAuthToken) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Who the caller is, without waiting; `None` if the entry that assigned the token, or the auth revision at which
    /// it was signed, is not applied here, and for a signed token that was not checked yet.
    pub(crate) fn identify_applied(&self, credentials: &Credentials) -> Option<Result<Caller, api::Error>> {
        self.identify_now(credentials).filter(|found| match found {
            Ok(Caller::User { revision, .. }) => *revision <= self.reader.auth_revision(),
            _ => true,
        })
    }

    /// The same by what is applied here, whatever the revision of a signed token; `None` if the entry that assigned the
    /// token is not, and for a signed token that was not checked yet.
    pub(crate) fn identify_now(&self, credentials: &Credentials) -> Option<Result<Caller, api::Error>> {
        if !self.reader.is_auth_enabled() {
            return Some(Ok(Caller::Anonymous));
        }
        let Some(token) = credentials.token() else {
            let caller = credentials.certificate().map_or(Caller::Anonymous, |name| Caller::User {
                name: name.clone(),
                revision: self.reader.auth_revision(),
            });
            return Some(Ok(caller));
        };
        if let Some(jwt) = &self.jwt {
            let owner = jwt.known_owner(token)?;
            return Some(owner.map(Caller::from).map_err(|_| api::Error::InvalidAuthToken));
        }
        let Some((hash, index)) = tokens::parse(token) else {
            return Some(Err(api::Error::InvalidAuthToken));
        };
        let (now_s, ttl_s) = self.tokens.now_and_ttl_s();
        self.reader.caller_with_token(&hash, index, now_s, ttl_s)
    }

    /// Checks what a method needs before its call begins.
    ///
    /// # Errors
    /// Why the caller may not do this; for [`Needs::Root`] that of a linearizable read, too.
    pub(crate) async fn admit(&self, needs: Needs, credentials: &Credentials) -> Result<(), api::Error> {
        match needs {
            Needs::Nothing | Needs::Oneself | Needs::Ranges | Needs::RootApplied | Needs::Steps => Ok(()),
            // Boxed, so that the futures of puts and gets have no room for it.
            needs => Box::pin(self.admit_caller(needs, credentials)).await,
        }
    }

    /// The same for methods that need more of their caller than what the handler checks by itself.
    async fn admit_caller(&self, needs: Needs, credentials: &Credentials) -> Result<(), api::Error> {
        // This member may not know yet that auth was enabled, or that a role was taken away.
        match needs {
            Needs::Root => self.linearize().await?,
            Needs::RootHere if self.has_leader() => self.linearize().await?,
            _ => {}
        }
        if !self.reader.is_auth_enabled() {
            return Ok(());
        }
        match needs {
            Needs::Nothing | Needs::Oneself | Needs::Ranges | Needs::RootApplied | Needs::Steps => Ok(()),
            Needs::ValidToken => self.identify(credentials).await.map(drop),
            Needs::User => match self.identify(credentials).await? {
                Caller::Anonymous => Err(api::Error::UserEmpty),
                Caller::User { .. } | Caller::Internal => Ok(()),
            },
            Needs::Root | Needs::RootHere => self.reader.check_root(&self.identify(credentials).await?),
        }
    }

    /// Who the caller of a command is. One that is no user is refused before anything is written to the log, once this
    /// member knows everything that was acknowledged: auth may have been disabled a moment ago.
    ///
    /// # Errors
    /// [`api::Error::UserEmpty`], and those of [`Node::identify`].
    pub(crate) async fn identify_writer(&self, credentials: &Credentials) -> Result<Caller, api::Error> {
        let caller = self.identify(credentials).await?;
        self.refuse_anonymous(&caller).await?;
        Ok(caller)
    }

    /// Refuses the caller of a command who is no user, as [`Node::identify_writer`] does.
    ///
    /// # Errors
    /// [`api::Error::UserEmpty`], and those of a linearizable read.
    pub(crate) async fn refuse_anonymous(&self, caller: &Caller) -> Result<(), api::Error> {
        if *caller == Caller::Anonymous && self.reader.is_auth_enabled() {
            self.linearize().await?;
            if self.reader.is_auth_enabled() {
                return Err(api::Error::UserEmpty);
            }
        }
        Ok(())
    }
}

impl From<TokenOwner> for Caller {
    fn from(TokenOwner { name, revision }: TokenOwner) -> Caller {
        Caller::User { name, revision }
    }
}
