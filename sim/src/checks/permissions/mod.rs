//! Invariant: no answer and no event violates the permissions of its moment.
//!
//! The users and roles of every moment follow from the log. This check reads the order of commands in the appends that
//! are sent, and applies the changes among them to a [model] of its own. So it knows at which auth revision each
//! command was decided, and which users and roles a member has at each index:
//!
//! ```text
//! append 12   put k (ann, 4)         judged by the state of 11: permitted
//! append 13   revoke r from ann      auth revision 5
//!             put k (ann, 4)         judged behind it: revision of auth store is old
//! member 2 has applied 12, and reads k for ann: by the state of 12, although 13 is committed
//! ```
//!
//! An answer must fit exactly: what is carried out was permitted, and what is refused for want of a permission was not.

pub(crate) mod leases;
pub(crate) mod model;
pub(crate) mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Error;
use consensus::{Body, EntryKind, Message};
use member::batch;
use store::{AppliedId, Caller, Reader};

use self::leases::{LeaseStep, LoggedLeases, lease_steps};
use self::model::AuthModel;
use crate::report::trace::Violation;
use crate::world::request::{ClientRequest, CommandId};

pub(crate) const CHECK: &str = "permissions hold";

/// The first entry of every log, which no client sends.
const FIRST_ENTRY: (u64, u64) = (1, 1);

/// An entry, as far as it matters here.
struct SentEntry {
    previous_term: u64,
    commands: Vec<CommandId>,
    /// What its commands do to leases, in order.
    leases: Vec<LeaseStep>,
}

/// What the model says of a command.
#[derive(Clone)]
pub(crate) struct PlayedCommand {
    /// The users and roles behind it.
    pub(crate) state: Arc<AuthModel>,
    /// Whether it is permitted, the keys of its leases left out; for a change of users and roles, its outcome.
    pub(crate) outcome: Result<(), Error>,
}

/// The users and roles at each index of the log.
pub(crate) struct AuthHistory {
    /// Who asked for what.
    commands: BTreeMap<CommandId, (Caller, ClientRequest)>,
    /// All entries that were sent, by index and term.
    entries: BTreeMap<(u64, u64), SentEntry>,
    /// The newest entry that a member has applied, by index and term.
    applied: (u64, u64),
    /// The states, each by the first index behind which it holds.
    states: BTreeMap<u64, Arc<AuthModel>>,
    verdicts: BTreeMap<CommandId, PlayedCommand>,
    /// The leases that these entries grant and end.
    pub(crate) leases: LoggedLeases,
}

impl Default for AuthHistory {
    fn default() -> AuthHistory {
        AuthHistory {
            commands: BTreeMap::new(),
            entries: BTreeMap::new(),
            applied: FIRST_ENTRY,
            states: BTreeMap::from([(0, Arc::default())]),
            verdicts: BTreeMap::new(),
            leases: LoggedLeases::default(),
        }
    }
}

impl AuthHistory {
    /// A client asks a member for something.
    pub(crate) fn begins(&mut self, id: CommandId, caller: Caller, request: ClientRequest) {
        self.commands.insert(id, (caller, request));
    }

    /// An append is sent.
    pub(crate) fn sent(&mut self, message: &Message) {
        let Body::Append { previous_term, entries, .. } = &message.body else { return };
        let mut before = *previous_term;
        for entry in entries {
            let previous_term = std::mem::replace(&mut before, entry.term);
            self.entries.entry((entry.index, entry.term)).or_insert_with(|| {
                let is_batch = entry.kind == EntryKind::Batch;
                let batch = is_batch.then(|| batch::decode(&entry.payload).ok()).flatten();
                let commands = batch.map_or_else(Vec::new, |batch| batch.commands);
                let id = |command: &batch::LogCommand| {
                    (command.origin.member, command.origin.run, command.sequence)
                };
                let leases = commands.iter().flat_map(lease_steps).collect();
                SentEntry { previous_term, commands: commands.iter().map(id).collect(), leases }
            });
        }
    }

