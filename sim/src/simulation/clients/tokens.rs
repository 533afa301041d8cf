//! Tokens of clients: assigned by one member, used at any, and ended while they are used.
//!
//! A member that has not applied the entry of a token waits for it, as a server does:
//!
//! ```text
//! ann's client   authenticates at member 0                    h.40, entry 40 of the log
//! member 2       is at 38: a linearizable read first          then it knows h.40, or it does not do what it should
//! member 1       is at 41; ann's password is changed by 42    good until 42 is applied there, and refused from then on
//! ```

use api::Error;
use member::Input;
use store::{AuthCommand, Caller, Reply, TokenHash, TokenPosition};

use super::users::{named, user_of_client};
use crate::checks::permissions::CHECK;
use crate::checks::permissions::tokens::{TOKEN_TTL_S, TokenLook};
use crate::defects::Defect;
use crate::report::trace::Violation;
use crate::simulation::state::Simulation;
use crate::world::request::{ClientRequest, ClientToken, PendingRequest, TokenWait};

const SECOND: u64 = 1_000_000_000;

/// Percentage of requests with which a client without a token asks for one.
const AUTHENTICATE_PERCENT: u64 = 20;

/// Percentage of look-ups before which a member ends the tokens that were not used for long.
const EXPIRY_PERCENT: u64 = 10;

/// Before the first token.
const FIRST_TOKEN: TokenPosition = (0, [0; 32]);

/// What a member says of a caller.
pub(super) enum Identified {
    /// This is who it is.
    As(Caller),
    /// Its token is not good.
    Refused,
    /// The entry of its token is not applied yet.
    NotApplied,
}

impl Simulation {
    /// A request for a token in place of another, if the client has none and auth is enabled.
    pub(super) fn draw_authentication(&mut self, member: usize, client: usize) -> Option<ClientRequest> {
        let has_none = self.plan.changes_permissions && self.workload.clients.get(client)?.token.is_none();
        let reader = &self.machines[member].process.as_ref()?.opened.reader;
        let rng = &mut self.workload.call_rng;
        if !has_none || !reader.is_auth_enabled() || !rng.percent(AUTHENTICATE_PERCENT) {
            return None;
        }
        let mut token: TokenHash = [0; 32];
        token.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next().to_le_bytes()));
        let command = AuthCommand::Authenticate {
            name: user_of_client(client).to_owned(),
            checked_revision: reader.auth_revision(),
            token: Some(token),
        };
        Some(ClientRequest::Auth(Box::new(command)))
    }

    /// A command was carried out: if it assigned a token, its client has it now.
    pub(super) fn keep_token(&mut self, pending: &PendingRequest, reply: &Reply) {
        let (ClientRequest::Auth(command), Reply::Auth { index, .. }) = (&pending.request, reply) else {
            return;
        };
        let AuthCommand::Authenticate { name, token: Some(hash), .. } = &**command else { return };
        if let Some(client) = self.workload.clients.get_mut(pending.client) {
            self.coverage.event("tokens assigned");
            client.token = Some(ClientToken { user: name.clone(), hash: *hash, index: *index });
        }
    }

    /// Who sent a request, by what a member knows now. One without a token has a certificate.
    pub(super) fn identify(
        &mut self,
        member: usize,
        pending: &PendingRequest,
    ) -> Result<Identified, Violation> {
        let process = self.machines[member].process.as_ref();
        match (process, &pending.caller, &pending.token) {
            (Some(_), _, Some(token)) => self.look_up(member, token),
            (Some(process), Caller::User { name, .. }, None) => {
                Ok(Identified::As(named(name, &process.opened.reader)))
            }
            (_, caller, _) => Ok(Identified::As(caller.clone())),
        }
    }

    fn look_up(&mut self, member: usize, token: &ClientToken) -> Result<Identified, Violation> {
        let state = self.auth_state(member)?;
        let machine = &mut self.machines[member];
        let local_ns = machine.clock.read(self.now_ns).monotonic_ns;
        let Some(process) = machine.process.as_mut() else { return Ok(Identified::Refused) };
        let now_s = (local_ns - process.began_ns) / SECOND + 1;
        let reader = &process.opened.reader;
        if self.workload.call_rng.percent(EXPIRY_PERCENT) {
            let mut next = Some(FIRST_TOKEN);
            while let Some(from) = next {
                next = reader.expire_tokens(from, now_s, TOKEN_TTL_S);
            }
            self.checks.tokens.scanned(member, now_s);
        }
        let ttl_s = if self.defect == Some(Defect::TokenNeverExpires) { u64::MAX } else { TOKEN_TTL_S };
        let mut answer = reader.caller_with_token(&token.hash, token.index, now_s, ttl_s);
        match self.defect {
            Some(Defect::TokenNotAwaited) => answer = answer.or(Some(Err(Error::InvalidAuthToken))),
            Some(Defect::TokenOutlivesUser) => match (&answer, process.cached_users.get(&token.hash)) {
                (Some(Err(_)), Some(Caller::User { name, .. })) => {
                    let (name, revision) = (name.clone(), reader.auth_revision());
                    answer = Some(Ok(Caller::User { name, revision }));
                }
                (Some(Ok(caller)), _) => drop(process.cached_users.insert(token.hash, caller.clone())),
                _ => {}
            },
            _ => {}
        }
        let look = TokenLook { member, applied: reader.applied().index, token, now_s };
        self.checks.tokens.answered(&look, &state, answer.as_ref())?;
        Ok(match answer {
            Some(Ok(caller)) => {
                self.coverage.event("tokens accepted");
                Identified::As(caller)
            }
            Some(Err(_)) => Identified::Refused,
            None => Identified::NotApplied,
        })
    }

    /// A request is refused because its token has ended: the client needs another one.
    pub(super) fn token_is_refused(&mut self, pending: &PendingRequest) -> Result<(), Violation> {
        self.coverage.event("tokens refused");
        if let Some(client) = self.workload.clients.get_mut(pending.client) {
            client.token = None;
        }
        self.checks.serializability.refused(pending.number)?;
        self.request_is_over(pending.client, pending.number);
        Ok(())
    }

    /// The member does not know the token of a request yet. A client has the token, so its entry is acknowledged, and
    /// applied here after a linearizable read.
    pub(super) fn wait_for_token(
        &mut self,
        member: usize,
        mut pending: PendingRequest,
    ) -> Result<(), Violation> {
        if pending.token_wait != TokenWait::NotYet {
            let text = format!("member {member} does not know {:?} after a linearizable read", pending.token);
            return Violation::err(CHECK, text);
        }
        self.coverage.event("tokens waited for");
        pending.token_wait = TokenWait::Now;
        let Some(process) = self.machines[member].process.as_mut() else { return Ok(()) };
        let token = process.take_token();
        process.pending.insert(token, pending);
        self.give(member, Input::Read { token });
        Ok(())
    }
}