    /// The users and roles of a member, by what it has applied and shows of them. They must be those of the model.
    pub(crate) fn state_of(
        &mut self,
        member: usize,
        applied: AppliedId,
        shown: (u64, bool),
    ) -> Result<Arc<AuthModel>, Violation> {
        self.commit(applied)?;
        let here = self.states.range(..=applied.index).next_back().map(|(_, state)| state.clone());
        let here = here.unwrap_or_default();
        if here.position() == shown {
            return Ok(here);
        }
        // The next entry is applied in part.
        let next = self.entries.range((applied.index + 1, 0)..=(applied.index + 1, u64::MAX));
        for (_, entry) in next.filter(|(_, entry)| entry.previous_term == applied.term) {
            let within = self.play(entry, here.clone()).into_iter().map(|(_, verdict)| verdict.state);
            if let Some(state) = within.into_iter().find(|state| state.position() == shown) {
                return Ok(state);
            }
        }
        let text = format!(
            "member {member} at index {} shows auth revision and mode {shown:?}, the model has {:?}",
            applied.index,
            here.position()
        );
        Violation::err(CHECK, text)
    }

    /// What the model says of a command, once a member has applied it.
    pub(crate) fn verdict(&mut self, applied: AppliedId, id: CommandId) -> Result<&PlayedCommand, Violation> {
        self.commit(applied)?;
        match self.verdicts.get(&id) {
            Some(verdict) => Ok(verdict),
            None => {
                let asked = self.commands.get(&id);
                Violation::err(CHECK, format!("{asked:?} was answered, but not applied"))
            }
        }
    }

    /// Leases were listed by a member that had applied `from` when the listing began and `through` at its end.
    pub(crate) fn listed(&mut self, leases: &[i64], from: u64, through: AppliedId) -> Result<(), Violation> {
        self.commit(through)?;
        self.leases.listed(leases, (from, through.index))
    }

    /// A member has applied an entry: so it is committed, and all entries before it.
    fn commit(&mut self, applied: AppliedId) -> Result<(), Violation> {
        let (mut index, mut term) = (applied.index, applied.term);
        let mut chain = Vec::new();
        while index > self.applied.0 {
            let Some(entry) = self.entries.get(&(index, term)) else {
                let text = format!("entry {index} of term {term} was applied, but never sent");
                return Violation::err(CHECK, text);
            };
            chain.push((index, term));
            (index, term) = (index - 1, entry.previous_term);
        }
        for at in chain.into_iter().rev() {
            let before = self.states.last_key_value().map(|(_, state)| state.clone()).unwrap_or_default();
            let entry = &self.entries[&at];
            entry.leases.iter().for_each(|step| self.leases.committed(at.0, *step));
            let verdicts = self.play(entry, before.clone());
            let behind = verdicts.last().map_or(&before, |(_, verdict)| &verdict.state);
            if !Arc::ptr_eq(behind, &before) {
                self.states.insert(at.0, behind.clone());
            }
            self.verdicts.extend(verdicts);
            self.applied = at;
        }
        Ok(())
    }

    /// What the model says of the commands of an entry, one after the other.
    fn play(&self, entry: &SentEntry, mut state: Arc<AuthModel>) -> Vec<(CommandId, PlayedCommand)> {
        let mut verdicts = Vec::new();
        for id in &entry.commands {
            let Some((caller, request)) = self.commands.get(id) else { continue };
            let mut outcome = state.judge(caller, request);
            if let (Ok(()), ClientRequest::Auth(command)) = (outcome, request) {
                let mut next = (*state).clone();
                outcome = next.change(command);
                state = if next == *state { state } else { Arc::new(next) };
            }
            verdicts.push((*id, PlayedCommand { state: state.clone(), outcome }));
        }
        verdicts
    }
}

/// Whether the users and roles of a member, one by one, are those of the model.
pub(crate) fn same_users(member: usize, reader: &Reader, state: &AuthModel) -> Result<(), Violation> {
    let users: Vec<_> = reader.auth_users().into_iter().filter_map(|name| reader.auth_user(&name)).collect();
    let own = users.iter().map(|user| (&user.name, user.roles.iter().collect::<Vec<_>>()));
    let same = own.eq(state.users.iter().map(|(name, roles)| (name, roles.iter().collect())));
    let roles: Vec<_> = reader.auth_roles().into_iter().filter_map(|name| reader.auth_role(&name)).collect();
    let own = roles.iter().map(|role| {
        let grants = role.permissions.iter().map(|grant| (&grant.start, &grant.end, grant.kind));
        (&role.name, grants.collect::<Vec<_>>())
    });
    let model = state.roles.iter().map(|(name, grants)| {
        let grants = grants.iter().map(|grant| (&grant.start, &grant.end, grant.kind));
        (name, grants.collect::<Vec<_>>())
    });
    if same && own.eq(model) {
        return Ok(());
    }
    let text = format!("member {member} has\n  {users:?}\n  {roles:?}\nthe model has\n  {state:?}");
    Violation::err(CHECK, text)
}
